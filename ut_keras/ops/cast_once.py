"""Cast the weights of a model before a loop, instead of in each iteration.

    with cast_once.scope(model.trainable_weights, model.compute_dtype):
        tf.while_loop(…)  # the layers of the model use weights that were cast before the loop

Keras stores weights in float32. In a call of a layer with another compute dtype, such as bfloat16,
Keras casts each weight that the layer reads. TensorFlow repeats these casts in each iteration of a
loop. In a search, they can take more time than the matrix products.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras.ops import private_api


def scope(weights: Iterable[keras.Variable], dtype: str) -> contextlib.AbstractContextManager[Any]:
    """Cast weights, and return a scope in which layers use the results.

    A layer reads the same values as without the scope. If a layer reads a weight without a cast, it
    still gets the exact weight. If no weight needs a cast, the scope has no effect.

    The scope is for layers of ut_keras (`own_layers.are_all`). A layer of a user might create
    weights in the scope, which Keras would not initialize. Or it might read a weight in a
    `tf.function` of its own, which TensorFlow calls again outside of the scope.

    Args:
        weights: Keras variables that no layer changes when it is called in the scope. Trainable
            weights meet this condition.
        dtype: the dtype to which layers cast the weights.
    """
    casts = {
        (id(variable), dtype): tf.cast(variable.value, dtype)
        for variable in weights
        if tf.as_dtype(variable.dtype).is_floating and variable.dtype != dtype
    }
    return _CastWeights(casts) if casts else contextlib.nullcontext()


class _CastWeights(keras.StatelessScope):
    """A scope in which layers read tensors instead of weights.

    Args:
        casts: dict from (id of a variable, dtype) to a tensor. The tensor replaces the variable
            where Keras would cast the variable to this dtype.
    """

    def __init__(self, casts: Mapping[tuple[int, str], tf.Tensor]) -> None:
        super().__init__(initialize_variables=False)
        self._casts = casts

    def get_current_value(self, variable: keras.Variable) -> Any:
        """Return the tensor that replaces a variable, or None."""
        # In a call of a layer, this is the dtype to which Keras casts the variable.
        return self._casts.get((id(variable), variable.dtype))

    def add_update(self, update: tuple[keras.Variable, Any]) -> None:
        """Change a variable, such as the state of a random number generator."""
        private_api.assign(*update)
