"""Adaptive sets of ours that start deep: with a halting bias of -3 positions first use all steps.

T2T's bias of +1 makes every position halt after about 2 steps before anything is learned.
"""

import dataclasses

from ut_keras.hparam import UniversalTransformerHParams
from ut_keras.hparams import universal_transformer
from ut_keras.hparams.registry import derived, register_derived


def start_deep(hp: UniversalTransformerHParams) -> UniversalTransformerHParams:
    """Lets every position begin with (nearly) `act_max_steps` steps."""
    return dataclasses.replace(hp, act_halting_bias_init=-3.0)


adaptive_universal_transformer_base_deepstart = derived(
    universal_transformer.adaptive_universal_transformer_base, start_deep
)
adaptive_universal_transformer_small_deepstart = derived(
    universal_transformer.adaptive_universal_transformer_small, start_deep
)
adaptive_universal_transformer_tiny_deepstart = derived(
    universal_transformer.adaptive_universal_transformer_tiny, start_deep
)
# The demo's, which learns a small task on a CPU within minutes: narrow, at most 4 steps; a short
# warm-up and one fall of the learning rate.
adaptive_universal_transformer_quick = derived(
    adaptive_universal_transformer_tiny_deepstart,
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

register_derived(globals())
