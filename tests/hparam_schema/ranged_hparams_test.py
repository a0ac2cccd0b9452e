"""Tests of hyperparameter ranges, and of the values that a trial samples from the ranges."""

import random

import pytest

from ut_keras import hparams
from ut_keras.hparam_schema import HParamError, ranged_hparams
from ut_keras.hparam_schema.ranged_hparams import RangedHParams


class _RandomTrial:
    """A trial that samples uniformly on the given scale."""

    def __init__(self):
        self._random = random.Random(1)

    def suggest_float(self, name, low, high, log=False):
        draw = self._random.random()
        return low * (high / low) ** draw if log else low + (high - low) * draw

    def suggest_int(self, name, low, high, log=False):
        return round(self.suggest_float(name, low - 0.5, high + 0.5) if not log else low)

    def suggest_categorical(self, name, values):
        return self._random.choice(values)


def _sample(fill, times=400):
    ranged = RangedHParams()
    fill(ranged)
    (item,) = ranged.ranges
    trial = _RandomTrial()
    return [item.suggest(trial) for _ in range(times)]


def test_float_range_uses_its_scale():
    shares = []
    for scale in (None, RangedHParams.LOG_SCALE, RangedHParams.REVERSE_LOG_SCALE):
        values = _sample(lambda r, s=scale: r.set_float("dropout", 0.001, 1, scale=s))
        assert all(0.001 <= value <= 1 for value in values)
        shares.append(sum(value < 0.5 for value in values) / len(values))
    assert 0.4 < shares[0] < 0.6 and shares[1] > 0.85 and shares[2] < 0.15


def test_int_range_includes_both_ends():
    assert set(_sample(lambda r: r.set_int("num_heads", 2, 4))) == {2, 3, 4}


def test_discrete_and_categorical_ranges_sample_all_values():
    assert set(_sample(lambda r: r.set_discrete("hidden_size", [64, 16, 32]))) == {16, 32, 64}
    values = _sample(lambda r: r.set_categorical("transformer_ffn_type", ["fc", "sepconv"]))
    assert set(values) == {"fc", "sepconv"}


@pytest.mark.parametrize(
    "fill, value, stored",
    [
        (lambda r: r.set_float("dropout", 0.25, 1.0), 0.5, 0.5),
        (lambda r: r.set_float("dropout", 0.25, 1, scale=r.REVERSE_LOG_SCALE), 0.5, 0.75),
        (lambda r: r.set_int("num_heads", 2, 9, scale=r.REVERSE_LOG_SCALE), 4, 7),
        (lambda r: r.set_discrete("hidden_size", [32, 16, 64]), 32, 1),
        (lambda r: r.set_discrete("hidden_size", [1, 0], scale=r.REVERSE_LOG_SCALE), 1, 1),
        (lambda r: r.set_categorical("pos", [None, "timing"]), None, None),
    ],
)
def test_stored_returns_the_value_of_the_trial(fill, value, stored):
    ranged = RangedHParams()
    fill(ranged)
    (item,) = ranged.ranges
    assert item.checked(value) == value
    assert item.stored(value) == stored and item.value_of(stored) == value


def test_checked_converts_to_the_type_of_the_range():
    ranged = RangedHParams()
    ranged.set_float("dropout", 0, 1)
    ranged.set_int("num_heads", 2, 4)
    ranged.set_categorical("use_bias", [True, False])
    dropout, num_heads, use_bias = ranged.ranges
    assert repr(dropout.checked(1)) == "1.0" and repr(num_heads.checked(3.0)) == "3"
    assert use_bias.checked(False) is False
    for item, value in ((dropout, float("nan")), (num_heads, 2.5), (use_bias, 1)):
        with pytest.raises(HParamError, match=f"{item.name} must be .* Received: {value}"):
            item.checked(value)


def test_later_call_replaces_range_of_same_type():
    ranged = RangedHParams()
    ranged.set_float("dropout", 0.0, 0.5)
    ranged.set_float("dropout", 0.1, 0.2)
    assert [item.values for item in ranged.ranges] == [(0.1, 0.2)]
    with pytest.raises(ValueError, match="dropout must remain a float range. Received: discrete"):
        ranged.set_discrete("dropout", [0.1])


@pytest.mark.parametrize(
    "fill, message",
    [
        (lambda r: r.set_float("dropout", 0.5, 0.1), "Received: 0.5 to 0.1"),
        (lambda r: r.set_float("dropout", 0.0, 0.1, scale=r.LOG_SCALE), "above 0 on a log scale"),
        (lambda r: r.set_float("dropout", 0.0, float("inf")), "finite"),
        (lambda r: r.set_discrete("num_heads", []), "Received: none for num_heads"),
        (lambda r: r.set_int("num_heads", 1, 2, length=3), "length must be None"),
    ],
)
def test_impossible_range_is_rejected(fill, message):
    with pytest.raises(ValueError, match=message):
        fill(RangedHParams())


@pytest.mark.parametrize(
    "fill, message",
    [
        (lambda r: r.set_discrete("hiden_size", [8]), "hidden_size"),
        (lambda r: r.set_discrete("hidden_size", [8.5]), "hidden_size must be an int"),
        (lambda r: r.set_float("relu_dropout", 0.0, 1.0), "relu_dropout must be"),
        (lambda r: r.set_categorical("ffn_layer", ["fc"]), "ffn_layer must be one of"),
    ],
)
def test_check_hparams_rejects_invalid_ranges(fill, message):
    ranged = RangedHParams()
    fill(ranged)
    with pytest.raises(HParamError, match=message):
        ranged_hparams.check_hparams(ranged.ranges, hparams.get("transformer_base"))


def test_ignored_notes_name_ranges_without_effect():
    ranged = RangedHParams()
    ranged.set_float("learning_rate", 0.1, 1.0)
    ranged.set_float("learning_rate_constant", 0.1, 1.0)
    ranged.set_discrete("kernel_height", [1, 3])
    base = hparams.get("transformer_base")
    lines = ranged_hparams.ignored_notes(ranged.ranges, base)
    assert [line.split()[0] for line in lines] == ["learning_rate", "kernel_height"]
    assert "reads learning_rate_constant" in lines[0]
    legacy = base.override("learning_rate_schedule=legacy")
    lines = ranged_hparams.ignored_notes(ranged.ranges, legacy)
    assert [line.split()[0] for line in lines] == ["learning_rate_constant", "kernel_height"]
