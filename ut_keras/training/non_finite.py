"""The loss and the weights must be finite: what says that they are not, and what to try then."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.errors import UserError
from ut_keras.training import train_step


class NonFinite(ArithmeticError):
    """What is not finite any more, and at which step; a loop makes a `NonFiniteError` of it."""


class NonFiniteError(UserError, ArithmeticError):
    """The loss or a weight is not finite any more."""


class WeightCheck(train_step.Hook):
    """Keeps weights that are not finite from being saved.

    Args:
        model: a built Keras model.
    """

    def __init__(self, model: keras.Model) -> None:
        self._variables = model.trainable_variables

    def before_save(self, step: int) -> None:
        finite = [tf.reduce_all(tf.math.is_finite(variable)) for variable in self._variables]
        for variable, is_finite in zip(self._variables, tf.stack(finite).numpy(), strict=True):
            if not is_finite:
                raise NonFinite(f"{variable.path} at step {step}")


def error(received: Any, newest: Any) -> NonFiniteError:
    """The error to raise.

    Args:
        received: `NonFinite`.
        newest: str, which checkpoint there is.
    """
    return NonFiniteError(
        f"The loss and the weights must be finite. Received: {received}. Try a lower "
        "learning_rate_constant (or learning_rate), more learning_rate_warmup_steps or "
        f"clip_grad_norm=1.0. Nothing of the broken weights was saved; {newest}."
    )
