import json
import math
import pathlib
import types

import keras
import numpy as np
import pytest

from ut_keras import registry
from ut_keras.optimizers import learning_rate

_GOLDEN = pathlib.Path(__file__).parents[1] / "testdata" / "t2t" / "optim" / "learning_rate.json"
_SETTINGS = json.loads(_GOLDEN.read_text())
_TRAIN_STEPS = 250000


@pytest.mark.parametrize("name", sorted(_SETTINGS))
def test_matches_t2t(name):
    golden = _SETTINGS[name]
    schedule = learning_rate.from_hparams(types.SimpleNamespace(**golden["hparams"]))
    rates = [float(schedule(step)) for step in golden["global_step"]]
    np.testing.assert_allclose(rates, golden["learning_rate"], rtol=2e-6, atol=1e-12)


def _rate(step, train_steps=None, **fields):
    return float(learning_rate.HParamsSchedule(train_steps=train_steps, **fields)(step))


@pytest.mark.parametrize(
    "step, expected",
    [(0, 1.0), (500, 1.0), (750, 0.5), (999, 0.002), (1000, 0.0), (2000, 0.0)],
)
def test_linear_decay(step, expected):
    rate = _rate(step, 1000, learning_rate_schedule="linear_decay", learning_rate_decay_steps=500)
    assert rate == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("step, expected", [(0, 1.0), (10, 1.0), (60, 0.5), (110, 0.0)])
def test_single_cycle_cos_decay(step, expected):
    rate = _rate(
        step,
        110,
        learning_rate_schedule="single_cycle_cos_decay",
        learning_rate_warmup_steps=10,
    )
    assert rate == pytest.approx(expected, abs=1e-6)


def _legacy(step, scheme, **fields):
    return _rate(
        step,
        learning_rate_schedule="legacy",
        learning_rate_decay_scheme=scheme,
        learning_rate=1.0,
        optimizer="momentum",
        **fields,
    )


def test_noam_without_warmup_decreases_from_the_start():
    rates = [_legacy(step, "noam", learning_rate_warmup_steps=0, hidden_size=25) for step in (0, 3)]
    assert rates == pytest.approx([1000.0, 500.0])


def test_legacy_warmup_is_exponential():
    rates = [_legacy(step, "none", learning_rate_warmup_steps=10) for step in (0, 5, 10)]
    assert rates == pytest.approx([0.01, 0.1, 1.0], rel=1e-5)


@pytest.mark.parametrize("staircase, expected", [(False, 0.5**1.5), (True, 0.5)])
def test_legacy_exp(staircase, expected):
    rate = _legacy(
        250,
        "exp",
        learning_rate_warmup_steps=100,
        learning_rate_decay_steps=100,
        learning_rate_decay_rate=0.5,
        learning_rate_decay_staircase=staircase,
    )
    assert rate == pytest.approx(expected, rel=1e-5)


def test_legacy_sqrt():
    assert _legacy(125, "sqrt", learning_rate_warmup_steps=100) == pytest.approx(100.0)


def test_legacy_cosine():
    rates = [
        _legacy(step, "cosine", learning_rate_cosine_cycle_steps=100) for step in (0, 50, 100, 150)
    ]
    assert rates == pytest.approx([1.0, 0.5, 0.0, 0.5], abs=1e-5)


def test_legacy_cyclelinear10x():
    rates = [
        _legacy(step, "cyclelinear10x", learning_rate_warmup_steps=100) for step in (100, 150, 200)
    ]
    assert rates == pytest.approx([3.3, 1.8, 0.3], rel=1e-5)


def test_legacy_correction_requires_lower_case_adam():
    fields = {"learning_rate_schedule": "legacy", "learning_rate": 1.0}
    assert _rate(0, optimizer="adam", **fields) == pytest.approx(0.002)
    assert _rate(0, optimizer="Adam", **fields) == pytest.approx(1.0)


def test_multistep_optimizer_divides_the_step():
    fields = {"learning_rate_schedule": "linear_warmup", "learning_rate_warmup_steps": 10}
    assert _rate(8, optimizer_multistep_accumulate_steps=4, **fields) == pytest.approx(0.2)


def test_config_round_trip():
    schedule = learning_rate.HParamsSchedule(
        train_steps=100,
        learning_rate_schedule="constant*single_cycle_cos_decay",
        learning_rate_constant=3.0,
        learning_rate_warmup_steps=10,
    )
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(schedule)))
    restored = keras.saving.deserialize_keras_object(config)
    assert restored.get_config() == schedule.get_config()
    assert float(restored(60)) == pytest.approx(3.0 * (math.cos(math.pi * 5 / 9) / 2 + 0.5))


def test_config_of_an_older_version_is_accepted():
    older = {"learning_rate_boundaries": [], "learning_rate_multiples": []}
    assert _rate(0, learning_rate_schedule="constant", **older) == 1.0
    with pytest.raises(ValueError, match="fields must be among .*Received: \\['rate'\\]"):
        _rate(0, rate=1.0)
    with pytest.raises(ValueError, match="learning_rate_decay_scheme"):
        _rate(0, learning_rate_schedule="legacy", learning_rate_decay_scheme="linear")


def test_unknown_factor_lists_the_nearest():
    with pytest.raises(registry.UnknownNameError, match="linear_warmup"):
        learning_rate.HParamsSchedule(learning_rate_schedule="linear_warmupp*rsqrt_decay")


def test_train_steps_are_required_by_linear_decay():
    with pytest.raises(
        ValueError, match="train_steps must be set for linear_decay.*Received: None"
    ):
        learning_rate.HParamsSchedule(learning_rate_schedule="linear_decay")
    with pytest.raises(
        ValueError, match="train_steps=10, .*the hparam learning_rate_warmup_steps=1"
    ):
        learning_rate.HParamsSchedule(
            train_steps=10,
            learning_rate_schedule="single_cycle_cos_decay",
            learning_rate_warmup_steps=10,
        )
