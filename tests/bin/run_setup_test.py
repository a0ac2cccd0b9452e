"""What is wrong with a command line is said before TensorFlow is loaded."""

import json

import pytest

import trainer
from tests.bin import small_run
from ut_keras import problems
from ut_keras.bin import command_line, decoder, exporter, flags, import_t2t, run_setup
from ut_keras.errors import UsageError


def _argv(tmp_path, *more):
    return [
        f"--problem={small_run.PROBLEM}",
        "--model=transformer",
        "--hparams_set=transformer_tiny",
        f"--data_dir={tmp_path}",
        f"--output_dir={tmp_path / 'run'}",
        *more,
    ]


@pytest.mark.parametrize(
    "more, message",
    [
        (["--eval_early_stopping_metric=decode/bleu"], "needs --schedule=train_eval_and_decode"),
        (["--eval_early_stopping_steps=5", "--schedule=train"], "trains and evaluates"),
        (["--moving_average_decay=1.5"], "must be in [0, 1). Received: 1.5"),
        (["--profile=9-3"], "A-B. Received: '9-3'"),
        (["--profile=yes"], "A-B. Received: 'yes'"),
        (["--global_batch_size=0"], "global_batch_size must be at least 1. Received: 0"),
    ],
)
def test_what_is_refused(tmp_path, capsys, more, message):
    assert message in small_run.error(capsys, trainer.main, _argv(tmp_path, *more))


@pytest.mark.parametrize("missing", ["data_dir", "output_dir", "problem"])
def test_a_misspelt_name_is_said_before_what_is_missing(tmp_path, capsys, missing):
    misspelt = {"problem": "algorithmic_reverse_decimal41", "model": "transformr"}
    flag = "model" if missing == "problem" else "problem"
    argv = [*_argv(tmp_path), f"--{flag}={misspelt[flag]}"]
    argv = [word for word in argv if not word.startswith(f"--{missing}=")]
    for main in (trainer.main, decoder.main, exporter.main, import_t2t.main):
        if main is import_t2t.main:
            argv = [word for word in argv if not word.startswith("--hparams_set=")]
        line = small_run.error(capsys, main, argv)
        assert f"Unknown {flag}" in line.replace("registered ", "") and misspelt[flag] in line


def test_a_broken_cluster_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{")
    assert "TF_CONFIG must be JSON" in small_run.error(capsys, trainer.main, _argv(tmp_path))
    workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(workers))
    message = small_run.error(capsys, trainer.main, _argv(tmp_path, "--use_tpu"))
    assert "--use_tpu must go without the workers" in message


def _check(tmp_path, *more):
    return run_setup.check(
        command_line.parse(flags.TRAINER, _argv(tmp_path, *more), "trainer.py", "")
    )


def test_the_batch_of_all_devices_together(tmp_path):
    assert _check(tmp_path, "--global_batch_size=640").hp.batch_size == 640


def test_training_alone_needs_no_split_to_evaluate(tmp_path, monkeypatch):
    monkeypatch.setattr(type(problems.get(small_run.PROBLEM)), "splits", ("train",))
    assert _check(tmp_path, "--schedule=train").eval_split == "dev"
    with pytest.raises(UsageError, match="must have the split 'dev'. Received: train."):
        _check(tmp_path)


def test_early_stopping_by_t2ts_flags(tmp_path):
    setup = _check(
        tmp_path,
        "--eval_early_stopping_metric=metrics-x/targets/accuracy",
        "--eval_early_stopping_steps=100",
        "--eval_early_stopping_metric_delta=0.5",
    )
    stopping = setup.early_stopping
    for step, value in ((100, 0.1), (200, 0.7), (250, 0.8)):
        stopping.add(step, {"accuracy": value})
        assert not stopping.should_stop
    stopping.add(300, {"accuracy": 0.8})
    assert stopping.should_stop and stopping.best_step == 300


def test_a_field_without_effect_is_said(tmp_path, capsys):
    _check(tmp_path)
    assert "note: " not in capsys.readouterr().out
    _check(tmp_path, "--hparams=daisy_chain_variables=False,hidden_size=64")
    [note] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    assert note.startswith("note: daisy_chain_variables=False has no effect here: ")


def test_steps_to_profile(tmp_path):
    assert _check(tmp_path).profile_steps is None
    assert _check(tmp_path, "--profile=False").profile_steps is None
    assert _check(tmp_path, "--profile=100-110").profile_steps == (100, 110)


def test_a_rate_that_the_steps_do_not_reach_is_refused_before_any_data(tmp_path, capsys):
    schedule = "--hparams=learning_rate_schedule=single_cycle_cos_decay"
    argv = _argv(tmp_path, "--generate_data", f"{schedule},learning_rate_warmup_steps=200")
    line = small_run.error(capsys, trainer.main, [*argv, "--train_steps=100"])
    assert "needs train_steps > learning_rate_warmup_steps" in line
    assert not list(tmp_path.iterdir())
