"""Copies of tensors, from which TensorFlow and XLA compute an operation a second time.

TensorFlow and XLA compute equal operations with the same inputs only once, and keep the result. To
save memory, a gradient may need a second computation instead.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ut_keras.ops import private_api

_UNUSED_NAN = 0x7FABCDEF  # the bits of a float32 that no operation computes


def copies_after(upstream: Sequence[Any], values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return copies of `values` that TensorFlow computes only after the upstream gradients.

    A gradient may call a function of the forward pass a second time. The forward pass then need not
    keep the function's intermediate tensors. But TensorFlow and XLA compute equal operations only
    once. If both calls had the same inputs, TensorFlow and XLA would skip the second call, and keep
    the intermediate tensors. Therefore the gradient calls the function with these copies.

    Args:
        upstream: upstream gradients. An entry may be None.
        values: tensors.
    """
    if tf.executing_eagerly():
        return [tf.identity(value) for value in values]
    upstream = [dy for dy in upstream if dy is not None]
    with tf.control_dependencies(upstream):
        copies = [tf.identity(value) for value in values]
    if not private_api.is_compiled_by_xla():
        return copies
    # XLA ignores control dependencies. Therefore each copy is the sum of a value and `zero`. `zero`
    # is always 0, but XLA only knows that it depends on an upstream gradient.
    first = next(dy for dy in upstream if dy.dtype.is_floating)
    zero = _unknown_zero(tf.reduce_sum(tf.reshape(first, [-1])[:1]))
    return [x | zero if x.dtype == tf.bool else x + tf.cast(zero, x.dtype) for x in copies]


def _unknown_zero(x):
    """Return False for each number of a float tensor.

    The result is always False. XLA does not know this, so it keeps the operations that read the
    result.
    """
    return tf.bitcast(tf.cast(x, tf.float32), tf.int32) == _UNUSED_NAN
