import json
import os

import pytest

from tests import t2t_golden_test as t2t
from ut_keras import hparam_schema
from ut_keras.hparam_schema import older_universal

_BEFORE_1_9 = {"gru_transformation": ["state_transformation"]}
_ACT = {"recurrence_type": "act", "act_type": "basic"}


def _file(version, **values):
    """Return the content of a hparams.json that T2T 1.8, 1.12, 1.13 or 1.15 wrote."""
    path = os.path.join(t2t.FOLDER, "model", "base_hparams.json")
    with open(path, encoding="utf-8") as file:
        content = json.load(file)["universal_transformer_base"]
    if version != "1.15":
        del content["scheduled_sampling_method"]
    if version in ("1.8", "1.12"):
        del content["split_targets_chunk_length"], content["num_inrecurrence_layers"]
    if version == "1.8":
        del content["add_ffn_unit_to_the_transition_function"]
        content |= _BEFORE_1_9
    return {**content, **values}


def _current(version, **values):
    values = hparam_schema.for_t2t_model("universal_transformer", _file(version, **values))
    return hparam_schema.from_dict(values)


@pytest.mark.parametrize(
    ("version", "values", "expected"),
    [
        ("1.8", _ACT, {"act_type": "accumulated"}),
        ("1.8", {**_ACT, "act_type": "accumulated"}, {"act_type": "accumulated"}),
        ("1.8", {"mix_with_transformer": "before_rt"}, {"mix_with_transformer": "before_ut"}),
        ("1.8", {"mix_with_transformer": "after_rt"}, {"mix_with_transformer": "after_ut"}),
        ("1.12", _ACT, {"act_type": "basic"}),
        ("1.12", {**_ACT, "mix_with_transformer": "after_ut"}, {"mix_with_transformer": None}),
        ("1.12", {**_ACT, "use_memory_as_final_state": True}, {"act_type": "basic"}),
        ("1.12", {"recurrence_type": "lstm"}, {"recurrence_type": "lstm"}),
        (
            "1.13",
            {**_ACT, "mix_with_transformer": "after_ut"},
            {"mix_with_transformer": "after_ut"},
        ),
        ("1.15", {"recurrence_type": "highway"}, {"recurrence_type": "highway"}),
        ("1.15", {"use_memory_as_final_state": True}, {"use_memory_as_final_state": True}),
    ],
)
def test_older_values_become_current_values(version, values, expected):
    hp = _current(version, **values)
    assert {name: getattr(hp, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("version", "values", "message"),
    [
        ("1.8", {**_ACT, "act_type": "global"}, "act_type .*before 1.9.*'global'"),
        ("1.8", {**_ACT, "act_type": "random"}, "act_type .*before 1.9.*'random'"),
        ("1.8", {**_ACT, "layer_preprocess_sequence": "none"}, "act_type .*normalization"),
        ("1.8", {**_ACT, "norm_type": "noam"}, "act_type .*normalization"),
        ("1.8", {"recurrence_type": "gru"}, "recurrence_type .*before 1.9.*'gru'"),
        ("1.8", {"recurrence_type": "rnn"}, "recurrence_type .*before 1.9.*'rnn'"),
        ("1.12", {"recurrence_type": "highway"}, "recurrence_type .*before 1.14.*'highway'"),
        ("1.13", {"recurrence_type": "skip"}, "recurrence_type .*before 1.14.*'skip'"),
        ("1.12", {"use_memory_as_final_state": True}, "memory.*before 1.11.*1.12 wrote the file"),
    ],
)
def test_other_formulas_of_older_versions_are_rejected(version, values, message):
    with pytest.raises(hparam_schema.HParamError, match=message):
        _current(version, **values)


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ({}, "basic/ffn/conv1/kernel", "basic/rec_layer_0/ffn/conv1/kernel"),
        ({}, "act/encdec_attention/x", "act/rec_layer_0/encdec_attention/x"),
        ({}, "act/layer_embedding", "act/layer_embedding"),
        ({"recurrence_type": "gru"}, "gru/self_attention/x", "gru/self_attention/x"),
        ({"mix_with_transformer": "before_rt"}, "act/layer_1/ffn/x", "act/before_ut_layer_1/ffn/x"),
        (
            {"mix_with_transformer": "after_ut"},
            "dwa/layer_0/ffn/x",
            "dwa/after_ut_layer_0/ffn/x",
        ),
    ],
)
@pytest.mark.parametrize("model", ["r_transformer", "universal_transformer"])
@pytest.mark.parametrize("more", ["", "_encoder"])
@pytest.mark.parametrize("beginning", ["", "training/"])
def test_names_of_older_versions_become_current_names(
    beginning, more, model, values, name, expected
):
    older = f"{beginning}{model}{more}/body/decoder/{model}_{name}"
    current = (
        f"{beginning}universal_transformer{more}/body/decoder/universal_transformer_{expected}"
    )
    assert older_universal.renamed([older], values) == [current]


def test_names_of_t2t_1_13_stay():
    names = [
        "universal_transformer/body/encoder/universal_transformer_basic/rec_layer_0/ffn/x",
        "universal_transformer/body/encoder/universal_transformer_basic/before_ut_layer_0/ffn/x",
        "transformer/body/encoder/layer_0/ffn/x",
        "global_step",
    ]
    assert older_universal.renamed(names, {"mix_with_transformer": "before_ut"}) == names
