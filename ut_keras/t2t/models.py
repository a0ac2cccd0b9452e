"""Stand-in for T2T's model modules: base classes, and functions of hparams sets.

A subclass without methods is an alias of a built-in model. A subclass that defines methods is a
TensorFlow 1 model, which is not supported. The function of a set returns the built-in set of that
name as an `HParams`, whose values can be changed.
"""

from collections.abc import Callable
from typing import Any

from ut_keras import hparams as hparams_lib
from ut_keras import models
from ut_keras.hparam_schema import BasicHParams, TransformerHParams, UniversalTransformerHParams
from ut_keras.hparam_schema.field import specs
from ut_keras.hparam_schema.ranged_hparams import RangedHParams  # noqa: F401
from ut_keras.hparams.lstm import BASIC
from ut_keras.hparams.registry import RANGES
from ut_keras.hparams.transformer import fit_for_tpu
from ut_keras.t2t import hparam, naming


class T2TModel:
    """The base class of T2T's models."""

    BUILT_IN_NAME: str | None = None


# This loop creates a class for each built-in model: Transformer, LSTMSeq2seqAttention, NeuralGPU, …
for _name in models.names():
    _class = naming.snakecase_to_camelcase(_name).replace("Lstm", "LSTM")
    _class = _class.replace("Gpu", "GPU")
    globals()[_class] = type(_class, (T2TModel,), {"BUILT_IN_NAME": _name})


def built_in_name(model_class: type) -> str | None:
    """Return the name of a class's built-in model, or None if it defines methods."""
    for cls in model_class.__mro__:
        if cls.__module__ == __name__:
            return getattr(cls, "BUILT_IN_NAME", None)
        if any(name == "__init__" or not name.startswith("__") for name in vars(cls)):
            return None
    return None


def basic_params1() -> hparam.HParams:
    """Return T2T's set `basic_1`. Its fields later determine its dataclass."""
    return hparam.from_dataclass(BasicHParams().override(BASIC))


def update_hparams_for_universal_transformer(hparams: hparam.HParams) -> hparam.HParams:
    """Add the fields of a Universal Transformer to the hparams of a Transformer."""
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
    """Set the fields of a Transformer to the values of T2T's TPU sets."""
    before = TransformerHParams(batch_size=hparams.batch_size)
    changed = set(fit_for_tpu(before).to_dict().items()) - set(before.to_dict().items())
    return hparams.override_from_dict(dict(changed))


def __getattr__(name: str) -> Callable[..., Any]:
    """Return the function with the name of a hparams set or of a range.

    The function of a set returns an `HParams`.
    """
    if name in RANGES:
        return RANGES.get(name)
    if name not in hparams_lib.names():
        raise AttributeError(name)
    return lambda: hparam.from_dataclass(hparams_lib.get(name))


def __dir__() -> list[str]:
    return [*globals(), *hparams_lib.names(), *RANGES.names()]
