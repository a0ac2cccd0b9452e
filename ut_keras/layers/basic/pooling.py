"""What of all positions a row as a whole is read from."""

from typing import Literal

import tensorflow as tf

Pooling = Literal["mean", "masked_mean", "last"]


def pool(x: tf.Tensor, pooling: Pooling, padding_mask: tf.Tensor | None = None) -> tf.Tensor:
    """One vector of those of all positions.

    Args:
        x: float tensor [B, S, D].
        pooling: "mean" of all positions, padding included as in T2T; "masked_mean" of those that
            are no padding; "last", the last one that is none.
        padding_mask: bool tensor [B, S], True where there is no padding. Optional: all are real.
    Returns:
        float tensor [B, D]; zeros of a row that is all padding, but for "mean".
    """
    if pooling == "mean" or (pooling == "masked_mean" and padding_mask is None):
        return tf.reduce_mean(x, axis=1)
    if padding_mask is None:
        return x[:, -1]
    read = padding_mask
    if pooling == "last":
        read = tf.logical_and(read, tf.cumsum(tf.cast(read, tf.int32), 1, reverse=True) == 1)
    read = tf.cast(read, x.dtype)[:, :, tf.newaxis]
    return tf.math.divide_no_nan(tf.reduce_sum(x * read, axis=1), tf.reduce_sum(read, axis=1))
