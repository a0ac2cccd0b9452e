"""Save the names of the frozen parts of a model in its config, and restore them."""

from collections.abc import Collection, Iterator

import keras

from ut_keras.ops import private_api


def frozen(model: keras.Model) -> list[str]:
    """Return the sorted paths of the frozen layers and weights, for the config.

    The list contains a frozen weight only if its layer is trainable.

    Keras stores `trainable` in the config of each layer, but it does not store `trainable` of a
    weight. The models of ut_keras create their layers from the hparams instead of these configs.
    Without this list, all parts of a loaded model would be trainable, and the model would lose the
    state of its optimizer.
    """
    layers = {layer.path for layer in _named_layers(model) if not layer.trainable}
    weights = {weight.path for weight in model.weights if not weight.trainable}
    of_frozen_layers = {path for path in weights if path.rpartition("/")[0] in layers}
    return sorted(layers | weights - of_frozen_layers)


def freeze(model: keras.Model, paths: Collection[str]) -> None:
    """Set `trainable=False` for the parts that `frozen` listed, and True for others."""
    if not paths:
        return
    # Setting `trainable` of a layer also sets it in all sublayers and weights. The first loop
    # visits a layer before its sublayers, so the values of the sublayers are correct at the end.
    for layer in _named_layers(model):
        layer.trainable = layer.path not in paths
    for weight in model.weights:
        if weight.path in paths:
            weight.trainable = False


def _named_layers(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """Iterate over the built layers.

    Layers that are not built have no path and no weights.
    """
    layers = private_api.flatten_layers(model)
    return (layer for layer in layers if layer is not model and layer.path)
