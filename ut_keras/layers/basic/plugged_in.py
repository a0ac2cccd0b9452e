"""Checks of a user's layers in a model: the arguments of `call`, and the weights."""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from ut_keras.ops import private_api

_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def unbuilt_layers(layers: Iterable[Any]) -> Iterator[keras.layers.Layer]:
    """Iterate over all layers that are not built yet, including nested layers.

    A layer without its own `build` has no weights except in the layers inside it. It is therefore
    not part of the result.
    """
    for layer in layers:
        for part in () if layer is None else private_api.flatten_layers(layer):
            if not part.built and type(part).build is not keras.layers.Layer.build:
                yield part


def accepts(layer: keras.layers.Layer, *names: str) -> frozenset[str]:
    """Return the names in `names` that the layer's `call` accepts as arguments.

    A `call` with `**kwargs` accepts all names, unless it is a `call` of Keras itself. For example,
    `keras.Sequential.call` passes `**kwargs` to its layers, which may not accept them.
    """
    parameters = inspect.signature(layer.call).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    if takes_all and not _has_call_of_keras(layer):
        return frozenset(names)
    return frozenset(names) & parameters.keys()


def _has_call_of_keras(layer):
    owner = next((cls for cls in type(layer).__mro__ if "call" in vars(cls)), type(layer))
    return owner.__module__.partition(".")[0] == "keras"


def takes_mask(layer: keras.layers.Layer) -> bool:
    """Return whether a layer gets the padding mask as `mask`, as Keras' own layers do.

    Keras would also pass the mask to a `Softmax` in a `Sequential`. `Softmax` would raise an error,
    because its mask must have the shape of its input. Such a layer gets no mask.
    """
    if accepts(layer, "padding_mask") or not accepts(layer, "mask"):
        return False
    return not (_has_call_of_keras(layer) and _has_softmax(layer))


def _has_softmax(layer):
    return isinstance(layer, keras.layers.Softmax) or any(map(_has_softmax, _members(layer)))


def _members(layer):
    """Return the layers of a `Sequential` or a functional model, without its inputs."""
    layers = layer.layers if isinstance(layer, keras.Model) else []
    return [part for part in layers if not isinstance(part, keras.layers.InputLayer)]


def check_call(name: str, layer: Any, positional: int, *keywords: str) -> None:
    """Check that a layer can be called as its model calls it.

    Args:
        name: str, the hparam or argument that selects the layer.
        layer: the layer, or None.
        positional: int, the number of arguments that the model passes by position.
        *keywords: the arguments that the model passes by name.

    Raises:
        ValueError: if `layer` is not a Keras layer, or its `call` does not accept the arguments.
    """
    if layer is None:
        return
    if not isinstance(layer, keras.layers.Layer):
        raise ValueError(f"{name} must be a Keras layer. Received: {type(layer).__name__}.")
    signature = inspect.signature(layer.call)
    try:
        signature.bind(*[None] * positional, **dict.fromkeys(keywords))
    except TypeError as error:
        named = [p for p in signature.parameters.values() if p.kind not in _VARIABLE]
        count = f"{positional} positional argument{'s' if positional > 1 else ''}"
        takes = " and ".join([count, *keywords]) if keywords else count
        raise ValueError(
            f"{name} must be a layer whose `call` accepts {takes}. "
            f"Received: {type(layer).__name__}.call({', '.join(p.name for p in named)})."
        ) from error
