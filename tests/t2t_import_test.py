import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests import t2t_golden_test as t2t
from ut_keras import registry, t2t_import
from ut_keras.hparam_schema import older_universal

CHECKPOINTS = {
    "transformer": "transformer",
    "adaptive_universal_transformer": "universal_transformer",
}
DIGIT_1 = 11  # the target space of algorithmic problems


def _folder(name):
    return os.path.join(t2t.FOLDER, "ckpt", name)


@pytest.fixture(scope="module")
def variables():
    return t2t._group(t2t._load("model", "ut_basic_fc.a")[1], "var/")


def _build(variables):
    setting, _ = t2t._load("model", "ut_basic_fc.a")
    return t2t_import.build_model(
        setting["model"], t2t._t2t_hparams(setting), variables, setting["target_space_id"]
    )


def test_export_variables_uses_given_values(variables):
    model = _build(variables)
    doubled = [2 * variable.numpy() for variable in model.trainable_variables]
    for key, value in t2t_import.export_variables(model, doubled).items():
        np.testing.assert_array_equal(value, 2 * variables[key], err_msg=key)
    with pytest.raises(ValueError, match="shorter"):
        t2t_import.export_variables(model, doubled[:-1])


def test_build_model_lists_unknown_and_missing_variables(variables):
    changed = dict(variables)
    scale = "universal_transformer/body/encoder/layer_prepostprocess/layer_norm/layer_norm_scale"
    del changed[scale]
    changed["universal_transformer/body/more"] = np.zeros(3)
    with pytest.raises(ValueError) as error:
        _build(changed)
    message = str(error.value)
    assert "unknown variables ['universal_transformer/body/more']" in message
    assert f"missing variables ['{scale}']" in message
    changed[scale] = variables[scale]
    with pytest.raises(ValueError, match=r"body/more'\], .*\[\]"):
        _build(changed)


def test_build_model_rejects_wrong_shape(variables):
    name = "universal_transformer/body/target_space_embedding/kernel"
    changed = {**variables, name: variables[name][:, :-1]}
    with pytest.raises(ValueError, match=rf"{name} must have the shape \(32, 16\). Received"):
        _build(changed)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_build_model_names_variable_that_is_not_finite(variables, value):
    name = "universal_transformer/body/target_space_embedding/kernel"
    changed = {**variables, name: np.where(variables[name] == variables[name].max(), value, 0)}
    with pytest.raises(ValueError, match=f"Received: {name},"):
        _build(changed)


def test_hparams_ignored_by_t2t_have_no_effect():
    """T2T's models pass block_length to no layer.

    Restricted attention always uses a block length of 128.
    """
    setting, arrays = t2t._load("model", "transformer_lm_local_mask_right.a")
    assert t2t._t2t_hparams(setting)["block_length"] == 4
    model = t2t._model(setting, t2t._group(arrays, "var/"))
    assert model.hparams.block_length == 128


def test_build_model_requires_embedding():
    with pytest.raises(ValueError, match="variables .*embedding of transformer"):
        t2t_import.build_model("transformer", {}, {"transformer/body/x": np.zeros(3)})


def test_build_model_rejects_unknown_model(variables):
    renamed = {name.replace("universal_", "other_"): value for name, value in variables.items()}
    with pytest.raises(registry.UnknownNameError, match="other_transformer"):
        t2t_import.build_model("other_transformer", {}, renamed)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoint_matches_t2t(name):
    """The expected values are from T2T's EVAL mode, without dropout and label smoothing."""
    arrays = np.load(os.path.join(_folder(name), "golden.npz"))
    model = t2t_import.load_checkpoint(_folder(name), CHECKPOINTS[name], target_space_id=DIGIT_1)
    assert model.hparams.layer_prepostprocess_dropout > 0
    features = {key: tf.constant(arrays[key]) for key in ("inputs", "targets")}
    out = model.inspect(features, training=False)
    np.testing.assert_allclose(
        out.logits, arrays["logits"].reshape(out.logits.shape), rtol=1e-5, atol=2e-5
    )
    expected = {key for key in arrays if key.startswith("losses/")}
    assert {"losses/" + key for key in out.losses} == expected
    for key, value in out.losses.items():
        np.testing.assert_allclose(value, arrays["losses/" + key], rtol=1e-5, err_msg=key)
    fields = [key for key in arrays if key.startswith(("encoder_", "decoder_"))]
    assert len(fields) == (2 if name == "transformer" else 6)
    for key in fields:
        side, field = key.split("_", 1)
        got = getattr(getattr(out, side), field)
        np.testing.assert_allclose(got, arrays[key], rtol=1e-5, atol=2e-5, err_msg=key)


def _older(name):
    """Return the arrays and hparams that an older T2T version wrote, and the features."""
    path = os.path.join(t2t.FOLDER, "older", name)
    arrays = dict(np.load(f"{path}.npz"))
    with open(f"{path}.json", encoding="utf-8") as file:
        t2t_hparams = json.load(file)
    features = {"inputs": tf.constant(arrays["x"]), "targets": tf.constant(arrays["y"])}
    return arrays, t2t_hparams, features


@pytest.mark.parametrize(
    ("name", "model_name", "values"),
    [
        ("act_1_6", "r_transformer", ("act", "basic", None)),
        ("act_1_8", "universal_transformer", ("act", "basic", None)),
        ("before_1_12", "universal_transformer", ("basic", "basic", "before_ut")),
    ],
)
def test_universal_transformer_of_older_t2t_matches_t2t(name, model_name, values):
    """T2T 1.6.3, 1.8.0 and 1.12.0 computed the logits, with their own names and their own ACT."""
    arrays, t2t_hparams, features = _older(name)
    fields = ("recurrence_type", "act_type", "mix_with_transformer")
    assert tuple(t2t_hparams[field] for field in fields) == values
    variables = t2t._group(arrays, "var/")
    assert all(key.startswith(f"{model_name}/") and "rec_layer" not in key for key in variables)
    model = t2t_import.build_model(model_name, t2t_hparams, variables, 1)
    logits = model(features, training=False)
    expected = arrays["logits"].reshape(logits.shape)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "model_name"),
    [("relative_1_6", "transformer"), ("encoder_1_6", "transformer_encoder")],
)
def test_transformer_of_older_t2t_matches_t2t(name, model_name):
    arrays, t2t_hparams, features = _older(name)
    variables = t2t._group(arrays, "var/")
    model = t2t_import.build_model(model_name, t2t_hparams, variables, 1)
    logits = model(features, training=False)
    expected = arrays["logits"].reshape(logits.shape)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_act_of_t2t_1_15_differs_from_older_act():
    """From the same weights, T2T 1.15 computes other logits than 1.8."""
    arrays, t2t_hparams, features = _older("act_1_8")
    variables = t2t._group(arrays, "var/")
    names = older_universal.renamed(variables, t2t_hparams)
    current = dict(zip(names, variables.values(), strict=True))
    del t2t_hparams["gru_transformation"]  # only versions before 1.9 have this field
    model = t2t_import.build_model("universal_transformer", t2t_hparams, current, 1)
    assert model.hparams.act_type == "basic"
    logits = model(features, training=False)
    assert np.max(np.abs(logits - arrays["logits"].reshape(logits.shape))) > 0.1


def test_checkpoint_exports_its_variables():
    folder = _folder("transformer")
    exported = t2t_import.export_variables(
        t2t_import.load_checkpoint(folder, "transformer", DIGIT_1)
    )
    reader = tf.train.load_checkpoint(os.path.join(folder, "model.ckpt-20"))
    names = {n for n in reader.get_variable_to_shape_map() if n.startswith("transformer/")}
    assert set(exported) == names
    for name in names:
        np.testing.assert_array_equal(exported[name], reader.get_tensor(name))


def test_load_checkpoint_reads_newest(tmp_path):
    folder = shutil.copytree(_folder("transformer"), tmp_path / "run")
    newest = t2t_import.load_checkpoint(str(folder), "transformer", DIGIT_1).get_weights()
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-0"\n')
    oldest = t2t_import.load_checkpoint(str(folder), "transformer", DIGIT_1).get_weights()
    assert any(np.any(a != b) for a, b in zip(newest, oldest, strict=True))


def test_copied_run_reads_its_own_checkpoint(tmp_path):
    """T2T's file `checkpoint` can contain an absolute path, which a copy of the folder keeps."""
    folder = shutil.copytree(_folder("transformer"), tmp_path / "run")
    other = os.path.join(_folder("transformer"), "model.ckpt-0")
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "{other}"\n')
    assert t2t_import.newest_checkpoint(str(folder)) == str(folder / "model.ckpt-0")
    for path in folder.glob("model.ckpt-0.*"):
        path.unlink()
    with pytest.raises(ValueError, match="t2t_output_dir must contain .* a checkpoint"):
        t2t_import.load_checkpoint(str(folder), "transformer")


def test_load_checkpoint_finds_target_space_in_statistics():
    folder = _folder("transformer")
    assert t2t_import.load_checkpoint(folder, "transformer").target_space_id == DIGIT_1
    with pytest.raises(ValueError, match="target_space_id must be 11.* Received: 8"):
        t2t_import.load_checkpoint(folder, "transformer", 8)


def test_load_checkpoint_warns_if_target_space_is_unknown(tmp_path):
    folder = shutil.copytree(_folder("transformer"), tmp_path / "run")
    # At step 0, all statistics are 0.
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-0"\n')
    with pytest.warns(UserWarning, match="target_space_id .*Using 0"):
        assert t2t_import.load_checkpoint(str(folder), "transformer").target_space_id == 0


@pytest.mark.parametrize(
    ("statistics", "expected"),
    [
        ([np.where(np.arange(32) == 8, 1e-9, 1e-30), np.ones(16)], 8),  # Adafactor, factored
        ([np.zeros((32, 4))], None),
        ([np.full((32, 4), 0.1)], None),  # Adagrad, or weight decay
        ([np.ones(16)], None),
        ([], None),
    ],
)
def test_used_target_space_is_the_only_row_with_statistics(statistics, expected):
    assert t2t_import._used_target_space(statistics, 32) == expected


def test_load_checkpoint_rejects_folder_without_checkpoint(tmp_path):
    with pytest.raises(ValueError, match=r"hparams.json and a checkpoint.*with \[\]"):
        t2t_import.load_checkpoint(str(tmp_path), "transformer")
    with pytest.raises(ValueError, match="no such folder"):
        t2t_import.load_checkpoint(str(tmp_path / "none"), "transformer")
    (tmp_path / "hparams.json").write_text(json.dumps({}))
    with pytest.raises(ValueError, match=r"with \['hparams.json'\]"):
        t2t_import.load_checkpoint(str(tmp_path), "transformer")
