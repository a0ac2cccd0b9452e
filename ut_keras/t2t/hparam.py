"""Replacement for T2T's HParams: mutable hparams.

The functions of a package change them.

    hparams = transformer.transformer_base()      an HParams with the values of the set
    hparams.hidden_size = 128
    hparams.add_hparam("filter_size", 512)

`to_dataclass` converts an HParams to the frozen dataclass. It prints a note about fields that only
the package reads. Such fields are used like all other hparams: `--hparams` changes them, and
hparams.json stores them.

References: tensor2tensor/utils/hparam.py.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ut_keras import hparam_schema as hparam_lib
from ut_keras.errors import UserError
from ut_keras.hparam_schema import BasicHParams, removed_fields, saved
from ut_keras.hparam_schema import overrides as hparam_overrides
from ut_keras.hparam_schema.field import BOOLS, specs
from ut_keras.t2t import missing

# A package may use the other names of `REMOVED` for fields of its own.
_IGNORED = {
    *removed_fields.T2T_BOOKKEEPING,
    *saved.T2T_FUNCTION_TABLES,
    *(name for name, removed in removed_fields.REMOVED.items() if removed.harmless),
}


class NoSuchHParam(AttributeError):
    """The package reads a field that does not exist."""


class HParams:
    """Named values, which can be read and set as attributes.

    Setting a name that does not exist adds a field, because functions of T2T's sets rely on this.
    """

    def __init__(self, model_structure: Any = None, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise NoSuchHParam(f"'HParams' object has no attribute {name!r}")

    if TYPE_CHECKING:  # a type checker then accepts every field as an attribute

        def __setattr__(self, name: str, value: Any) -> None: ...

    def add_hparam(self, name: str, value: Any) -> None:
        """Add a field, or set it if it exists.

        Unlike in T2T, an existing field is no error, because ut_keras' sets have fields that T2T's
        sets lack.
        """
        self.__dict__[name] = value

    def set_hparam(self, name: str, value: Any) -> None:
        """Set a field, or raise ValueError if it does not exist."""
        if name not in self.__dict__:
            raise ValueError(f"name must be one of {', '.join(self.__dict__)}. Received: {name}.")
        self.__dict__[name] = value

    def del_hparam(self, name: str) -> None:
        """Remove a field if it exists."""
        self.__dict__.pop(name, None)

    def parse(self, values: str) -> "HParams":
        """Set the fields that "name=value,other_name=value" lists, and return self.

        Raises:
            ValueError: if a field does not exist, or a value does not have the field's type.
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
        """Return the values as a JSON object, without functions."""
        values = {name: value for name, value in self.__dict__.items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> "HParams":
        return self.override_from_dict(json.loads(values_json))

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__

    def __repr__(self) -> str:
        return f"HParams({self.__dict__})"


def from_dataclass(hp: hparam_lib.BasicHParams) -> HParams:
    """Return an HParams with the values of a hparams dataclass."""
    return HParams(**vars(hp), **{name: {} for name in saved.T2T_FUNCTION_TABLES})


def to_dataclass(hparams: HParams | BasicHParams, title: str) -> BasicHParams:
    """Convert the result of a set's function to the frozen dataclass.

    Args:
        hparams: `HParams`, or a dataclass, which is returned unchanged.
        title: str, such as "hparams set my_set". It names the set in the note about added fields.

    Raises:
        UserError: if `hparams` is neither an `HParams` nor such a dataclass.
        HParamError: if a value has the wrong type or is out of range, or if an hparam replaces a
            function of T2T.
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
    # The values are converted to JSON and back, so that they do not change when a run is resumed
    # from its hparams.json.
    kept = json.loads(HParams(**added).to_json())
    return hparam_lib.from_dict({**ours, "added": kept})


def _cast_like(old, value):
    """Convert a word of `parse` to the type of the old value."""
    if isinstance(value, list):
        return [_cast_like(old[0] if old else None, item) for item in value]
    if not isinstance(value, hparam_overrides.UnquotedWord):
        return value
    if isinstance(old, bool):
        return BOOLS[value]
    for kind in (int, float):
        if isinstance(old, kind):
            return kind(value)
    return str(value)
