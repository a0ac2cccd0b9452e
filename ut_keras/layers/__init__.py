"""Keras layers of the Transformer and the Universal Transformer.

    from ut_keras import layers

    attention = layers.MultiHeadAttention(num_heads=8, hidden_size=512)
    transition = layers.FeedForward(filter_size=2048, hidden_size=512)
    layer = layers.TransformerLayer(attention, transition)

The layers take explicit arguments and do not depend on hparams. This module exports the layers that
users combine into Keras models. Import all other layers from their own modules:

- `basic`: embeddings, dense layers, dropout, normalization;
- `attention`: multi-head attention, its variants, and the decoding cache;
- `position`: position and step signals;
- `transition`: transition functions;
- `depth`: Transformer layers, stacks of Transformer layers, and recurrences in depth;
- `halting`: halting rules;
- `lstm`: LSTMs;
- `neural_gpu`: the convolutional units and the recurrence of the Neural GPU.

Letters in shapes: B batch, S input_length, T target_length, H num_heads, D hidden_size,
F filter_size, V vocab_size, N recurrence steps.
"""

from ut_keras.process import silent_tensorflow  # noqa: F401  (before the imports of TensorFlow)

# isort: split
import importlib
from typing import Any

# Each name is imported at its first use. Python runs this file before it imports any module of the
# package. If this file imported all layers, every such import would load all of them.
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
