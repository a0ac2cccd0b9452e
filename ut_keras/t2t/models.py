"""T2T's modules of models: classes to derive from, and the functions of its sets.

A class with methods of its own is a model of TensorFlow 1 and is refused by its name; one without
is one of ours under another name. The function of a set gives ours, by name, as values to change.
"""

from collections.abc import Callable
from typing import Any

from ut_keras import hparams as hparams_lib
from ut_keras import models
from ut_keras.hparam import TransformerHParams, UniversalTransformerHParams
from ut_keras.hparam.field import specs
from ut_keras.hparams.registry import RANGES
from ut_keras.t2t import hparam, misc_utils


class T2TModel:
    """What models of T2T derive from."""

    OURS: str | None = None


for _name in models.names():  # Transformer, LSTMSeq2seqAttention, …
    _class = misc_utils.snakecase_to_camelcase(_name).replace("Lstm", "LSTM")
    globals()[_class] = type(_class, (T2TModel,), {"OURS": _name})


def ours(model_class: type) -> str | None:
    """The name of our model that a class is, with nothing of its own; None if it is another."""
    for cls in model_class.__mro__:
        if cls.__module__ == __name__:
            return getattr(cls, "OURS", None)
        own = {name for name in vars(cls) if not name.startswith("__")} | (
            {"__init__"} & vars(cls).keys()
        )
        if own:
            return None
    return None


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


def __getattr__(name: str) -> Callable[..., Any]:
    """The function of a set, which returns an `HParams`, or of a range."""
    if name in RANGES:
        return RANGES.get(name)
    if name not in hparams_lib.names():
        raise AttributeError(name)
    return lambda: hparam.of(hparams_lib.get(name))
