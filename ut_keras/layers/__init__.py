"""Layers of the Transformer and the Universal Transformer, one concept a file, in rooms.

    from ut_keras import layers

    layers.TransformerLayer(layers.MultiHeadAttention(8, 512), layers.FeedForward(2048, 512))

They take explicit arguments and never see hparams. Those that one puts a Keras model together from
are here by name, all others where they lie. Shapes: B batch, S input_length, T target_length,
H num_heads, D hidden_size, F filter_size, V vocab_size, N recurrence steps.
"""

import importlib
import importlib.util
import pkgutil
import warnings
from collections.abc import Callable
from typing import Any

_WHERE = {
    "ACTHalting": "halting.halting",
    "AdaptiveComputationTime": "depth.act",
    "BasicRecurrence": "depth.recurrence",
    "FeedForward": "transition.feed_forward",
    "LayeredDepth": "depth.stack",
    "MultiHeadAttention": "attention.attention",
    "SeparableConvFeedForward": "transition.separable_convolution",
    "SigmaMoE": "transition.sigma_moe",
    "SinusoidPosition": "position.timing_signal",
    "Stack": "depth.stack",
    "StepInputs": "basic.signature",
    "StepTimingSignal": "position.timing_signal",
    "SwiGLU": "transition.swiglu",
    "SymbolEmbedding": "basic.embedding",
    "TransformerBlock": "depth.transformer_block",
    "TransformerLayer": "depth.transformer_layer",
}
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    """A layer; or a module by where it was before there were rooms (`layers.act`)."""
    if name in _WHERE:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    rooms = [room.name for room in pkgutil.iter_modules(__path__)]
    if not name.startswith("_") and name not in rooms:
        for room in rooms:
            where = f"{__name__}.{room}.{name}"
            if importlib.util.find_spec(where):
                _warn(f"{__name__}.{name}", where)
                return importlib.import_module(where)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def members_before(room: str) -> Callable[[str], Any]:
    """The `__getattr__` of a room that has the name of a module, which lies in it now.

    Args:
        room: str, the room's `__name__`.
    """

    def get(name: str) -> Any:
        where = f"{room}.{room.rpartition('.')[2]}"
        if name.startswith("_") or importlib.util.find_spec(f"{room}.{name}"):
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        member = getattr(importlib.import_module(where), name)
        _warn(f"{room}.{name}", where)
        return member

    return get


def _warn(old, new):
    warnings.warn(f"{old} is in {new} now", DeprecationWarning, stacklevel=3)
