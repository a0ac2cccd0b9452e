"""T2T's layers.common_hparams: the values that its sets begin with, and ranges to search."""

from collections.abc import Callable
from typing import Any

from ut_keras.hparam.basic import BasicHParams
from ut_keras.hparam.ranges import RangedHParams  # noqa: F401
from ut_keras.t2t import hparam, models

# Where they differ from the defaults of ours, which are `transformer_base`'s.
_BASIC = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "max_length": 0,
    "clip_grad_norm": 2.0,
    "initializer": "orthogonal",
    "initializer_gain": 1.5,
    "optimizer_adam_epsilon": 1e-6,
    "optimizer_adam_beta1": 0.85,
    "weight_decay": 1e-6,
    "learning_rate_schedule": "legacy",
    "learning_rate_constant": 1.0,
    "learning_rate_decay_scheme": "none",
    "learning_rate_warmup_steps": 100,
    "learning_rate": 0.1,
    "moe_num_experts": 64,
    "moe_loss_coef": 0.01,
    "layer_preprocess_sequence": "none",
    "layer_postprocess_sequence": "dan",
    "shared_embedding_and_softmax_weights": False,
    "symbol_modality_num_shards": 1,
}


def basic_params1() -> hparam.HParams:
    """T2T's `basic_1`, as values to change; what it becomes, its fields say at the end."""
    return hparam.of(BasicHParams().override(_BASIC))


def __getattr__(name: str) -> Callable[[], Any]:
    return getattr(models, name)
