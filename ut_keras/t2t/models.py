"""T2T's modules of models and sets: classes to derive from, and the functions of its sets.

A class with methods of its own is a model of TensorFlow 1 and is refused by its name; one without
is one of ours under another name. The function of a set gives ours, by name, as values to change.
"""

from collections.abc import Callable
from typing import Any

from ut_keras import hparams as hparams_lib
from ut_keras import models
from ut_keras.hparam import BasicHParams, TransformerHParams, UniversalTransformerHParams
from ut_keras.hparam.field import specs
from ut_keras.hparam.ranges import RangedHParams  # noqa: F401
from ut_keras.hparams.lstm import BASIC
from ut_keras.hparams.registry import RANGES
from ut_keras.hparams.transformer import fit_for_tpu
from ut_keras.t2t import hparam, naming


class T2TModel:
    """What models of T2T derive from."""

    BUILT_IN_NAME: str | None = None


for _name in models.names():  # Transformer, LSTMSeq2seqAttention, …
    _class = naming.snakecase_to_camelcase(_name).replace("Lstm", "LSTM")
    globals()[_class] = type(_class, (T2TModel,), {"BUILT_IN_NAME": _name})


def built_in_name(model_class: type) -> str | None:
    """The name of our model that a class is, with nothing of its own; None if it is another."""
    for cls in model_class.__mro__:
        if cls.__module__ == __name__:
            return getattr(cls, "BUILT_IN_NAME", None)
        if any(name == "__init__" or not name.startswith("__") for name in vars(cls)):
            return None
    return None


def basic_params1() -> hparam.HParams:
    """T2T's `basic_1`, as values to change; what it becomes, its fields say at the end."""
    return hparam.from_dataclass(BasicHParams().override(BASIC))


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


def update_hparams_for_tpu(hparams: hparam.HParams) -> hparam.HParams:
    """Gives the hparams of a Transformer what T2T's sets for TPUs have."""
    before = TransformerHParams(batch_size=hparams.batch_size)
    changed = set(fit_for_tpu(before).to_dict().items()) - set(before.to_dict().items())
    return hparams.override_from_dict(dict(changed))


def __getattr__(name: str) -> Callable[..., Any]:
    """The function of a set, which returns an `HParams`, or of a range."""
    if name in RANGES:
        return RANGES.get(name)
    if name not in hparams_lib.names():
        raise AttributeError(name)
    return lambda: hparam.from_dataclass(hparams_lib.get(name))


def __dir__() -> list[str]:
    return [*globals(), *hparams_lib.names(), *RANGES.names()]
