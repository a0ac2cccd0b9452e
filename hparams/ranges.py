"""Ranges to search (`--hparams_range`): T2T's, under its names, and one of ours.

A range is a function that fills in a `RangedHParams`; see docs/tuning.md.
"""

from ut_keras.hparam.ranges import RangedHParams
from ut_keras.hparams.registry import register_range

# --- T2T's, Transformer ---------------------------------------------------------------------------


@register_range("transformer_base_range")
def transformer_base_range(rhp: RangedHParams) -> None:
    _learning_rate(rhp)
    _optimizer(rhp)
    rhp.set_float("weight_decay", 0.0, 1e-4)


@register_range("transformer_tpu_range")
def transformer_tpu_range(rhp: RangedHParams) -> None:
    _learning_rate(rhp)
    _optimizer(rhp)
    rhp.set_float("weight_decay", 0.0, 2.0)


@register_range("transformer_tiny_tpu_range")
def transformer_tiny_tpu_range(rhp: RangedHParams) -> None:
    _learning_rate(rhp)
    rhp.set_float("weight_decay", 0.0, 2.0)


# --- T2T's, Universal Transformer -----------------------------------------------------------------


@register_range("universal_transformer_base_range")
def universal_transformer_base_range(rhp: RangedHParams) -> None:
    rhp.set_discrete("num_rec_steps", [6, 8, 10])
    _universal_transformer(rhp)


@register_range("adaptive_universal_transformer_base_range")
def adaptive_universal_transformer_base_range(rhp: RangedHParams) -> None:
    rhp.set_discrete("act_max_steps", [8, 16, 32])
    rhp.set_float("act_loss_weight", 0.0, 0.5)
    _universal_transformer(rhp)


# --- Ours -----------------------------------------------------------------------------------------


@register_range("adaptive_universal_transformer_quick_range")
def adaptive_universal_transformer_quick_range(rhp: RangedHParams) -> None:
    """What `adaptive_universal_transformer_quick` depends on most; by the schedule it has."""
    rhp.set_float("learning_rate_constant", 3e-4, 1e-2, scale=rhp.LOG_SCALE)
    rhp.set_discrete("learning_rate_warmup_steps", [50, 100, 200, 400])
    rhp.set_float("act_loss_weight", 1e-4, 0.1, scale=rhp.LOG_SCALE)
    rhp.set_discrete("act_max_steps", [2, 4, 6])


def _learning_rate(rhp):
    rhp.set_float("learning_rate", 0.3, 3.0, scale=rhp.LOG_SCALE)


def _optimizer(rhp):
    rhp.set_discrete("learning_rate_warmup_steps", [1000, 2000, 4000, 8000, 16000])
    rhp.set_float("initializer_gain", 0.5, 2.0)
    rhp.set_float("optimizer_adam_beta1", 0.85, 0.95)
    rhp.set_float("optimizer_adam_beta2", 0.97, 0.99)


def _universal_transformer(rhp):
    rhp.set_discrete("hidden_size", [1024, 2048, 4096])
    rhp.set_discrete("filter_size", [2048, 4096, 8192])
    rhp.set_discrete("num_heads", [8, 16, 32])
    rhp.set_categorical("transformer_ffn_type", ["sepconv", "fc"])
    _learning_rate(rhp)
    rhp.set_float("weight_decay", 0.0, 2.0)
