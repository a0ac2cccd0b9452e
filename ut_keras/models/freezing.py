"""Layers of a model that are frozen: their names in its config."""

from collections.abc import Collection, Iterator

import keras

from ut_keras.ops import private_api


def frozen(model: keras.Model) -> list[str]:
    """Return the sorted paths of the layers with `trainable=False`, for the config of a model.

    Keras stores `trainable` in the config of each layer. Our models make their layers from the
    hparams, so without this list a loaded model would make all layers trainable again, and the
    optimizer's state for the others would be lost.
    """
    return sorted(layer.path for layer in _named_layers(model) if not layer.trainable)


def freeze(model: keras.Model, paths: Collection[str]) -> None:
    """Set `trainable=False` for the layers that `frozen` listed, and True for all others."""
    if paths:
        # Setting a layer also sets the layers inside it. Those come later in this order.
        for layer in _named_layers(model):
            layer.trainable = layer.path not in paths


def _named_layers(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """Iterate over the layers that have been built. The others have no path and no weights."""
    layers = private_api.flatten_layers(model)
    return (layer for layer in layers if layer is not model and layer.path)
