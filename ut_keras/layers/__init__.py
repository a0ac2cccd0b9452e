"""Layers of the Transformer and the Universal Transformer, one concept a file, in rooms.

    from ut_keras import layers

    layers.TransformerLayer(layers.MultiHeadAttention(8, 512), layers.FeedForward(2048, 512))

They take explicit arguments and never see hparams. Those that one puts a Keras model together from
are here by name, all others where they lie. Shapes: B batch, S input_length, T target_length,
H num_heads, D hidden_size, F filter_size, V vocab_size, N recurrence steps.
"""

import importlib
from typing import Any

_MODULES = {
    "ACTHalting": "halting.halting",
    "AdaptiveComputationTime": "depth.act",
    "BasicRecurrence": "depth.recurrence",
    "FeedForward": "transition.transition",
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
    "TransformerBlock": "depth.stack",
    "TransformerLayer": "depth.transformer_layer",
}
__all__ = list(_MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
