"""Checks of a user's layers in a model: the arguments of `call`, and the weights."""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from ut_keras.ops import private_api

# Layers of Keras whose output at a position depends on other positions.
_RECURRENT = (keras.layers.RNN, keras.layers.Bidirectional)  # these layers use a mask of padding
_CONVOLUTIONS = (
    keras.layers.Conv1D,
    keras.layers.Conv1DTranspose,
    keras.layers.DepthwiseConv1D,
    keras.layers.SeparableConv1D,
)
_OTHERS = (
    keras.layers.AdditiveAttention,
    keras.layers.Attention,
    keras.layers.AveragePooling1D,
    keras.layers.GlobalAveragePooling1D,
    keras.layers.GlobalMaxPooling1D,
    keras.layers.GroupNormalization,
    keras.layers.GroupQueryAttention,
    keras.layers.MaxPooling1D,
    keras.layers.MultiHeadAttention,
)
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


def mixing_layers(layer: Any) -> Iterator[keras.layers.Layer]:
    """Yield the layers in a transition that read other positions and have no cache.

    They are layers of Keras, such as `LSTM` and `Conv1D`, and layers of this library that
    would need a cache, such as `SRU`. The function cannot find operations in the `call` of a user's
    layer. It yields nothing for a transition with the method `cache_widths`, which declares what
    the transition reads.

    Args:
        layer: a transition, or None.
    """
    if layer is None or hasattr(layer, "cache_widths"):
        return
    for part in private_api.flatten_layers(layer):
        reads_one = isinstance(part, _CONVOLUTIONS) and set(part.kernel_size) == {1}
        mixes = isinstance(part, (*_RECURRENT, *_CONVOLUTIONS, *_OTHERS)) and not reads_one
        if mixes or hasattr(part, "cache_widths"):
            yield part


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


def reads_padding(layer: Any) -> bool:
    """Return whether a layer of a transition reads padding, such as `Conv1D`.

    If a user's layer accepts a mask, the function assumes that the layer uses the mask.
    """
    parts = list(mixing_layers(layer))
    if not parts or not (accepts(layer, "padding_mask") or takes_mask(layer)):
        return bool(parts)
    if not _has_call_of_keras(layer):
        return False
    if not all(isinstance(part, _RECURRENT) for part in parts):
        return True
    # A layer without `supports_masking` removes the mask for the layers after it.
    return any(reads_padding(part) or not part.supports_masking for part in _members(layer))


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
