"""Whether tensors hold numbers: a NaN or an infinity among weights makes every output one.

finite.check("model.safetensors", weights.items())     DataError, with the name of the weight
"""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from ut_keras.errors import DataError


def first_non_finite(named: Iterable[tuple[str, Any]]) -> str | None:
    """Returns the name of the first of (name, tensor) that holds a NaN or an infinity, or None."""
    for name, value in named:
        tensor = tf.convert_to_tensor(value)
        if tensor.dtype.is_floating and not tf.reduce_all(tf.math.is_finite(tensor)):
            return name
    return None


def check(title: str, named: Iterable[tuple[str, Any]]) -> None:
    """Raises DataError if one of (name, tensor) is not finite; `title` says where they are."""
    if name := first_non_finite(named):
        raise DataError(f"{title} must hold finite weights. Received: {name}, with NaN or inf.")


def check_model(model: Any) -> None:
    """Raises DataError if a weight of a Keras model is not finite."""
    check("model", ((weight.path, weight.value) for weight in model.weights))
