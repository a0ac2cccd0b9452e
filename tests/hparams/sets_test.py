"""Every hparams set with a T2T name has the values of T2T (tests/testdata/t2t/hparams)."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from ut_keras import hparam_schema, hparams
from ut_keras.hparam_schema import saved
from ut_keras.hparams import unsupported_sets
from ut_keras.hparams.registry import SETS
from ut_keras.registry import UnknownNameError, UnsupportedNameError

ROOT = pathlib.Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests/testdata/t2t/hparams/sets.json").read_text())
BASE = GOLDEN["base"]["values"]

# These fields with their defaults are not in T2T's sets. ut_keras adds some of the fields. T2T
# reads the other fields, although no set defines them.
NOT_IN_T2T = {
    "act_force_final_remainder": False,
    "act_halted_state": "transform",
    "act_mask_padding": False,
    "attention_block_size": None,
    "attention_layer_size": 128,
    "attention_mask_padding": False,
    "attention_mechanism": "bahdanau",
    "block_length": 128,
    "class_label_pooling": "mean",
    "conv_mask_padding": False,
    "copy_gate": False,
    "copy_gate_activation": "gelu",
    "copy_gate_dropout": 0.0,
    "curriculum_accuracy": 0.95,
    "curriculum_length_step": 1,
    "curriculum_start_length": 0,
    "curriculum_updates": 100,
    "diagonal_final_state": "first",
    "diagonal_shift_axis": "width",
    "dropconnect_dropout": 0.0,
    "embedding_dropout": None,
    "ffn_postprocess_sequence": None,
    "gates_inputs": "i",
    "geometric_drop_keys": False,
    "geometric_normalize_score": True,
    "num_heads": 1,
    "num_rec_steps_sampling": None,
    "output_attention": True,
    "ponder_net_output": "threshold",
    "ponder_net_prior": 0.2,
    "pos_randomized_range": 2048,
    "recompute_grad": False,
    "recurrence_backprop_steps": None,
    "recurrence_fixed_point_loss_weight": 0.0,
    "recurrence_initial_state": "embedding",
    "recurrence_input_injection": "none",
    "recurrence_residual_scale": "1",
    "recurrence_segments": 1,
    "recurrence_supervised_every": 0,
    "relative_mask_future": False,
    "sentence_mask_stddev": 0.0,
    "trim_stories": False,
}
OURS = [name for name in hparams.names() if SETS.get(name).__module__ == "ut_keras.hparams.paper"]


def _t2t_values(name):
    if name == "neural_gpu":  # the file has a small model, but T2T's source has these values
        golden = json.loads((ROOT / "tests/testdata/t2t/hparams/neural_gpu.json").read_text())
        return golden | {"hidden_size": 256, "num_hidden_layers": 1, "dropout": 0.1}
    golden = GOLDEN["sets"][name]
    expected = {k: v for k, v in BASE.items() if k not in golden["absent"]} | golden["set"]
    for table in saved.T2T_FUNCTION_TABLES:
        assert expected.pop(table) == "{}"
    return expected


@pytest.mark.parametrize("name", sorted(set(hparams.names()) - set(OURS)))
def test_set_matches_t2t(name):
    expected = _t2t_values(name)
    values = hparams.get(name).to_dict()

    lacking = {k: v for k, v in values.items() if k not in expected}
    assert lacking == {k: NOT_IN_T2T[k] for k in lacking}
    values = {k: v for k, v in values.items() if k not in lacking}
    assert values == expected
    # The test also compares types, because 1 == 1.0 == True. T2T sets one float field to the int 0,
    # so the test converts this value to a float.
    name = "multiproblem_schedule_max_examples"
    expected[name] = float(expected[name])
    assert {k: type(v) for k, v in values.items()} == {k: type(v) for k, v in expected.items()}


def test_missing_t2t_sets_give_reason_and_nearest_set():
    for name in GOLDEN["sets"].keys() - set(hparams.names()):
        with pytest.raises(UnknownNameError, match="is not supported: ") as error:
            hparams.get(name)
        nearest = re.findall("the nearest: ([a-z0-9_]+)", str(error.value))
        assert set(nearest) <= set(hparams.names())
        assert nearest or name == "basic_1"


def test_all_universal_sets_of_t2t_exist():
    of_t2t = {name for name in GOLDEN["sets"] if "universal_transformer" in name}
    assert len(of_t2t) == 42
    assert of_t2t <= set(hparams.names())


def test_common_transformer_sets_of_t2t_exist():
    rows = [name for name in GOLDEN["sets"] if re.fullmatch(r"transformer_[a-z]{1,2}\d+", name)]
    daily = (
        "teeny tiny small base base_v1 base_v2 base_v3 base_single_gpu "
        "big big_single_gpu big_enfr big_dr1 big_dr2 parameter_attention_a parameter_attention_b "
        "parsing_base parsing_big parsing_ice relative relative_big relative_tiny"
    )
    assert len(rows) == 18
    assert {*rows, *(f"transformer_{name}" for name in daily.split())} <= set(hparams.names())


def test_common_sets_are_supported():
    def is_supported(name):
        try:
            hparams.get(name).check_supported()
        except hparam_schema.HParamError:
            return False
        return True

    rejected = {name for name in hparams.names() if not is_supported(name)}
    assert "transformer_base_v1" not in rejected
    assert "adaptive_universal_transformer_global_base" not in rejected
    assert "universal_transformer_sepconv_tiny" not in rejected
    assert not rejected & set(OURS)


def test_get_applies_overrides():
    hp = hparams.get("universal_transformer_tiny", "hidden_size=64,num_rec_steps=4")
    assert (hp.hidden_size, hp.num_rec_steps, hp.filter_size) == (64, 4, 512)
    assert hparams.get("transformer_base", {"hidden_size": 64}).hidden_size == 64


@pytest.mark.parametrize("name", ["transformer_cubbitt", "transformer_ae_small"])
def test_sets_of_other_t2t_versions_give_a_reason(name):
    with pytest.raises(UnknownNameError, match="is not supported: .*the nearest: transformer_b"):
        hparams.get(name)


def test_unknown_set_lists_nearest_names():
    with pytest.raises(UnknownNameError, match="'univesal_transformer_tiny'.*universal_tra.*_tiny"):
        hparams.get("univesal_transformer_tiny")


def test_names_and_get_do_not_import_tensorflow():
    code = (
        "import sys; from ut_keras import hparams; hparams.names(); "
        "hparams.get('universal_transformer_tiny', 'hidden_size=64').check_supported(); "
        "print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_get_rejects_set_without_hparams(monkeypatch):
    monkeypatch.setitem(hparams.SETS._entries, "forgets_to_return", lambda: None)
    with pytest.raises(
        hparam_schema.HParamError, match="forgets_to_return must return.*Received: None"
    ):
        hparams.get("forgets_to_return", "hidden_size=8")


def test_get_logs_a_value_without_effect(caplog, capsys):
    given = {"learning_rate": 0.5, "hidden_size": 64}
    hp = hparams.get("adaptive_universal_transformer_quick", given)
    [note] = caplog.messages
    assert hp.learning_rate == 0.5
    assert note.startswith("learning_rate=0.5 has no effect: learning_rate_schedule=")
    hparams.get("adaptive_universal_transformer_quick", "hidden_size=64")
    assert len(caplog.messages) == 1
    # A program may write its own results to the standard output.
    assert not capsys.readouterr().out


@pytest.mark.parametrize("name", unsupported_sets.OLDER_SETS)
def test_set_that_t2t_removed_names_a_set_and_hparams_that_work(name):
    with pytest.raises(UnsupportedNameError) as error:
        hparams.get(name)
    parent, changes = re.search(r"use (\w+) with --hparams=(.*)\.$", str(error.value)).groups()
    hp = hparams.get(parent, changes)
    hp.check_supported()
    assert hp != hparams.get(parent)
    assert name.startswith("adaptive") == (hp.recurrence_type == "act")
