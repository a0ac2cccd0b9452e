"""The decoder's view of the targets."""

import tensorflow as tf


def shift_right(targets: tf.Tensor) -> tf.Tensor:
    """Moves embedded targets one position on; the first position becomes the zero vector.

    Args:
        targets: float tensor [B, T, D].
    Returns:
        float tensor [B, T, D].
    References: T2T `common_layers.shift_right_3d`.
    """
    return tf.pad(targets, [[0, 0], [1, 0], [0, 0]])[:, :-1]
