"""Convert hyperparameters to and from dicts and JSON files, including T2T's files."""

import dataclasses
import functools
import keyword
from collections.abc import Mapping
from typing import Any, TypeVar

from ut_keras.files import file_error, json_file
from ut_keras.hparam_schema import older_versions
from ut_keras.hparam_schema.basic import BasicHParams
from ut_keras.hparam_schema.field import HParamError, specs, training
from ut_keras.hparam_schema.lstm_hparams import LSTMHParams
from ut_keras.hparam_schema.neural_gpu_hparams import NeuralGPUHParams
from ut_keras.hparam_schema.removed_fields import ANY, REMOVED, T2T_BOOKKEEPING
from ut_keras.hparam_schema.transformer_hparams import (
    TransformerHParams,
    UniversalTransformerHParams,
)
from ut_keras.registry import is_notebook_rerun

C = TypeVar("C", bound=type[BasicHParams])

# Keys of T2T's hparams.json whose values are dicts from feature to function. If one of these dicts
# is not empty, the user's code has replaced a function of T2T, and an error is raised.
T2T_FUNCTION_TABLES = frozenset({"bottom", "loss", "name", "top", "weights_fn"})

# Fields of earlier versions of ut_keras, each with the values that select the current behavior.
# Files of older runs contain these fields.
RETIRED = {
    "num_memory_tokens": (0,),
    "recurrence_backprop_steps": (0,),
}

# `from_dict` finds the class of hparams by their field names. For these models, T2T's field names
# are not sufficient, so a field with its default value is added. The keys are the beginnings of the
# models' names.
_MARKERS: dict[str, dict[str, Any]] = {
    "lstm_": {"attention_mask_padding": False},
    "neural_gpu": {"conv_mask_padding": False},
    "diagonal_neural_gpu": {"conv_mask_padding": False},
}

_CLASSES = [TransformerHParams, UniversalTransformerHParams, LSTMHParams, NeuralGPUHParams]


def register(cls: C) -> C:
    """Register a dataclass of hyperparameters, so that `load` can read its files.

    @hparam.register
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class MyHParams(UniversalTransformerHParams):
        num_scratch_tokens: int = hparam.field(4, "[0, inf)", architecture=True)
    """
    _CLASSES[:] = [*(known for known in _CLASSES if not is_notebook_rerun(known, cls)), cls]
    return cls


def classes() -> tuple[type[BasicHParams], ...]:
    """Return the registered classes of hyperparameters."""
    return tuple(_CLASSES)


def from_dict(values: Mapping[str, Any]) -> BasicHParams:
    """Create hyperparameters from a dict.

    The dict is a result of `to_dict` or the content of T2T's hparams.json.

    Args:
        values: dict from name to value. Missing fields keep their defaults. T2T's bookkeeping keys
            are ignored. Fields of older T2T 1.x versions are ignored if their values do not change
            the behavior. The value of "added" is a dict with the fields that an hparams set of a
            T2T package adds.

    Returns:
        An instance of the class that has the largest number of these names: `TransformerHParams`,
        `UniversalTransformerHParams`, `LSTMHParams`, `NeuralGPUHParams` or a registered class.

    Raises:
        HParamError: if a name is unknown, or a value has the wrong type or is out of range.
    """
    # If several classes have equally many of the names, `max` returns the first of these classes.
    cls = max(_CLASSES, key=lambda cls: len(specs(cls).keys() & values.keys()))
    for name in T2T_FUNCTION_TABLES & values.keys():
        if values[name] not in ({}, "{}"):
            raise HParamError(
                f"{name} must be empty: an hparam cannot replace a function. "
                f"Received: {name}={values[name]!r}."
            )
    ignored = T2T_BOOKKEEPING.keys() | T2T_FUNCTION_TABLES | {"added"}
    added = values.get("added", {})
    if not isinstance(added, dict):
        raise HParamError(f"added must be a dict. Received: added={added!r}.")
    values = {name: value for name, value in values.items() if name not in ignored}
    hp = cls().override(modernize(cls, values))
    return _with_added(hp, added) if added else hp


def for_t2t_model(model_name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return T2T's hparams of a model so that `from_dict` finds their class.

    For some models, the function adds a field. It replaces values of older T2T versions by the
    values that mean the same in T2T 1.15 (see `older_versions`).

    Args:
        model_name: str. T2T's name of the model.
        values: dict from name to value, the content of T2T's hparams.json.

    Raises:
        HParamError: if T2T 1.15 cannot compute the outputs or learning rates of an older version.
    """
    beginning = next((name for name in _MARKERS if model_name.startswith(name)), "")
    return {**_MARKERS.get(beginning, {}), **older_versions.to_current(values)}


def _with_added(hp: BasicHParams, values: Mapping[str, Any]) -> BasicHParams:
    """Return a copy of `hp` with additional fields, given as {name: value}.

    Each field has the type of its value.
    """
    for name in values:
        if hasattr(hp, name) or not name.isidentifier() or keyword.iskeyword(name):
            raise HParamError(
                f"An added field must have a new name that is an identifier. Received: {name}."
            )
    kinds = tuple((name, str if v is None else type(v)) for name, v in values.items())
    cls: Any = type(hp)
    return _extended(cls, kinds)(**vars(hp), **values)


@functools.cache
def _extended(cls, kinds):
    """Return a subclass with additional fields (name, type).

    Its instances can be pickled.
    """
    fields = [(name, kind | None, training(None)) for name, kind in kinds]
    more = {
        "ADDED": tuple(name for name, _ in kinds),
        "__reduce__": lambda self: (from_dict, (self.to_dict(),)),
    }
    return dataclasses.make_dataclass(
        cls.__name__, fields, bases=(cls,), namespace=more, frozen=True, kw_only=True
    )


def save(hp: BasicHParams, path: str) -> None:
    """Write `hp` atomically to a JSON file."""
    json_file.write(file_error.checked_path(path, "path"), hp.to_dict())


def load(path: str) -> BasicHParams:
    """Read a file that `save` wrote, or T2T's hparams.json.

    Raises:
        HParamError: if the file does not contain hyperparameters.
    """
    path = file_error.checked_path(path, "path")
    try:
        return from_dict(json_file.read(path, HParamError))
    except HParamError as error:
        if str(path) in str(error):
            raise
        raise HParamError(f"{path}: {error}") from error


def modernize(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values of an older T2T version to the values that T2T 1.15 would write.

    Args:
        cls: class of the hparams.
        values: dict from name to value, the content of an hparams.json.

    Returns:
        dict without the retired fields. In fields that are now bool, 0 and 1 become False and True.
        In fields whose default was None in older versions, None becomes the current default.

    Raises:
        HParamError: if the value of a retired field selects a behavior that is not supported.
    """
    known = specs(cls)
    modern: dict[str, Any] = {}
    for name, value in values.items():
        if name in REMOVED and name not in known:
            harmless, remedy = REMOVED[name]
            if ANY not in harmless and value not in harmless:
                expected = " or ".join([*map(repr, harmless), "absent"])
                raise HParamError(
                    f"The field {name} must be {expected}. Received: {name}={value!r}. "
                    f"{remedy[0].upper()}{remedy[1:]}."
                )
        elif name in RETIRED and name not in known:
            if value not in RETIRED[name]:
                raise HParamError(
                    f"The removed field {name} must be {' or '.join(map(repr, RETIRED[name]))}. "
                    f"Received: {name}={value!r}."
                )
        elif name in known and known[name].kind is bool and type(value) is int and value in (0, 1):
            modern[name] = bool(value)
        elif name == "optimizer_multistep_accumulate_steps" and value is None:
            modern[name] = known[name].default
        elif name == "recurrence_backprop_steps" and value == 0:
            modern[name] = None  # in earlier versions of ut_keras, 0 meant "through all steps"
        else:
            modern[name] = value
    return modern
