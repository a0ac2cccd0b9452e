"""Copies of tensors, for gradients that repeat a part of the forward pass.

TensorFlow and XLA compute equal operations with the same inputs only once, and keep the result. A
gradient that computes the result again needs less memory, but it must read copies of the inputs.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ut_keras.ops import private_api

_UNUSED_NAN = 0x7FABCDEF  # the bits of a float32 that no operation computes


def copies_after(upstream: Sequence[Any], values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return copies of tensors, computed only after the upstream gradients.

    A gradient may call a function of the forward pass a second time. The forward pass then need not
    keep the function's intermediate tensors. If both calls had the same inputs, TensorFlow and XLA
    would skip the second call, and keep the intermediate tensors. Therefore the gradient calls the
    function with these copies.

    Args:
        upstream: upstream gradients. An entry may be None. Under XLA, one of them must be a float
            tensor.
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
    """Return a bool tensor that is always False, computed from a float tensor.

    XLA does not know that the result is always False. So XLA keeps the operations that read it.
    """
    return tf.bitcast(tf.cast(x, tf.float32), tf.int32) == _UNUSED_NAN
