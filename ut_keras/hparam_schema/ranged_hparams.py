"""Ranges of hyperparameters for a search, with the method names of T2T.

    def my_range(rhp):
        rhp.set_float("learning_rate_constant", 0.3, 3.0, scale=rhp.LOG_SCALE)
        rhp.set_discrete("hidden_size", [128, 256, 512])

A function that was written for T2T's `register_ranged_hparams` works unchanged. This module does
not import TensorFlow.

References: tensor2tensor/layers/common_hparams.py, `RangedHParams`.
"""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from ut_keras.hparam_schema.basic import BasicHParams
from ut_keras.hparam_schema.field import HParamError, specs
from ut_keras.hparam_schema.removed_fields import unknown_hparam_message

_FLOAT, _INT, _DISCRETE, _CATEGORICAL = "float", "int", "discrete", "categorical"


@dataclasses.dataclass(frozen=True)
class Range:
    """The values that one hyperparameter may take."""

    name: str
    # The kind is "float", "int" (both ends are allowed), "discrete" (ordered numbers) or
    # "categorical".
    kind: str
    values: tuple  # the ends of an interval, or all values
    # A scale of `RangedHParams` on which the values of an interval are uniformly distributed, or
    # None for linear. Discrete values are always uniformly distributed.
    scale: int | None = None

    def suggest(self, trial: Any) -> Any:
        """Request a value from a tuner's trial.

        Args:
            trial: `optuna.Trial`, or an object with its methods `suggest_float`, `suggest_int` and
                `suggest_categorical`.

        Returns:
            The value. The trial itself stores `self.stored(value)`.
        """
        low, high = self.values[0], self.values[-1]
        log = self.scale in (RangedHParams.LOG_SCALE, RangedHParams.REVERSE_LOG_SCALE)
        if self.kind == _CATEGORICAL:
            return trial.suggest_categorical(self.name, self.values)
        if self.kind == _DISCRETE:
            return self.value_of(trial.suggest_int(self.name, 0, len(self.values) - 1))
        suggest = trial.suggest_float if self.kind == _FLOAT else trial.suggest_int
        return self.value_of(suggest(self.name, low, high, log=log))

    def checked(self, value: Any) -> Any:
        """Return a value that the user chose, converted to the type of this range.

        Raises:
            HParamError: if the value is not in this range.
        """
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if self.kind in (_DISCRETE, _CATEGORICAL):
            # In Python, True == 1, so the comparison includes the types.
            for own in self.values:
                if own == value and isinstance(own, bool) == isinstance(value, bool):
                    return own
        elif is_number and self.values[0] <= value <= self.values[1]:
            if self.kind == _FLOAT:
                return float(value)
            if value == int(value):
                return int(value)
        raise HParamError(f"{self.name} must be {self._expected()}. Received: {value!r}.")

    @property
    def is_stored_unchanged(self) -> bool:
        """Whether `stored` returns the values unchanged."""
        is_mirrored = self.scale == RangedHParams.REVERSE_LOG_SCALE
        return self.kind == _CATEGORICAL or not (self.kind == _DISCRETE or is_mirrored)

    def stored(self, value: Any) -> Any:
        """Return the form in which a tuner's trial stores a value of this range.

        For a discrete value, the trial stores its index in the ordered values. On the reversed log
        scale, the trial stores the value mirrored at the middle of the range. In all other cases,
        the trial stores the value itself.
        """
        if self.is_stored_unchanged:
            return value
        return self.values.index(value) if self.kind == _DISCRETE else self._mirrored(value)

    def value_of(self, stored: Any) -> Any:
        """Return the value that a trial has stored in the form of `stored`."""
        if self.is_stored_unchanged:
            return stored
        return self.values[stored] if self.kind == _DISCRETE else self._mirrored(stored)

    def _mirrored(self, value):
        """Mirror a value at the middle of the range, for the reversed log scale."""
        return self.values[0] + self.values[1] - value

    def _expected(self):
        if self.kind in (_DISCRETE, _CATEGORICAL):
            return f"one of {', '.join(map(str, self.values))}"
        return f"{'an integer' if self.kind == _INT else 'a number'} in {list(self.values)}"

    def __str__(self) -> str:
        if self.kind in (_DISCRETE, _CATEGORICAL):
            return f"{self.name} in {{{', '.join(map(str, self.values))}}}"
        scale = RangedHParams.SCALES_STR.get(self.scale, "")
        return f"{self.name} in [{self.values[0]}, {self.values[1]}]{scale and f' ({scale})'}"


class RangedHParams:
    """Collects ranges through T2T's four methods.

    The argument `length`, which T2T uses for lists, must be None.
    """

    LINEAR_SCALE = 1
    LOG_SCALE = 2
    REVERSE_LOG_SCALE = 3
    SCALES_STR: dict[int | None, str] = {
        LOG_SCALE: "log scale",
        REVERSE_LOG_SCALE: "reversed log scale",
    }

    def __init__(self) -> None:
        self._ranges: dict[str, Range] = {}

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The ranges as a tuple of `Range`, in the order of the calls."""
        return tuple(self._ranges.values())

    def set_categorical(self, name: str, categories: Iterable[Any], length: None = None) -> None:
        """Add a choice between unordered `categories`."""
        self._add(name, _CATEGORICAL, categories, None, length)

    def set_discrete(
        self,
        name: str,
        feasible_points: Iterable[float],
        scale: int | None = None,
        length: None = None,
    ) -> None:
        """Add a choice between the numbers `feasible_points`, which are ordered."""
        self._add(name, _DISCRETE, sorted(feasible_points), scale, length)

    def set_float(
        self,
        name: str,
        min_val: float,
        max_val: float,
        scale: int | None = None,
        length: None = None,
    ) -> None:
        """Add a float between two values."""
        self._add(name, _FLOAT, (float(min_val), float(max_val)), scale, length)

    def set_int(
        self, name: str, min_val: int, max_val: int, scale: int | None = None, length: None = None
    ) -> None:
        """Add an int between two values, which are included."""
        self._add(name, _INT, (min_val, max_val), scale, length)

    def _add(self, name, kind, values, scale, length):
        values = tuple(values)
        if length is not None:
            raise HParamError(f"length must be None for {name}. Received: {length}.")
        if not values:
            raise HParamError(f"A range must have at least one value. Received: none for {name}.")
        if name in self._ranges and self._ranges[name].kind != kind:
            raise HParamError(
                f"{name} must remain a {self._ranges[name].kind} range. Received: {kind}."
            )
        if kind in (_FLOAT, _INT):
            low, high = values
            expected = None
            if not -math.inf < low <= high < math.inf:
                expected = "be between two finite values"
            elif scale in self.SCALES_STR and low <= 0:
                expected = "be above 0 on a log scale"
            if expected:
                raise HParamError(f"{name} must {expected}. Received: {low} to {high}.")
        self._ranges[name] = Range(name, kind, values, scale)


def check_hparams(ranges: Iterable[Range], hp: BasicHParams) -> None:
    """Check that all ends and choices of the ranges are valid values for `hp`.

    Raises:
        HParamError: if a name is unknown or a value has the wrong type or is out of range.
    """
    known = specs(type(hp))
    for item in ranges:
        if item.name not in known:
            raise HParamError(unknown_hparam_message(item.name, known))
        for value in item.values:
            known[item.name].checked(value)


def ignored_notes(ranges: Iterable[Range], hp: BasicHParams) -> list[str]:
    """Return a note for each range whose hyperparameter has no effect in `hp`.

    For example, T2T's ranges include `learning_rate`, but the schedules of its current hparams sets
    do not read that field.
    """
    reasons = {item.name: hp.ignored_reason(item.name) for item in ranges}
    return [f"{name} is searched but has no effect: {why}." for name, why in reasons.items() if why]
