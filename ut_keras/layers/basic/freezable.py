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
        if name != "trainable":
            super().__setattr__(name, value)
            return
        for layer in private_api.flatten_layers(self):
            keras.layers.Layer.trainable.fset(layer, value)
