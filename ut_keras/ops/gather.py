"""Rows of a weight, with a gradient that optimizers can use."""

import tensorflow as tf


def rows(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Return rows of a table, like `tf.gather`. The gradient is a tensor of the table's shape.

    The gradient of `tf.gather` is a `tf.IndexedSlices` with one row for each id, and several rows
    can have the same id. Keras's optimizers square and clip each of these rows instead of their
    sum. The gradient of `tf.reshape` adds the rows of equal ids.

    Args:
        table: float [V, ...].
        ids: int [...], in [0, V).

    Returns:
        float [..., ...], of the dtype of the table.

    References: T2T `common_layers.convert_gradient_to_tensor`.
    """
    return tf.gather(tf.reshape(table, table.shape), ids)
