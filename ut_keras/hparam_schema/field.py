"""Declare hyperparameters, and check their values.

    filter_size: int = field(2048, "[1, inf)", architecture=True)
    recurrence_type: Literal["basic", "act", "gru"] = field("basic", supported=("basic", "act"))
    hard_attention_k: int = unsupported(0)
    daisy_chain_variables: bool = ignored(True, "tf.distribute places the variables")

The annotation gives the type: int, float, bool, str or a Literal of strings, each optionally with
`| None`. The arguments of `field` give all other properties. To allow another value of a
hyperparameter, change only its declaration in this package.
"""

import contextlib
import dataclasses
import functools
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from ut_keras.errors import UserError
from ut_keras.hparam_schema import limits

POSITIVE = "[1, inf)"
NON_NEGATIVE = "[0, inf)"
RATE = "[0, 1)"
STEPS = f"[1, {limits.MOST_STEPS}]"
STEPS_OR_NONE = f"[0, {limits.MOST_STEPS}]"

_KINDS = {int: "an int", float: "a number", bool: "True or False", str: "a string"}
BOOLS = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}


class HParamError(UserError):
    """A hyperparameter is unknown, of the wrong type, out of range or unsupported."""


class UnquotedWord(str):
    """A word without quotes, which is converted to the type of its field."""

    def __repr__(self) -> str:
        return super().__repr__()[1:-1]


class Check(NamedTuple):
    """A condition on a value in addition to its type and interval."""

    expected: str  # completes the sentence "NAME must be …"
    accepts: Callable[[Any], bool]


Conditions = tuple[tuple[str, tuple | range], ...]


@dataclasses.dataclass(frozen=True)
class Facts:
    """The properties of a hyperparameter, other than its type and default."""

    interval: str = ""  # allowed range of a number, such as "[0, 1)"
    check: Check | None = None  # a further condition on the value
    # Whether the value must be the same as in the training of the weights.
    architecture: bool = False
    # The implemented values other than the default. None means that all values are implemented.
    supported: tuple | None = None
    instead: str = ""  # the alternative to an unsupported value
    # Values of older T2T versions, each with a remedy for the error message.
    removed: tuple[tuple[str, str], ...] = ()
    ignored: str = ""  # the reason why the field has no effect, or "" if the field has an effect
    comma_separated: bool = False  # whether a string such as "0,1" may also be given as [0,1]
    number_as_text: bool = False  # whether a string such as "0.5" may also be given as a number
    # If True, the value does not change the function that a trained model computes. Either only
    # training reads the value, or it only affects how examples are batched.
    training: bool = False
    parts: Any = None  # `Registry` whose names are also allowed values
    # Conditions, each a pair (name of another field, values). The field is read only if all
    # conditions hold. A condition holds if the other field has one of the values, or is a product
    # ("a*b") that contains one of the values as a factor. Conditions on fields that the hparams do
    # not have are ignored.
    read_if: Conditions = ()


def field(default: Any, interval: str = "", **facts: Any) -> Any:
    """Declare a hyperparameter with T2T's default and the fields of `Facts`."""
    return dataclasses.field(default=default, metadata={"facts": Facts(interval, **facts)})


training = functools.partial(field, training=True)
unsupported = functools.partial(field, supported=())  # only the default is implemented


def ignored(default: Any, why: str) -> Any:
    """Declare a hyperparameter that has no effect, with the reason `why`."""
    return field(default, ignored=why)


@dataclasses.dataclass(frozen=True)
class FieldSpec:
    """The name, default, type and properties of a hyperparameter."""

    name: str
    default: Any
    kind: type  # int, float, bool or str
    choices: tuple  # tuple of str: the values of a Literal, or () for other types
    optional: bool  # whether None is allowed
    facts: Facts

    @property
    def expected(self) -> str:
        """The allowed values in words, for messages."""
        if self.choices:
            words = "one of " + ", ".join(map(repr, self.all_choices))
        elif self.facts.check:
            words = self.facts.check.expected
        else:
            words = _KINDS.get(self.kind, f"a {self.kind.__name__}")
        if self.facts.interval:
            words += f" in {self.facts.interval}"
        return words + (" or None" if self.optional else "")

    def checked(self, value: Any) -> Any:
        """Return `value`, converted to the type of the field.

        Raises:
            HParamError: if the value has the wrong type or is out of range.
        """
        converted = self._converted(value)
        expected = None if self._accepts(converted) else self.expected
        if not expected and self.kind in (int, float) and converted is not None:
            expected = limits.unmet_limit(converted)
        if expected:
            remedies = [f" {remedy}." for old, remedy in self.facts.removed if old == converted]
            raise HParamError(
                f"{self.name} must be {expected}. Received: {self.name}={value!r}."
                + "".join(remedies)
            )
        if self.facts.parts and "(" in str(converted):
            # This call raises an error if the arguments of the part are wrong.
            self.facts.parts.get(converted)
        return converted

    @property
    def all_choices(self) -> tuple[str, ...]:
        """The values of the Literal and the registered parts."""
        registered = self.facts.parts.names() if self.facts.parts else ()
        return tuple(dict.fromkeys((*self.choices, *registered)))

    def is_supported(self, value: Any) -> bool:
        """Whether `value` is implemented."""
        is_all = self.facts.supported is None
        return is_all or value in self.supported_values or self._is_part(value)

    def _is_part(self, value):
        return self.facts.parts is not None and value in self.facts.parts

    @property
    def supported_values(self) -> tuple:
        """The implemented values of a field that also has unsupported values."""
        return tuple(dict.fromkeys((self.default, *(self.facts.supported or ()))))

    def _converted(self, value):
        if self.facts.comma_separated and isinstance(value, (list, tuple)):
            return ",".join(map(str, value))
        if self.facts.number_as_text and type(value) in (int, float):
            return repr(value)
        if self.optional and self.choices and value == "":  # T2T writes "" instead of None
            return None
        if isinstance(value, UnquotedWord):
            if self.optional and value == "None":
                return None
            try:
                return BOOLS[value] if self.kind is bool else self.kind(value)
            except (KeyError, ValueError):
                return value
        if self.kind is list and isinstance(value, list):
            return [_number(item) if isinstance(item, UnquotedWord) else item for item in value]
        if self.kind is float and type(value) is int:
            return float(value)
        return value

    def _accepts(self, value):
        if value is None:
            return self.optional
        if type(value) is not self.kind:  # `isinstance` would accept True as an int
            return False
        if self.choices:
            return value in self.all_choices or self._is_part(value)
        if self.kind in (int, float) and not _lies_in(value, self.facts.interval or "(-inf, inf)"):
            return False
        return self.facts.check is None or self.facts.check.accepts(value)


def specs(cls: type) -> dict[str, FieldSpec]:
    """Return the hyperparameters of a dataclass, as a dict from name to `FieldSpec`."""
    return _specs(cls)


@functools.cache
def _specs(cls):
    annotations = typing.get_type_hints(cls)
    return {
        f.name: FieldSpec(
            f.name, f.default, *_read(annotations[f.name]), f.metadata.get("facts", Facts())
        )
        for f in dataclasses.fields(cls)
    }


def _read(annotation: Any) -> tuple[type, tuple, bool]:
    """Return (type, choices, is_optional) of an annotation."""
    optional = type(None) in typing.get_args(annotation)
    if optional:
        (annotation,) = (a for a in typing.get_args(annotation) if a is not type(None))
    choices = typing.get_args(annotation)
    return str if choices else annotation, choices, optional


def _number(word):
    """Return a word of a list as an int or float if possible, otherwise as a str."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(word)
    return str(word)


def _lies_in(value, interval):
    low, high = map(float, interval[1:-1].split(","))
    above = value > low if interval[0] == "(" else value >= low
    below = value < high if interval[-1] == ")" else value <= high
    return above and below
