"""Hyperparameters as dicts and files: ours, and T2T's hparams.json."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from ut_keras.files import json_file, whole_file
from ut_keras.hparam.basic import BasicHParams
from ut_keras.hparam.field import HParamError, specs
from ut_keras.hparam.lstm import LSTMHParams
from ut_keras.hparam.transformer import TransformerHParams, UniversalTransformerHParams
from ut_keras.t2t.names.hparam_keys import T2T_BOOKKEEPING, T2T_FUNCTION_TABLES, modernize

C = TypeVar("C", bound=type[BasicHParams])

_CLASSES = [TransformerHParams, UniversalTransformerHParams, LSTMHParams]


def register(cls: C) -> C:
    """Decorator of a dataclass of hyperparameters, so that runs with them can be read again.

    @hparam.register
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class MyHParams(UniversalTransformerHParams):
        num_memory_tokens: int = hparam.field(4, "[0, inf)", architecture=True)
    """
    _CLASSES.append(cls)
    return cls


def classes() -> tuple[type[BasicHParams], ...]:
    """Returns the classes of hyperparameters that there are."""
    return tuple(_CLASSES)


def from_dict(values: Mapping[str, Any]) -> BasicHParams:
    """Makes hyperparameters from a dict: ours, or the content of T2T's hparams.json.

    Args:
        values: dict from name to value. What is missing keeps its default; T2T's bookkeeping is
            ignored, and fields that only older T2T 1.x has, where they change nothing.

    Returns:
        an instance of the class that has most of the names: `TransformerHParams`,
        `UniversalTransformerHParams`, `LSTMHParams` or one that was registered.

    Raises:
        HParamError: if a name is unknown, or a value has the wrong type or is out of range.
    """
    cls = max(_CLASSES, key=lambda cls: len(specs(cls).keys() & values.keys()))  # the first
    for name in T2T_FUNCTION_TABLES & values.keys():
        if values[name] not in ({}, "{}"):
            raise HParamError(
                f"{name} must be empty: functions cannot be replaced by hparams. "
                f"Received: {name}={values[name]!r}."
            )
    ignored = T2T_BOOKKEEPING | T2T_FUNCTION_TABLES
    values = {name: value for name, value in values.items() if name not in ignored}
    return cls().override(modernize(cls, values))


def save(hp: BasicHParams, path: str) -> None:
    """Writes `hp` to a JSON file, whole or not at all."""
    with whole_file.writing(path) as file:
        json.dump(hp.to_dict(), file, indent=2)
        file.write("\n")


def load(path: str) -> BasicHParams:
    """Reads what `save` wrote, or T2T's hparams.json.

    Raises:
        HParamError: if the file holds no hyperparameters.
    """
    try:
        return from_dict(json_file.read(path, HParamError))
    except HParamError as error:
        if str(path) in str(error):
            raise
        raise HParamError(f"{path}: {error}") from error
