import json
import os
import re
import shlex
import shutil

import numpy as np
import pytest
import tensorflow as tf

import trainer
from ut_keras.bin import import_t2t

FOLDER = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t")
DATA_DIR = os.path.join(FOLDER, "data_dir")
RUNS = {
    "transformer": "transformer",
    "adaptive_universal_transformer": "universal_transformer",
}
PROBLEM = "algorithmic_reverse_binary40"


def _source(name="transformer"):
    return os.path.join(FOLDER, "ckpt", name)


def _import(source, output_dir, *more, data_dir=DATA_DIR):
    argv = [f"--t2t_output_dir={source}", f"--data_dir={data_dir}", f"--output_dir={output_dir}"]
    return import_t2t.main([*argv, *more])


def _train(output_dir, model, *more):
    argv = [f"--problem={PROBLEM}", f"--model={model}", f"--data_dir={DATA_DIR}"]
    return trainer.main([*argv, f"--output_dir={output_dir}", *more])


@pytest.fixture(scope="module", params=RUNS)
def imported(request, tmp_path_factory):
    """Import a T2T run of tests/testdata, and return its name and the folder of the new run."""
    output_dir = tmp_path_factory.mktemp(request.param)
    assert _import(_source(request.param), output_dir) == 0
    return request.param, output_dir


def test_import_writes_the_records_of_a_run(imported):
    name, output_dir = imported
    assert (output_dir / "model.ckpt-20.index").exists()
    hparams = json.loads((output_dir / "hparams.json").read_text())
    assert (hparams["hidden_size"], hparams["optimizer"]) == (32, "true_adam")
    assert hparams["layer_prepostprocess_dropout"] > 0
    run = json.loads((output_dir / "run.json").read_text())
    assert (run["problem"], run["model"], run["random_seed"]) == (PROBLEM, RUNS[name], 17)
    assert run["hparams_set"].endswith("transformer_tiny")


def test_import_keeps_weights_and_statistics(imported):
    name, output_dir = imported
    there = tf.train.load_checkpoint(_source(name))
    here = tf.train.load_checkpoint(str(output_dir))
    shapes = here.get_variable_to_shape_map()
    values = [
        here.get_tensor(key).ravel()
        for key in shapes
        if key.startswith(("model/", "optimizer/")) and shapes[key]
    ]
    expected = [
        there.get_tensor(key).ravel()
        for key, shape in there.get_variable_to_shape_map().items()
        if shape
    ]
    # The import renames the variables and joins the shards of the embedding, so the test compares
    # the sorted numbers of all variables.
    values, expected = np.sort(np.concatenate(values)), np.sort(np.concatenate(expected))
    np.testing.assert_array_equal(values, expected)


@pytest.mark.slow
def test_imported_run_can_be_evaluated_and_trained(imported, tmp_path, capsys):
    name, output_dir = imported
    run = shutil.copytree(output_dir, tmp_path / "run")
    assert _train(run, RUNS[name], "--schedule=evaluate", "--eval_steps=2") == 0
    shown = capsys.readouterr().out
    assert re.search(r"accuracy_per_sequence=\S+ accuracy=\S+ loss=\S+ .*steps=20", shown)
    assert _train(run, RUNS[name], "--schedule=train", "--train_steps=22") == 0
    assert "Resuming from step 20" in capsys.readouterr().out
    assert (run / "model.ckpt-22.index").exists()
    record = json.loads((run / "run.json").read_text())  # training keeps hparams_set
    assert record["hparams_set"].endswith("transformer_tiny") and "hidden_size" in record["hparams"]


def test_printed_resume_command_is_valid(tmp_path, capsys):
    package, run = tmp_path / "my package", tmp_path / "my run"
    package.mkdir()
    (package / "__init__.py").touch()
    assert _import(_source(), run, f"--t2t_usr_dir={package}") == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert words[0] == "ut-trainer"
    assert {f"--t2t_usr_dir={package}", f"--output_dir={run}"} < set(words)


def _error(capsys, *arguments, **keywords):
    assert _import(*arguments, **keywords) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), lines
    return lines[0]


@pytest.mark.parametrize(
    "more, message",
    [
        (["--problem=algorithmic_reverse_binary4"], "algorithmic_reverse_binary40"),
        (["--problem=algorithmic_reverse_decimal40"], r"'inputs': 4.* Received: .*12"),
        (["--model=transfomer"], "transformer"),
        (["--model=universal_transformer"], "universal_transformer. Received: .* of transformer."),
        (["--t2t_output_dir=/nowhere"], "--t2t_output_dir must be a folder.*'/nowhere'"),
        (["--t2t_output_dir="], "--t2t_output_dir is required"),
        ([f"--t2t_output_dir={DATA_DIR}"], "without hparams.json"),
        (["--data_dir=/nowhere"], "--data_dir must be a folder"),
        (["--output_dir="], "--output_dir is required"),
        ([f"--output_dir={_source()}"], "without a run.*has a checkpoint"),
        (["--problem=text2text_tsv"], r"vocab.text2text_tsv.8192.subwords"),
        (["--modl=transformer"], "--model"),
    ],
)
def test_user_errors_are_one_line(tmp_path, capsys, more, message):
    assert re.search(message, _error(capsys, _source(), tmp_path / "run", *more))
    assert not (tmp_path / "run").exists()


def _copy(tmp_path):
    return shutil.copytree(_source(), tmp_path / "t2t")


def test_names_are_required_without_t2t_flags(tmp_path, capsys):
    source = _copy(tmp_path)
    for path in source.glob("flags*"):
        path.unlink()
    run = tmp_path / "run"
    assert "--problem is required" in _error(capsys, source, run)
    assert "--model is required" in _error(capsys, source, run, f"--problem={PROBLEM}")
    assert _import(source, run, f"--problem={PROBLEM}", "--model=transformer") == 0


def test_import_accepts_rate_that_depends_on_train_steps(tmp_path):
    source = _copy(tmp_path)
    path = source / "hparams.json"
    hp = json.loads(path.read_text())
    path.write_text(json.dumps({**hp, "learning_rate_schedule": "constant*single_cycle_cos_decay"}))
    assert _import(source, tmp_path / "run") == 0


def test_import_keeps_the_learning_rate_of_older_versions(tmp_path):
    """T2T before 1.4.4 has no learning_rate_schedule. T2T before 1.13 writes `TrueAdam`."""
    source = _copy(tmp_path)
    path = source / "hparams.json"
    hp = json.loads(path.read_text())
    for name in ("learning_rate_schedule", "split_targets_chunk_length"):
        del hp[name]
    path.write_text(json.dumps({**hp, "optimizer": "TrueAdam"}))
    assert _import(source, tmp_path / "run") == 0
    written = json.loads((tmp_path / "run" / "hparams.json").read_text())
    assert (written["learning_rate_schedule"], written["optimizer"]) == ("legacy", "true_adam")


def _older_run(tmp_path, replace, **hparams):
    """Copy a run of an adaptive Universal Transformer, as an older T2T version would write it.

    Args:
        replace: function from a name of a variable to its name in the older version.
        hparams: changes of hparams.json. None removes a field.
    """
    source = shutil.copytree(_source("adaptive_universal_transformer"), tmp_path / "t2t")
    reader = tf.train.load_checkpoint(str(source))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [
            tf.compat.v1.get_variable(replace(name), initializer=reader.get_tensor(name))
            for name in reader.get_variable_to_shape_map()
        ]
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver(variables)
        saver.save(session, str(source / "model.ckpt"), global_step=20)
    hp = json.loads((source / "hparams.json").read_text())
    hp = {name: value for name, value in {**hp, **hparams}.items() if value is not None}
    (source / "hparams.json").write_text(json.dumps(hp))
    for path in source.glob("flags*"):
        path.write_text(replace(path.read_text()))
    return source


_REMOVED_BEFORE_1_13 = {"split_targets_chunk_length": None, "num_inrecurrence_layers": None}
_VALUES_BEFORE_1_9 = {
    **_REMOVED_BEFORE_1_13,
    "add_ffn_unit_to_the_transition_function": None,
    "gru_transformation": ["state_transformation"],
}


@pytest.mark.parametrize(
    "hparams, replace, act_type",
    [
        (_REMOVED_BEFORE_1_13, lambda text: text.replace("rec_layer_0/", ""), "basic"),
        (
            _VALUES_BEFORE_1_9,
            lambda text: text.replace("rec_layer_0/", "").replace(
                "universal_transformer", "r_transformer"
            ),
            "accumulated",
        ),
    ],
    ids=["1.12", "1.6.3"],
)
def test_import_reads_universal_transformer_of_older_versions(
    tmp_path, capsys, hparams, replace, act_type
):
    source = _older_run(tmp_path, replace, **hparams)
    assert _import(source, tmp_path / "run") == 0
    shown = capsys.readouterr().out
    assert "Read universal_transformer at step 20" in shown and "116 statistics" in shown
    written = json.loads((tmp_path / "run" / "hparams.json").read_text())
    assert written["act_type"] == act_type
    assert _import(_source("adaptive_universal_transformer"), tmp_path / "current") == 0
    there, here = (tf.train.load_checkpoint(str(tmp_path / name)) for name in ("current", "run"))
    shapes = there.get_variable_to_shape_map()
    assert shapes == here.get_variable_to_shape_map()
    names = [name for name in shapes if name.startswith(("model/", "optimizer/"))]
    assert len(names) > 100
    for name in names:
        np.testing.assert_array_equal(here.get_tensor(name), there.get_tensor(name), name)


def test_import_rejects_other_formulas_of_older_versions(tmp_path, capsys):
    changes = {**_VALUES_BEFORE_1_9, "act_type": "global"}
    source = _older_run(tmp_path, lambda text: text.replace("rec_layer_0/", ""), **changes)
    message = _error(capsys, source, tmp_path / "run")
    assert re.search("act_type must be .*before 1.9. Received: act_type='global'", message)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda hp: {**hp, "hiden_size": 3}, "hiden_size.*hidden_size"),
        (lambda hp: {**hp, "norm_type": "batch"}, "norm_type"),
        (lambda hp: {**hp, "num_hidden_layers": 3}, "missing variables .*layer_2"),
        (lambda hp: {**hp, "hidden_size": 64}, "must have the shape|those of the model"),
        (lambda hp: [hp], "must hold a JSON object"),
    ],
)
def test_import_rejects_invalid_hparams(tmp_path, capsys, change, message):
    source = _copy(tmp_path)
    path = source / "hparams.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert re.search(message, _error(capsys, source, tmp_path / "run"))


@pytest.mark.parametrize("suffix", ["index", "data-00001-of-00002"])
def test_import_rejects_damaged_checkpoint(tmp_path, capsys, suffix):
    source = _copy(tmp_path)
    path = source / f"model.ckpt-20.{suffix}"
    path.write_bytes(path.read_bytes()[:40])
    assert "cannot be imported" in _error(capsys, source, tmp_path / "run")


def test_import_accepts_checkpoint_without_statistics(tmp_path, capsys):
    """The import requires the step of a checkpoint, but not the optimizer statistics."""
    source = _copy(tmp_path)
    reader = tf.train.load_checkpoint(str(source))
    names = [name for name in reader.get_variable_to_shape_map() if "training/" not in name]
    for number, kept in enumerate((names, [name for name in names if name != "global_step"])):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variables = [
                tf.compat.v1.get_variable(name, initializer=reader.get_tensor(name))
                for name in kept
            ]
            session.run(tf.compat.v1.global_variables_initializer())
            saver = tf.compat.v1.train.Saver(variables)
            saver.save(session, str(source / "model.ckpt"), global_step=21 + number)
        if number == 0:
            assert _import(source, tmp_path / "run") == 0
            assert "no optimizer statistics" in capsys.readouterr().out
    assert "must contain global_step" in _error(capsys, source, tmp_path / "other")
