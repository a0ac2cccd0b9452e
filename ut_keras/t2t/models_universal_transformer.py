"""T2T's models.research.universal_transformer: the functions of its sets, and its classes."""

from collections.abc import Callable
from typing import Any

from ut_keras.hparam import TransformerHParams, UniversalTransformerHParams
from ut_keras.hparam.field import specs
from ut_keras.t2t import hparam, sets
from ut_keras.t2t.t2t_model import (  # noqa: F401
    UniversalTransformer,
    UniversalTransformerEncoder,
)


def update_hparams_for_universal_transformer(hparams: hparam.HParams) -> hparam.HParams:
    """Gives the hparams of a Transformer the fields of a Universal Transformer."""
    universal, transformer = specs(UniversalTransformerHParams), specs(TransformerHParams)
    for name in universal:
        if name not in transformer:
            hparams.add_hparam(name, universal[name].default)
    hparams.daisy_chain_variables = False
    hparams.pos = None
    hparams.num_rec_steps = hparams.num_hidden_layers
    hparams.act_max_steps = 2 * hparams.num_hidden_layers
    return hparams


def __getattr__(name: str) -> Callable[[], Any]:
    return sets.function(name)
