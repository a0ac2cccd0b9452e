"""Adaptive sets of ours that start deep: with a halting bias of -3 positions first use all steps.

T2T's bias of +1 makes every position halt after about 2 steps before anything is learned.
"""

import dataclasses

from hparams import universal_transformer
from hparams.registry import register
from ut_keras.hparam import UniversalTransformerHParams


def start_deep(hp: UniversalTransformerHParams) -> UniversalTransformerHParams:
    """Lets every position begin with (nearly) `act_max_steps` steps."""
    return dataclasses.replace(hp, act_halting_bias_init=-3.0)


@register("adaptive_universal_transformer_base_deepstart")
def adaptive_universal_transformer_base_deepstart() -> UniversalTransformerHParams:
    return start_deep(universal_transformer.adaptive_universal_transformer_base())


@register("adaptive_universal_transformer_small_deepstart")
def adaptive_universal_transformer_small_deepstart() -> UniversalTransformerHParams:
    return start_deep(universal_transformer.adaptive_universal_transformer_small())


@register("adaptive_universal_transformer_tiny_deepstart")
def adaptive_universal_transformer_tiny_deepstart() -> UniversalTransformerHParams:
    return start_deep(universal_transformer.adaptive_universal_transformer_tiny())
