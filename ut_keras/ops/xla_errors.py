"""The errors of XLA's compiler, and their reasons in one line."""

import re

import tensorflow as tf

from ut_keras.errors import UserError

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
_LONGEST_REASON = 200  # characters of a reason from TensorFlow or XLA


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
