"""Set `trainable` of a layer and of all layers and weights inside it."""

from typing import Any

import keras

from ut_keras.ops import private_api


class Freezable(keras.layers.Layer):
    """A layer whose `trainable` always reaches its parts.

    With the TensorFlow backend of Keras 3.15, an assignment has no effect if the attribute already
    has this value. If a caller freezes the parts of a model one by one, `model.trainable` is still
    True. Then `model.trainable = True` would not unfreeze the parts, and later updates would not
    train them. An assignment of False has the same problem.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "trainable":
            _set_trainable(self, bool(value))
        else:
            super().__setattr__(name, value)


def _set_trainable(layer, value):
    """Set `trainable` of a layer and its parts. Visit each layer once.

    If a layer's class has its own property `trainable`, this property also decides for its parts.
    """
    found = type(layer).trainable
    if found is not keras.layers.Layer.trainable and isinstance(found, property) and found.fset:
        found.fset(layer, value)
        return
    private_api.set_own_trainable(layer, value)
    for part in private_api.sublayers(layer):
        _set_trainable(part, value)
