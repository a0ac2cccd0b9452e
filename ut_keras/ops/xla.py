"""Operations that are fast under XLA, and the errors of XLA's compiler."""

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ut_keras.errors import UserError
from ut_keras.ops import private_api

# If XLA cannot compile a function with `jit_compile=True`, TensorFlow raises one of these errors
# before the function changes a variable.
NOT_COMPILED = (
    tf.errors.InvalidArgumentError,
    tf.errors.UnimplementedError,
    tf.errors.NotFoundError,
    tf.errors.InternalError,
    NotImplementedError,
    ValueError,
)
_LONGEST_REASON = 200
_UNUSED_NAN = 0x7FABCDEF  # the bits of a float32 that no operation computes


def why_not_compiled(error: BaseException) -> str:
    """Return one line that says why XLA could not compile a function.

    Args:
        error: one of `NOT_COMPILED`.
    """
    if isinstance(error, UserError):
        return f"{error}".removesuffix(".")
    found = re.search(r"unsupported operations .*? on XLA_\w+: (\w+)", f"{error}", re.DOTALL)
    if found:
        return f"the operation {found[1]} is not supported"
    lines = [line.strip() for line in f"{error}".splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:_LONGEST_REASON]


def depthwise_conv1d(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Compute a depthwise convolution over positions as a sum of shifted products.

    With gradients, XLA's own depthwise convolution takes ten times as long as this function on a
    CPU, and six times as long on an H200. Without XLA, TensorFlow's depthwise convolution is
    faster.

    Args:
        x: float [B, S + K - 1, C].
        kernel: tensor [K, 1, C, 1] with the dtype of `x`.

    Returns:
        float [B, S, C], equal to the result of `tf.nn.depthwise_conv2d` with padding "VALID".
    """
    size = kernel.shape[0]
    length = tf.shape(x)[1] - size + 1
    return tf.add_n([x[:, i : i + length] * kernel[i, 0, :, 0] for i in range(size)])


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

    XLA does not know that the result is always False, so it keeps the operations that read it.
    """
    return tf.bitcast(tf.cast(x, tf.float32), tf.int32) == _UNUSED_NAN
