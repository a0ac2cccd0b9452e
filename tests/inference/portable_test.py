import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import safetensors.numpy

import ut_keras
from ut_keras import export, pretrained
from ut_keras.errors import DataError, UserError
from ut_keras.inference import portable

TEXTS = ["Two dogs are playing.", "A man sleeps."]


@pytest.fixture(scope="module")
def run():
    return ut_keras.load(pathlib.Path("multi30k_ende"))


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("portable") / "of" / "ende")
    run.save(directory)
    return directory


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def test_loaded_folder_matches_run(run, folder):
    assert sorted(os.listdir(folder)) == [
        "config.json",
        "model.safetensors",
        "vocab.inputs.subwords",
    ]
    again = ut_keras.load(folder)
    assert again.translate(TEXTS, beam_size=1) == run.translate(TEXTS, beam_size=1)
    weights = safetensors.numpy.load_file(os.path.join(folder, "model.safetensors"))
    named = {v.path.removeprefix(f"{run.model.name}/"): v for v in run.model.trainable_variables}
    assert weights.keys() >= named.keys()
    for name, variable in named.items():
        np.testing.assert_array_equal(weights[name], variable)


def test_load_of_a_changed_config_logs_a_warning(copy, caplog):
    """The weights have the same shapes for any number of heads."""
    ut_keras.load(copy)
    assert "was changed" not in caplog.text
    _config(lambda config: config["hparams"].update(num_heads=1))(copy)
    ut_keras.load(copy)
    assert f"{copy / 'config.json'} was changed after ut_keras wrote it" in caplog.text


def test_load_of_a_config_without_digest_logs_no_warning(copy, caplog):
    def change(config):
        del config["config_sha256"]
        config["hparams"].update(num_heads=1)

    _config(change)(copy)
    ut_keras.load(copy)
    assert "was changed" not in caplog.text


def test_save_keeps_num_steps(run, tmp_path):
    portable.save(tmp_path / "two", run.model.with_steps(2), run.encoders)
    assert ut_keras.load(tmp_path / "two").model.num_steps == 2


def test_save_rejects_a_subclass_with_the_name_of_its_base_class(run, tmp_path):
    """`ut_keras.load` would make a model of the base class, which computes something else."""

    class Own(type(run.model)):
        def logits(self, *args, **kwargs):
            return -super().logits(*args, **kwargs)

    model = Own.from_hparams(run.model.hparams, run.model.specs, name=run.model.name)
    with pytest.raises(DataError, match=f"{run.model.name}.*Own"):
        portable.save(tmp_path / "own", model, run.encoders)
    assert not (tmp_path / "own").exists()


def test_save_rejects_existing_folder(run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for there in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(UserError, match="must be new or empty"):
            run.save(there)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def _weights(change):
    def made(copy):
        path = copy / "model.safetensors"
        weights = safetensors.numpy.load_file(path)
        change(weights)
        safetensors.numpy.save_file(weights, path)
        _config(lambda config: config.update(sha256=portable._digest(path)))(copy)

    return made


def _config(change):
    def made(copy):
        config = json.loads((copy / "config.json").read_text())
        change(config)
        (copy / "config.json").write_text(json.dumps(config))

    return made


def _spoil(weights, value):
    """Set one number of the weight that is last in alphabetical order."""
    name = max(weights)
    weights[name] = weights[name].copy()
    weights[name].flat[-1] = value


def _bytes(content):
    def made(copy):
        (copy / "model.safetensors").write_bytes(content)
        digest = portable._digest(copy / "model.safetensors")
        _config(lambda config: config.update(sha256=digest))(copy)

    return made


def _cut(copy):
    os.truncate(copy / "model.safetensors", 1000)


MISTAKES = {
    "cut short": (_cut, r"or a part of it \(1,000 bytes\)"),
    "no weights": (lambda copy: os.remove(copy / "model.safetensors"), "must contain model.safe"),
    "no vocabulary": (
        lambda copy: os.remove(copy / "vocab.inputs.subwords"),
        "must contain vocab.inputs",
    ),
    "another's": (
        _config(lambda config: config.update(library="other")),
        "config.json must .*Received: ",
    ),
    "no hparams": (_config(lambda config: config.pop("hparams")), "config.json must .*Received: "),
    "no model": (_config(lambda config: config.update(model="bert")), "Unknown model"),
    "no features": (_config(lambda config: config.pop("features")), "KeyError 'features'"),
    **{
        f"steps {value}": (
            _config(lambda config, value=value: config.update(num_steps=value)),
            rf"config.json: num_steps must be .*Received: {value}\.",
        )
        for value in (True, 0, 1.5)
    },
    "space": (
        _config(lambda config: config.update(target_space_id=True)),
        r"target_space_id must be an int\. Received: True",
    ),
    "torn": (lambda copy: (copy / "config.json").write_text("{"), "must hold a JSON object"),
    "other name": (_weights(lambda weights: weights.update(x=np.zeros(2))), r"x None.*\(2,\)"),
    "other shape": (
        _weights(lambda weights: weights.update({min(weights): np.zeros(3)})),
        r"Received: \(3,\) \(1 differ\)",
    ),
    "a NaN": (_weights(lambda weights: _spoil(weights, np.nan)), r"Received: \w+/"),
    "an infinity": (_weights(lambda weights: _spoil(weights, -np.inf)), r"Received: \w+/"),
    "lying header": (_bytes(b"\xff\xff\xff\xff\xff\xff\x00\x00{}"), "must be a safetensors file"),
    "no header": (_bytes(b""), "must be a safetensors file"),
}


def test_save_rejects_what_load_would_reject(copy, tmp_path):
    run = ut_keras.load(copy)
    with pytest.raises(UserError, match="checkpoint_path must be None for .*'model.ckpt-7'"):
        ut_keras.load(copy, checkpoint_path="model.ckpt-7")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    with pytest.raises(DataError, match="must be new or empty. Received: .*link"):
        run.save(tmp_path / "link")
    run.model.name = "transformer_1"  # Keras names a second "transformer" like this
    with pytest.raises(UserError, match="Unknown model: 'transformer_1'"):
        run.save(tmp_path / "saved")
    assert sorted(os.listdir(tmp_path)) == ["copy", "empty", "link"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_load_and_save_reject_weights_that_are_not_finite(copy, tmp_path, value):
    spoilt = max(safetensors.numpy.load_file(copy / "model.safetensors"))
    run = ut_keras.load(copy)
    _weights(lambda weights: _spoil(weights, value))(copy)
    with pytest.raises(DataError, match=f"model.safetensors.*Received: {spoilt},"):
        ut_keras.load(copy)
    variable = run.model.trainable_variables[0]
    variable.assign(np.full(variable.shape, value, "float32"))
    writes = {
        "run": lambda: run.save(tmp_path / "run"),
        "served": lambda: export.export_saved_model(
            run.model, run.encoders, str(tmp_path / "served")
        ),
        "lite": lambda: export.export_litert(
            run.model, str(tmp_path / "lite"), source_length=4, decode_length=2
        ),
    }
    for name, write in writes.items():
        with pytest.raises(DataError, match=f"Received: {variable.path},"):
            write()
        assert not (tmp_path / name).exists()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_load_rejects_broken_folder(copy, mistake):
    change, line = MISTAKES[mistake]
    change(copy)
    with pytest.raises(UserError, match=line) as raised:
        ut_keras.load(copy)
    assert "\n" not in str(raised.value)


def test_load_ignores_config_in_run(tmp_path):
    run = shutil.copytree(pretrained.folder("reverse40"), tmp_path / "run")
    (run / "config.json").write_text("{}")
    assert ut_keras.load(run).translate(["1 2 3"]) == ["3 2 1"]
