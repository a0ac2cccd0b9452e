"""Ranges of hparams for `--hparams_range`: T2T's, and one additional range.

A range is a function that fills a `RangedHParams`; see docs/tuning.md.
"""

import functools
from typing import Any

from ut_keras.hparam_schema.ranged_hparams import RangedHParams
from ut_keras.hparams.registry import RANGES

_LOG = RangedHParams.LOG_SCALE
_LEARNING_RATE = {"learning_rate": (0.3, 3.0, _LOG)}
_OPTIMIZER = {
    "learning_rate_warmup_steps": [1000, 2000, 4000, 8000, 16000],
    "initializer_gain": (0.5, 2.0),
    "optimizer_adam_beta1": (0.85, 0.95),
    "optimizer_adam_beta2": (0.97, 0.99),
}
_UNIVERSAL_TRANSFORMER = {
    "hidden_size": [1024, 2048, 4096],
    "filter_size": [2048, 4096, 8192],
    "num_heads": [8, 16, 32],
    "transformer_ffn_type": ["sepconv", "fc"],
    **_LEARNING_RATE,
    "weight_decay": (0.0, 2.0),
}
# A tuple is (minimum, maximum) or (minimum, maximum, scale). A list contains all values.
_FIELDS: dict[str, dict[str, Any]] = {
    "transformer_base_range": {**_LEARNING_RATE, **_OPTIMIZER, "weight_decay": (0.0, 1e-4)},
    "transformer_tpu_range": {**_LEARNING_RATE, **_OPTIMIZER, "weight_decay": (0.0, 2.0)},
    "transformer_tiny_tpu_range": {**_LEARNING_RATE, "weight_decay": (0.0, 2.0)},
    "universal_transformer_base_range": {"num_rec_steps": [6, 8, 10], **_UNIVERSAL_TRANSFORMER},
    "adaptive_universal_transformer_base_range": {
        "act_max_steps": [8, 16, 32],
        "act_loss_weight": (0.0, 0.5),
        **_UNIVERSAL_TRANSFORMER,
    },
    # T2T does not have this range. It contains the hparams to which
    # `adaptive_universal_transformer_quick` is most sensitive, and the fields of its learning rate
    # schedule.
    "adaptive_universal_transformer_quick_range": {
        "learning_rate_constant": (3e-4, 1e-2, _LOG),
        "learning_rate_warmup_steps": [50, 100, 200, 400],
        "act_loss_weight": (1e-4, 0.1, _LOG),
        "act_max_steps": [2, 4, 6],
    },
}


def _fill_range(fields, rhp):
    for name, values in fields.items():
        if isinstance(values, tuple):
            rhp.set_float(name, *values)
        elif isinstance(values[0], str):
            rhp.set_categorical(name, values)
        else:
            rhp.set_discrete(name, values)


for _name, _fields in _FIELDS.items():
    RANGES.add(_name, functools.partial(_fill_range, _fields))
