"""T2T's HParams: a set while its function changes it.

    hparams = transformer.transformer_base()      an HParams with the values of our dataclass
    hparams.hidden_size = 128
    hparams.add_hparam("filter_size", 512)

`to_dataclass` converts it to the frozen dataclass and reports fields that only the package reads.
Such fields are hparams like others: `--hparams` changes them and hparams.json stores them.

References: tensor2tensor/utils/hparam.py.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ut_keras import hparam as hparam_lib
from ut_keras.errors import UserError
from ut_keras.hparam import BasicHParams, saved
from ut_keras.hparam import overrides as hparam_overrides
from ut_keras.hparam.field import BOOLS, specs
from ut_keras.t2t import missing

_IGNORED = saved.T2T_BOOKKEEPING | saved.T2T_FUNCTION_TABLES | set(saved.RETIRED)


class NoSuchHParam(AttributeError):
    """A field is read that is not there."""


class HParams:
    """Names and values; attributes can be read and set.

    Setting a name that is not there makes it: T2T's own functions do so.
    """

    def __init__(self, model_structure: Any = None, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise NoSuchHParam(f"'HParams' object has no attribute {name!r}")

    if TYPE_CHECKING:  # a field is an attribute

        def __setattr__(self, name: str, value: Any) -> None: ...

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a field; one that is there is set, for our sets have fields that T2T's lack."""
        self.__dict__[name] = value

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets a field; raises ValueError if it is not there."""
        if name not in self.__dict__:
            raise ValueError(f"name must be one of {', '.join(self.__dict__)}. Received: {name}.")
        self.__dict__[name] = value

    def del_hparam(self, name: str) -> None:
        """Removes a field, if it is there."""
        self.__dict__.pop(name, None)

    def parse(self, values: str) -> "HParams":
        """Sets what "name=value,other_name=value" says, and returns itself.

        Raises:
            ValueError: if a name is not there, or a word is none of its field's type.
        """
        for name, value in hparam_overrides.parse(values).items():
            try:
                self.set_hparam(name, _cast_like(getattr(self, name, None), value))
            except (KeyError, TypeError) as error:
                kind = type(getattr(self, name)).__name__
                raise ValueError(
                    f"{name} must be of type {kind}. Received: {name}={value}."
                ) from error
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> "HParams":
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def values(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def get(self, key: str, default: Any = None) -> Any:
        return self.__dict__.get(key, default)

    def to_json(
        self,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """Returns the text of a JSON object; functions are left out."""
        values = {name: value for name, value in self.__dict__.items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> "HParams":
        return self.override_from_dict(json.loads(values_json))

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__

    def __repr__(self) -> str:
        return f"HParams({self.__dict__})"


def from_dataclass(hp: hparam_lib.BasicHParams) -> HParams:
    """The HParams with the values of one of our dataclasses."""
    return HParams(**vars(hp), **{name: {} for name in saved.T2T_FUNCTION_TABLES})


def to_dataclass(hparams: HParams | BasicHParams, title: str) -> BasicHParams:
    """The dataclass that a set comes to.

    Args:
        hparams: `HParams`, or one of our dataclasses already.
        title: str, such as "hparams set my_set", for the line about fields that ours lack.

    Raises:
        HParamError: if a value has the wrong type or is out of range, or a function is replaced.
    """
    if not isinstance(hparams, HParams):
        if not isinstance(hparams, hparam_lib.BasicHParams):
            raise UserError(f"{title} must return hparams. Received: {hparams!r}.")
        return hparams
    values = hparams.values()
    known = {name for cls in hparam_lib.classes() for name in specs(cls)} | _IGNORED
    added = {name: values[name] for name in sorted(values.keys() - known)}
    if added:
        missing.print_once(
            f"note: {title} adds {', '.join(added)}, which only the package can read"
        )
    ours = {name: values[name] for name in values if name in known}
    kept = json.loads(HParams(**added).to_json())  # as they come back from a file
    return hparam_lib.from_dict({**ours, "added": kept})


def _cast_like(old, value):
    """A word of `parse` in the type of the value that it takes the place of."""
    if isinstance(value, list):
        return [_like(old[0] if old else None, item) for item in value]
    if not isinstance(value, hparam_overrides.UnquotedWord):
        return value
    if isinstance(old, bool):
        return BOOLS[value]
    for kind in (int, float):
        if isinstance(old, kind):
            return kind(value)
    return str(value)
