"""Rows of a weight, with a gradient that optimizers can use."""

import tensorflow as tf

from ut_keras.ops import custom_gradient


def rows(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Return rows of a table, like `tf.gather`, with a dense gradient.

    The gradient is a tensor of the table's shape. The gradient of `tf.gather` is a
    `tf.IndexedSlices` with one row for each id, and several rows can have the same id. Keras's
    optimizers square and clip each of these rows instead of their sum. The gradient of `tf.reshape`
    adds the rows of equal ids.

    If the table has 16 bits, the gradient adds the rows in float32. TensorFlow would add them in 16
    bits: the sum of 1,000 ones is then 256 in bfloat16.

    Args:
        table: float [V, ...].
        ids: int [...], in [0, V).

    Returns:
        float [..., ...], of the dtype of the table.

    References: T2T `common_layers.convert_gradient_to_tensor`.
    """
    if table.dtype in (tf.bfloat16, tf.float16):
        return _rows_in_16_bits(table, ids)
    return tf.gather(tf.reshape(table, table.shape), ids)


def _rows_in_16_bits(table, ids):
    @custom_gradient.wrap
    def function(table):
        def gradient(upstream):
            return sum_rows(upstream, ids, table.shape[0])

        return tf.gather(table, ids), gradient

    return function(table)


def sum_rows(values: tf.Tensor, ids: tf.Tensor, size: int) -> tf.Tensor:
    """Return a table in which each row is the sum of the values with its id.

    The sum is computed in float32, if the values have 16 bits.

    Args:
        values: float [..., ...], one row for each id.
        ids: int [...], in [0, size).
        size: int V.

    Returns:
        float [V, ...], of the dtype of the values.
    """
    exact = tf.cast(values, tf.float32) if values.dtype.size < 4 else values
    return tf.cast(tf.math.unsorted_segment_sum(exact, ids, size), values.dtype)
