"""A set of ours that learns a small task on a CPU within minutes: the demo's."""

import dataclasses

from hparams import deepstart, universal_transformer
from hparams.registry import register
from ut_keras.hparam import UniversalTransformerHParams


@register("adaptive_universal_transformer_quick")
def adaptive_universal_transformer_quick() -> UniversalTransformerHParams:
    """Narrow, at most 4 steps, started deep; a short warm-up and one fall of the learning rate."""
    return dataclasses.replace(
        deepstart.start_deep(universal_transformer.adaptive_universal_transformer_tiny()),
        hidden_size=128,
        filter_size=256,
        num_heads=4,
        batch_size=2048,
        layer_prepostprocess_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        label_smoothing=0.0,
        learning_rate_schedule="constant*linear_warmup*single_cycle_cos_decay",
        learning_rate_constant=0.003,
        learning_rate_warmup_steps=200,
    )
