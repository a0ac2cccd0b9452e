"""Save the names of the frozen layers of a model in its config, and restore them."""

from collections.abc import Collection, Iterator

import keras

from ut_keras.ops import private_api


def frozen(model: keras.Model) -> list[str]:
    """Return the sorted paths of the layers with `trainable=False`, for the config.

    Keras stores `trainable` in the config of each layer. The models of ut_keras create their layers
    from the hparams instead. Without this list, all layers of a loaded model would be trainable,
    and the model would lose the state of its optimizer.
    """
    return sorted(layer.path for layer in _named_layers(model) if not layer.trainable)


def freeze(model: keras.Model, paths: Collection[str]) -> None:
    """Set `trainable=False` for the layers that `frozen` listed, and True for others."""
    if paths:
        # Setting `trainable` of a layer also sets it in all sublayers. The loop visits a layer
        # before its sublayers, so the values of the sublayers are correct at the end.
        for layer in _named_layers(model):
            layer.trainable = layer.path not in paths


def _named_layers(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """Iterate over the built layers.

    Layers that are not built have no path and no weights.
    """
    layers = private_api.flatten_layers(model)
    return (layer for layer in layers if layer is not model and layer.path)
