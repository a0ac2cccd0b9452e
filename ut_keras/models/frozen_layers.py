"""Which layers of a model are not trained, for its config.

Keras keeps `trainable` of a layer in the config of that layer; a model that makes its layers out of
hparams would make all of them trainable again, and lose the state of an optimizer of the others.
"""

from collections.abc import Collection, Iterator

import keras


def paths(model: keras.Model) -> list[str]:
    """The paths of the layers with `trainable=False`, sorted."""
    return sorted(layer.path for layer in _layers(model) if not layer.trainable)


def freeze(model: keras.Model, frozen: Collection[str]) -> None:
    """Makes these, and no others, layers with `trainable=False`.

    Args:
        model: a built model.
        frozen: what `paths` returned, of a model of the same layers.
    """
    if frozen:
        for layer in _layers(model):  # those inside come later: it sets theirs, too
            layer.trainable = layer.path not in frozen


def _layers(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """Those that have been built under a name; the others have no weights."""
    layers = model._flatten_layers(include_self=False, recursive=True)
    return (layer for layer in layers if layer.path)
