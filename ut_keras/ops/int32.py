"""Conversion of ids to int32 in which an invalid id stays invalid.

    int32.cast(ids)   # int32, with the shape of `ids`

`tf.cast` from int64 drops the higher bits: 2**32 + 5 becomes 5, which is a valid id.
"""

import tensorflow as tf


def cast(ids: tf.Tensor) -> tf.Tensor:
    """Return `ids` as int32, limited to the range of int32.

    Args:
        ids: a tensor of any int dtype.

    Returns:
        int32 tensor of the same shape. An id above the range of int32 becomes 2**31 - 1, and an id
        below the range becomes -2**31. Both values are out of range for every vocabulary, so later
        checks reject them.
    """
    if ids.dtype.is_integer and ids.dtype.max > tf.int32.max:
        ids = tf.minimum(ids, tf.constant(tf.int32.max, ids.dtype))
    if ids.dtype.is_integer and ids.dtype.min < tf.int32.min:
        ids = tf.maximum(ids, tf.constant(tf.int32.min, ids.dtype))
    return tf.cast(ids, tf.int32)
