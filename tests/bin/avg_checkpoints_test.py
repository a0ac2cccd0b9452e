import json
import os
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
import ut_keras
from tests.bin import full_disk, small_run
from ut_keras import problems
from ut_keras.bin import avg_checkpoints, datagen
from ut_keras.checkpoints import checkpoint, checkpoint_files
from ut_keras.errors import UsageError
from ut_keras.inference import feature_record
from ut_keras.text import text_encoder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a run with checkpoints at steps 1, 2 and 3."""
    folder = tmp_path_factory.mktemp("run")
    small_run.write(folder, steps=(1, 2, 3))
    return folder


def _weights(path):
    reader = tf.train.load_checkpoint(str(path))
    keys = [key for key in reader.get_variable_to_shape_map() if key.startswith("model/")]
    return {key: reader.get_tensor(key) for key in keys}


def _error(capsys, *argv):
    return small_run.error(capsys, avg_checkpoints.main, list(argv))


def _expect_mean(path, run, steps):
    averaged = _weights(path)
    parts = [_weights(run / f"model.ckpt-{step}") for step in steps]
    assert averaged.keys() == parts[0].keys() and averaged
    for key, value in averaged.items():
        exact = np.mean([part[key].astype("float64") for part in parts], axis=0)
        np.testing.assert_array_equal(value, exact.astype("float32"))


def test_num_last_checkpoints_averages_the_newest(run, tmp_path, capsys):
    output = tmp_path / "new" / "averaged.ckpt"
    argv = [f"--prefix={run}/", "--num_last_checkpoints=2", f"--output_path={output}"]
    assert avg_checkpoints.main(argv) == 0
    shown = capsys.readouterr().out
    assert "model.ckpt-2" in shown and "model.ckpt-3" in shown and "ckpt-1\n" not in shown
    assert f"--checkpoint_path={output}-0" in shown and f"--output_dir={tmp_path / 'new'}" in shown
    _expect_mean(f"{output}-0", run, (2, 3))


def test_num_last_checkpoints_skips_leftovers_of_later_steps(run, tmp_path, capsys):
    """After the user has gone back to step 2, a checkpoint of step 3 is of another training."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    checkpoint_files.record(str(copy), [str(copy / "model.ckpt-2")])
    argv = [f"--prefix={copy}/", f"--output_path={tmp_path}/averaged.ckpt"]
    assert "at most 2" in _error(capsys, *argv, "--num_last_checkpoints=3")
    assert avg_checkpoints.main([*argv, "--num_last_checkpoints=2"]) == 0
    _expect_mean(f"{tmp_path}/averaged.ckpt-0", run, (1, 2))
    (copy / "checkpoint").unlink()  # without the list, all checkpoints belong to the run
    assert avg_checkpoints.main([*argv, "--num_last_checkpoints=3"]) == 0


def test_checkpoints_flag_averages_named_checkpoints(run, tmp_path, capsys):
    output = tmp_path / "averaged"
    argv = [f"--prefix={run}/model.ckpt-", "--checkpoints=1, 3", f"--output_path={output}"]
    assert avg_checkpoints.main(argv) == 0
    _expect_mean(f"{output}-0", run, (1, 3))
    assert "note: " not in capsys.readouterr().out
    assert avg_checkpoints.main([*argv, "--num_last_checkpoints=2"]) == 0
    assert "--num_last_checkpoints has no effect" in capsys.readouterr().out
    _expect_mean(f"{output}-0", run, (1, 3))


def test_unused_moving_averages_are_noted(run, tmp_path, monkeypatch, capsys):
    with_average = f"{run}/model.ckpt-1"
    monkeypatch.setattr(checkpoint, "contains_moving_average", lambda path: path == with_average)
    argv = [f"--prefix={run}/model.ckpt-", "--checkpoints=1,2", f"--output_path={tmp_path / 'a'}"]
    assert avg_checkpoints.main(argv) == 0
    assert "note: the moving averages in the checkpoints are not used" in capsys.readouterr().out


def test_float16_weights_are_read_as_float32(run, tmp_path):
    """The command writes float16 weights.

    A loaded model converts these weights to float32 without a change of their values.
    """
    argv = [f"--prefix={run}/", "--num_last_checkpoints=1", "--weights_dtype=float16"]
    assert avg_checkpoints.main([*argv, f"--output_path={tmp_path / 'model.ckpt'}"]) == 0
    small, whole = (_weights(path) for path in (tmp_path / "model.ckpt-0", run / "model.ckpt-3"))
    assert small.keys() == whole.keys()
    for key, value in small.items():
        np.testing.assert_array_equal(value, whole[key].astype("float16"), strict=True)
    problem = problems.get(small_run.PROBLEM)
    model = ut_keras.load(tmp_path, problem=problem).model
    for name, variable in checkpoint.model_variables(model).items():
        assert variable.dtype == "float32"
        key = name.replace("/", ".S")
        np.testing.assert_array_equal(variable, small[f"model/{key}/.ATTRIBUTES/VARIABLE_VALUE"])


def test_average_keeps_other_records_in_the_folder(run, tmp_path):
    for name in ("hparams.json", "run.json", "features.json"):
        (tmp_path / name).write_text('{"mine": 1}')
    argv = [f"--prefix={run}/", "--num_last_checkpoints=1"]
    assert avg_checkpoints.main([*argv, f"--output_path={tmp_path / 'model.ckpt'}"]) == 0
    for name in ("hparams.json", "run.json", "features.json"):
        assert (tmp_path / name).read_text() == '{"mine": 1}'


def test_float16_rejects_too_large_weights():
    with pytest.raises(UsageError, match="up to 65504. Received: embedding with 100000"):
        avg_checkpoints.cast_weight("float16", "embedding", np.float32([1, 1e5]))
    assert np.isnan(avg_checkpoints.cast_weight("float16", "embedding", np.float32([np.nan]))).all()


def test_weights_dtype_rejects_unknown_value(run, capsys):
    error = _error(capsys, f"--prefix={run}/", "--num_last_checkpoints=1", "--weights_dtype=int8")
    assert "--weights_dtype must be one of float16. Received: 'int8'." in error


def test_average_sums_in_float64(tmp_path, monkeypatch):
    values = iter([1e8, 1.0, -1e8, 0.0])
    monkeypatch.setattr(
        checkpoint, "read_weights", lambda path: {"w": np.full([1], next(values), "float32")}
    )
    assert avg_checkpoints.average(["a", "b", "c", "d"])["w"] == np.float32(0.25)


@pytest.mark.slow
def test_average_is_a_valid_output_dir(run, tmp_path, capsys):
    """The trainer can evaluate an averaged checkpoint but cannot resume training from it.

    A second run of ut-avg-checkpoints replaces the first average.
    """
    argv = [
        f"--prefix={run}",
        "--num_last_checkpoints=3",
        f"--output_path={tmp_path}/averaged.ckpt",
    ]
    assert avg_checkpoints.main(argv) == 0
    assert avg_checkpoints.main(argv) == 0
    assert "--output_dir" in capsys.readouterr().out
    name = small_run.PROBLEM
    data = tmp_path / "data"
    assert datagen.main([f"--problem={name}", f"--data_dir={data}", f"--tmp_dir={data}"]) == 0
    evaluate = [f"--problem={name}", "--model=transformer", f"--data_dir={data}", "--eval_steps=1"]
    assert trainer.main([*evaluate, f"--output_dir={tmp_path}", "--schedule=evaluate"]) == 0
    assert "evaluation at step 0: " in capsys.readouterr().out
    line = small_run.error(
        capsys, trainer.main, [*evaluate, f"--output_dir={tmp_path}", "--schedule=train"]
    )
    assert "must contain the optimizer's state" in line


def test_run_folder_keeps_its_newest_checkpoint(run, capsys):
    before = (run / "checkpoint").read_text(), (run / "run.json").read_text()
    argv = [f"--prefix={run}/", "--num_last_checkpoints=2", f"--output_path={run}/averaged.ckpt"]
    assert avg_checkpoints.main(argv) == 0
    shown = capsys.readouterr().out
    assert "--checkpoint_path=" in shown and "--output_dir" not in shown
    assert before == ((run / "checkpoint").read_text(), (run / "run.json").read_text())


def test_output_path_rejects_checkpoint_of_a_run(run, tmp_path, capsys):
    small_run.write(tmp_path, steps=(0, 1))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    message = "must not overwrite a checkpoint of a run"
    for prefix, step in ((run, 1), (tmp_path, 0)):
        argv = [f"--prefix={prefix}/model.ckpt-", f"--checkpoints={step}"]
        assert message in _error(capsys, f"--output_path={tmp_path}/model.ckpt", *argv)
    average = [f"--output_path={tmp_path}/a", f"--prefix={tmp_path}/"]
    assert avg_checkpoints.main([*average, "--num_last_checkpoints=2"]) == 0
    # The output a-0 must not overwrite the input a-0.
    assert message in _error(capsys, *average, "--checkpoints=model.ckpt-1,a-0")
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("more", [["--model_dir=runs/1"], ["--n=8"], ["--n", "8", "--model_dir=x"]])
def test_flags_of_t2t_avg_all_name_the_alternative(capsys, more):
    line = _error(capsys, *more)
    assert "--prefix=FOLDER/ --num_last_checkpoints=N" in line


def test_user_errors_are_one_line(run, tmp_path, capsys):
    output = f"--output_path={tmp_path}/averaged.ckpt"
    assert "--num_last_checkpoints=0" in _error(capsys, output)
    prefix = f"--prefix={run}/model.ckpt-"
    line = _error(capsys, output, prefix, "--checkpoints=1,7")
    assert "--checkpoints must" in line and "model.ckpt-7.index" in line
    assert "twice" in _error(capsys, output, prefix, "--checkpoints=1,1")
    assert "must name a checkpoint" in _error(capsys, output, "--checkpoints=,")
    line = _error(capsys, output, f"--prefix={run}", "--num_last_checkpoints=9")
    assert "--num_last_checkpoints must be at most 3," in line and "Received: 9." in line
    line = _error(capsys, output, f"--prefix={tmp_path}/none/", "--num_last_checkpoints=1")
    assert "--num_last_checkpoints requires" in line
    line = _error(capsys, f"--output_path={tmp_path}", prefix, "--checkpoints=1")
    assert "--output_path must be the name of a file" in line
    line = _error(capsys, f"--output_path={tmp_path}/new/", prefix, "--checkpoints=1")
    assert "--output_path must be the name of a file" in line
    line = _error(capsys, "--output_path=/proc/none/x", prefix, "--checkpoints=1")
    assert "/proc/none" in line
    assert os.listdir(tmp_path) == []


def test_output_path_rejects_checkpoint_of_another_model(run, tmp_path, capsys):
    net = keras.Sequential([keras.layers.Dense(1)])
    net.build([None, 2])
    argv = [f"--prefix={run}/model.ckpt-", f"--output_path={tmp_path}/ckpt", "--checkpoints=1,2"]
    message = "a checkpoint of another model"
    one = tf.Variable(1.0)
    for parts in ({"mine": one}, {"model": net}, {"model": one}, {"model": {"w": one}}):
        tf.train.Checkpoint(**parts).write(f"{tmp_path}/ckpt-0")
        before = full_disk.all_files(tmp_path)
        assert message in _error(capsys, *argv)
        assert full_disk.all_files(tmp_path) == before
    os.truncate(tmp_path / "ckpt-0.index", 20)
    assert "ckpt-0" in _error(capsys, *argv)
    assert os.path.getsize(tmp_path / "ckpt-0.index") == 20


def test_full_disk_changes_no_file(run, tmp_path, capsys):
    argv = [f"--prefix={run}/model.ckpt-", f"--output_path={tmp_path}/averaged"]
    with full_disk.full_disk(1000):
        line = _error(capsys, *argv, "--checkpoints=1,2")
    assert line == f"error: File too large: {tmp_path}/averaged-0"
    assert full_disk.all_files(tmp_path) == []
    assert avg_checkpoints.main([*argv, "--checkpoints=1,3"]) == 0
    before = full_disk.all_files(tmp_path)
    with full_disk.full_disk(1000):
        assert _error(capsys, *argv, "--checkpoints=1,2") == line
    assert full_disk.all_files(tmp_path) == before
    _expect_mean(f"{tmp_path}/averaged-0", run, (1, 3))


def test_average_rejects_different_models(run, tmp_path, capsys):
    small_run.write(tmp_path, filter_size=8)
    names = f"--checkpoints={run}/model.ckpt-1,{tmp_path}/model.ckpt-1"
    line = _error(capsys, names, f"--output_path={tmp_path}/averaged")
    assert "must be of the same model" in line and "filter_size=32 in" in line
    (tmp_path / "hparams.json").unlink()
    line = _error(capsys, names, f"--output_path={tmp_path}/averaged")
    assert "must be of the same model" in line and "conv1/bias is (32,)" in line


def test_average_rejects_other_records_with_the_same_shapes(run, tmp_path, capsys):
    folders = {name: tmp_path / name for name in ("heads", "words", "run", "bare")}
    for folder in folders.values():
        folder.mkdir()
    small_run.write(folders["heads"], num_heads=4)
    for name in ("words", "run"):
        shutil.copytree(run, folders[name], dirs_exist_ok=True)
    features = feature_record.from_problem(problems.get(small_run.PROBLEM), None)
    feature_record.save(str(folders["run"]), features)
    encoder = text_encoder.TokenTextEncoder(tokens=["b", "a"])
    encoders = dict.fromkeys(features.encoders, encoder)
    feature_record.save(str(folders["words"]), features._replace(encoders=encoders))
    for file in run.glob("model.ckpt-1.*"):
        shutil.copy(file, folders["bare"])

    def argv(name):
        paths = f"--checkpoints={folders[name]}/model.ckpt-1,{folders['run']}/model.ckpt-2"
        return [paths, f"--output_path={tmp_path}/averaged"]

    line = _error(capsys, *argv("heads"))
    assert "num_heads=4 in " in line and "num_heads=2 in " in line
    assert "of 'inputs' must match" in _error(capsys, *argv("words"))
    assert not list(tmp_path.glob("averaged*"))
    assert avg_checkpoints.main(argv("bare")) == 0  # a folder without records is not checked
    _expect_mean(tmp_path / "averaged-0", run, (1, 2))


@pytest.mark.parametrize(
    ("name", "value"), [("num_rec_steps_sampling", "uniform"), ("activation_dtype", "bfloat16")]
)
def test_average_accepts_hparams_that_keep_the_meaning_of_weights(name, value, tmp_path, capsys):
    folders = [tmp_path / "changed", tmp_path / "plain"]
    for number, changed in enumerate(({name: value}, {})):
        folders[number].mkdir()
        small_run.write(
            folders[number], model="universal_transformer", steps=(number + 1,), **changed
        )
    paths = [str(folder / f"model.ckpt-{i}") for i, folder in enumerate(folders, 1)]
    output_path = tmp_path / "averaged" / "averaged"
    argv = [f"--checkpoints={','.join(paths)}", f"--output_path={output_path}"]
    assert avg_checkpoints.main(argv) == 0
    assert f"note: {name}='{value}' in {paths[0]}, {name}=" in capsys.readouterr().out
    averaged, *parts = (checkpoint.read_weights(p) for p in (f"{output_path}-0", *paths))
    for weight, value in averaged.items():
        wanted = (parts[0][weight].astype("float64") + parts[1][weight]) / 2
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


def test_average_rejects_t2t_and_truncated_checkpoints(run, tmp_path, capsys):
    folder = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "ckpt", "transformer")
    [name] = [name for name in os.listdir(folder) if name.endswith("20.index")]
    line = _error(capsys, f"--checkpoints={folder}/{name}", f"--output_path={tmp_path}/averaged")
    assert "ut-import-t2t" in line
    for ending in ("index", "data-00000-of-00001"):
        content = (run / f"model.ckpt-1.{ending}").read_bytes()
        (tmp_path / f"torn.{ending}").write_bytes(content[: len(content) // 2])
    line = _error(capsys, f"--checkpoints={tmp_path}/torn", f"--output_path={tmp_path}/averaged")
    assert "A checkpoint must be readable" in line and "torn" in line


def test_features_record_cannot_name_foreign_files(run, tmp_path, capsys):
    """The command copies a vocabulary only if features.json names a vocabulary file of a run."""
    theirs, home = tmp_path / "theirs", tmp_path / "home"
    shutil.copytree(run, theirs)
    home.mkdir()
    features = feature_record.from_problem(problems.get(small_run.PROBLEM), None)
    feature_record.save(str(theirs), features)
    record = json.loads((theirs / "features.json").read_text())
    described = {"class": "SubwordTextEncoder", "filename": ".bashrc"}
    record["features"]["inputs"]["encoder"] = described
    (theirs / "features.json").write_text(json.dumps(record))
    for folder in (theirs, home):
        (folder / ".bashrc").write_text(folder.name)
    argv = [f"--prefix={theirs}/", "--num_last_checkpoints=1", f"--output_path={home}/averaged"]
    assert "the vocabulary '.bashrc'" in _error(capsys, *argv)
    assert (home / ".bashrc").read_text() == "home"
