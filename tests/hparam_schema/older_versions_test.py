import json
import math
import os

import pytest

from tests import t2t_golden_test as t2t
from ut_keras import hparam_schema, hparams, optimizers
from ut_keras.hparam_schema import older_versions
from ut_keras.optimizers import learning_rate

_STEPS = (0, 5, 9, 10, 500)
_WARMUP = 10


def _old_file(**values):
    """Return the content of an hparams.json of T2T before 1.13."""
    path = os.path.join(t2t.FOLDER, "ckpt", "transformer", "hparams.json")
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    for name in ("split_targets_chunk_length", "learning_rate_constant", "learning_rate_schedule"):
        del content[name]
    return {**content, "learning_rate": 0.1, "optimizer": "Adam", **values}


def _rates(values):
    hp = hparam_schema.from_dict(hparam_schema.for_t2t_model("transformer", values))
    schedule = learning_rate.from_hparams(hp)
    return [float(schedule(step)) for step in _STEPS]


def _noam(step):
    return 5000 * 32**-0.5 * min((step + 1) * _WARMUP**-1.5, (step + 1) ** -0.5)


def _after_warmup(decay):
    return lambda step: (
        math.exp(math.log(0.01) * (1 - step / _WARMUP)) if step < 10 else decay(step)
    )


@pytest.mark.parametrize(
    ("values", "rate"),
    [
        ({"learning_rate_decay_scheme": "noam"}, _noam),
        ({"learning_rate_decay_scheme": "none"}, _after_warmup(lambda step: 1)),
        (
            {
                "learning_rate_schedule": "warmup_and_decay",
                "learning_rate_decay_scheme": "sqrt",
            },
            _after_warmup(lambda step: 500 / math.sqrt(max(step - 10, 1))),
        ),
        (
            {
                "learning_rate_schedule": "linear_warmup_rsqrt_decay",
                "learning_rate_decay_scheme": "none",
            },
            _noam,
        ),
        ({"learning_rate_schedule": "legacy", "optimizer": "TrueAdam"}, _noam),
    ],
)
def test_files_of_older_versions_keep_their_rates(values, rate):
    """T2T before 1.13 multiplies the rate of each Adam by 0.002."""
    expected = [0.1 * 0.002 * rate(step) for step in _STEPS]
    assert _rates(_old_file(**values)) == pytest.approx(expected, rel=1e-5)


def test_other_optimizers_have_no_correction():
    expected = [0.1 * _noam(step) for step in _STEPS]
    assert _rates(_old_file(optimizer="Momentum")) == pytest.approx(expected, rel=1e-5)


def test_files_since_1_13_do_not_change():
    """T2T 1.13 to 1.15 reduce the rate only if the name contains "adam" in lower case."""
    values = _old_file(learning_rate_schedule="legacy", split_targets_chunk_length=0)
    assert older_versions.to_current(values) == values
    assert _rates(values) == pytest.approx([0.1 * _noam(step) for step in _STEPS], rel=1e-5)


def test_dicts_without_decay_scheme_keep_the_default_schedule():
    assert older_versions.to_current({"hidden_size": 16}) == {"hidden_size": 16}


def test_schedule_before_1_4_3_without_counterpart_raises():
    values = _old_file(learning_rate_decay_scheme="cosine")
    del values["learning_rate_decay_staircase"]
    with pytest.raises(hparam_schema.HParamError, match="before 1.4.3.*'cosine'"):
        older_versions.to_current(values)
    values["learning_rate_schedule"] = "constant"
    assert _rates(values) == [2.0] * len(_STEPS)


def test_adafactor_before_1_5_3_raises():
    """T2T 1.5.3 replaced its Adafactor by another algorithm of the same name."""
    values = {"learning_rate_decay_scheme": "noam", "optimizer": "Adafactor"}
    for schedule in ({}, {"learning_rate_schedule": "warmup_and_decay"}):
        with pytest.raises(hparam_schema.HParamError, match="before 1.5.3.*'adam'"):
            older_versions.to_current({**values, **schedule})
    legacy = {**values, "learning_rate_schedule": "legacy"}
    assert older_versions.to_current(legacy)["optimizer"] == "Adafactor"


@pytest.mark.parametrize(
    ("override", "remedy"),
    [
        ("learning_rate_schedule=warmup_and_decay", "Use 'legacy'."),
        ("learning_rate_schedule=linear_warmup_rsqrt_decay", "'legacy' with learning_rate_decay"),
        ("learning_rate_decay_scheme=exp10k", "learning_rate_decay_scheme='exp' with"),
    ],
)
def test_removed_values_name_a_remedy(override, remedy):
    with pytest.raises(hparam_schema.HParamError) as raised:
        hparams.get("transformer_base_v1", override)
    assert remedy in str(raised.value)


def test_optimizer_in_camel_case_prints_note(caplog):
    hp = hparams.get("transformer_base_v2", "optimizer=Adam")
    optimizers.get(hp, train_steps=10**6)
    assert [record.getMessage() for record in caplog.records] == [
        older_versions.adam_note("Adam", "legacy")
    ]
    assert "500 times as high as with optimizer=adam" in caplog.text


@pytest.mark.parametrize(
    ("optimizer", "schedule"), [("Adam", "constant*rsqrt_decay"), ("adam", "legacy")]
)
def test_same_rates_print_no_note(optimizer, schedule):
    assert older_versions.adam_note(optimizer, schedule) == ""
