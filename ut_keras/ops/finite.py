"""Check that weights are finite.

A NaN or an infinity among the weights would reach every output.

    finite.check("model.safetensors", weights.items())     # DataError with the weight's name
"""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from ut_keras.errors import DataError


def first_non_finite(named: Iterable[tuple[str, Any]]) -> str | None:
    """Return the name of the first tensor with a NaN or an infinity, or None.

    Args:
        named: iterable of (name, tensor).
    """
    for name, value in named:
        tensor = tf.convert_to_tensor(value)
        if tensor.dtype.is_floating and not tf.reduce_all(tf.math.is_finite(tensor)):
            return name
    return None


def check(title: str, named: Iterable[tuple[str, Any]]) -> None:
    """Check that all tensors are finite.

    Args:
        title: str, the file or object that contains the tensors, for the message.
        named: iterable of (name, tensor).

    Raises:
        DataError: if a weight is not finite.
    """
    if name := first_non_finite(named):
        raise DataError(f"{title} must hold finite weights. Received: {name}, with NaN or inf.")


def check_model(model: Any) -> None:
    """Check that all weights of a Keras model are finite.

    Raises:
        DataError: if a weight is not finite.
    """
    check("model", ((weight.path, weight.value) for weight in model.weights))
