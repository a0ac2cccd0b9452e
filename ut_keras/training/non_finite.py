"""The loss and the weights must be finite: what says that they are not, and what to try then."""

import tensorflow as tf

from ut_keras.errors import UserError


class NonFiniteError(UserError, ArithmeticError):
    """The loss or a weight is not finite any more."""


def first_weight(model):
    """Path of the first trainable variable with a value that is not finite, or None."""
    variables = model.trainable_variables
    finite = tf.stack([tf.reduce_all(tf.math.is_finite(variable)) for variable in variables])
    for variable, is_finite in zip(variables, finite.numpy(), strict=True):
        if not is_finite:
            return variable.path
    return None


def error(received, newest):
    """The error to raise.

    Args:
        received: str, what is not finite, and at which step.
        newest: str, which checkpoint there is.
    """
    return NonFiniteError(
        f"The loss and the weights must be finite. Received: {received}. Try a lower "
        "learning_rate_constant (or learning_rate), more learning_rate_warmup_steps or "
        f"clip_grad_norm=1.0. Nothing of the broken weights was saved; {newest}."
    )
