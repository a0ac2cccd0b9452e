"""A trainer that resumes a run under changed conditions prints notes or raises an error."""

import json
import re
import types

import pytest
import tensorflow as tf

import trainer
from tests.bin import small_run
from ut_keras import hparams, problems
from ut_keras.bin import command_line, flags, trainer_setup, training_conditions
from ut_keras.training import distribution

_HP = hparams.get("transformer_tiny", "learning_rate_schedule=constant*linear_decay")
_TERMS = {
    "train_data": "1 file, 9 bytes, sha256 0a",
    "num_replicas": 1,
    "batch_size": 32,
    "train_steps": 100,
    "moving_average_decay": 0.0,
    "hparams": {},
    "eval_split": "dev",
    "eval_data": "1 file",
    "eval_steps": 100,
    "decode_hparams": "the default",
}
_RECORD = {"random_seed": 3, "trained_with": _TERMS}


@pytest.mark.parametrize(
    "changed, expected",
    [
        ({}, None),
        (
            {"train_data": "2 files"},
            "the training data changed from 1 file, 9 bytes, sha256 0a to 2 files",
        ),
        ({"num_replicas": 2}, "the number of replicas changed from 1 to 2"),
        ({"moving_average_decay": 0.9}, "moving_average_decay changed from 0.0 to 0.9"),
        ({"batch_size": 64}, "the batch_size of all replicas together changed from 32 to 64"),
        ({"random_seed": 4}, "random_seed changed from 3 to 4"),
        (
            {"eval_data": "2 files"},
            "the evaluation data changed from 1 file to 2 files, so the results are not comparable "
            "with those of earlier evaluations",
        ),
        (
            {"eval_steps": 1},
            "eval_steps changed from 100 to 1, so the results are not comparable with those of "
            "earlier evaluations, unless all of them read the complete split",
        ),
        (
            {"decode_hparams": "beam_size=1"},
            "decode_hparams changed from the default to beam_size=1, so the results are not "
            "comparable with those of earlier evaluations",
        ),
        ({"eval_split": "test", "eval_data": "2 files"}, None),
        (
            {"train_steps": 200},
            "train_steps changed from 100 to 200, and constant*linear_decay depends on it",
        ),
    ],
)
def test_changes_reports_each_condition(changed, expected):
    changed = dict(changed)
    setup = types.SimpleNamespace(hp=_HP, seed=changed.pop("random_seed", 3))
    notes = training_conditions.changes(_RECORD, {**_TERMS, **changed}, setup)
    assert notes == ([f"note: {expected}"] if expected else [])
    # A run of an older version of ut_keras has no record of its conditions.
    assert not training_conditions.changes({}, {**_TERMS, **changed}, setup)


def test_changes_explains_global_batch_size():
    setup = types.SimpleNamespace(hp=_HP, seed=3)
    record = {**_RECORD, "trained_with": {**_TERMS, "global_batch_size": 64}}
    terms = {**_TERMS, "num_replicas": 2, "global_batch_size": 64}
    [message] = training_conditions.changes(record, terms, setup)
    assert "replicas changed from 1 to 2. Because of --global_batch_size, the batches" in message
    [message] = training_conditions.changes(
        _RECORD, terms, setup
    )  # this record has no global_batch_size
    assert message.endswith("from 1 to 2")


def test_changes_ignores_train_steps_without_dependent_schedule():
    setup = types.SimpleNamespace(hp=hparams.get("transformer_tiny"), seed=3)
    assert not training_conditions.changes(_RECORD, {**_TERMS, "train_steps": 200}, setup)


_HPARAMS = "hidden_size=8,filter_size=16,num_heads=2,num_hidden_layers=1,batch_size=256"


def _argv(data_dir, output_dir, *more, hparams=_HPARAMS):
    return [
        f"--problem={small_run.PROBLEM}",
        "--model=transformer",
        "--hparams_set=transformer_tiny",
        f"--hparams={hparams}",
        f"--data_dir={data_dir}",
        f"--output_dir={output_dir}",
        "--schedule=train",
        "--train_steps=2",
        "--random_seed=3",
        *more,
    ]


def _generate(folder, seed):
    problem = problems.get(small_run.PROBLEM)
    problem.generate_data(str(folder), str(folder), seed=seed, num_processes=1)
    return folder


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return _generate(tmp_path_factory.mktemp("data"), 1)


@pytest.fixture(scope="module")
def run(data_dir, tmp_path_factory):
    output_dir = tmp_path_factory.mktemp("run")
    assert trainer.main(_argv(data_dir, output_dir)) == 0
    return output_dir


def test_worker_fingerprint_has_number_of_gpus(data_dir, tmp_path, monkeypatch):
    """Workers compare their numbers of GPUs before TensorFlow connects them.

    If the numbers differed, TensorFlow would wait without a timeout.
    """
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0", "GPU:1"])

    def gpus(asked):
        words = _argv(data_dir, tmp_path, f"--worker_gpu={asked}")
        setup = trainer_setup.check(command_line.parse(flags.TRAINER, words, "trainer.py", ""))
        return training_conditions.worker_fingerprint(setup)["gpus"]

    assert (gpus(1), gpus(2)) == (1, 2)
    with pytest.raises(distribution.DeviceError, match="worker_gpu=3, with 2 GPUs"):
        gpus(3)


def test_resume_rejects_another_optimizer(run, data_dir, capsys):
    def argv(name):
        return _argv(data_dir, run, hparams=f"{_HPARAMS},optimizer={name}")

    expected = "optimizer must be adam .* Received: momentum"
    assert re.search(expected, small_run.error(capsys, trainer.main, argv("momentum")))
    trainer_setup.check(command_line.parse(flags.TRAINER, argv("true_adam"), "trainer.py", ""))


def _edit(run, name, value):
    path = run / "hparams.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, name: value}))
    return values[name]


@pytest.mark.slow
def test_resume_reports_changed_conditions(run, data_dir, tmp_path, capsys):
    """The test changes data, seed, hparams and moving average.

    These changes also change the order of the batches, so the trainer begins a new epoch.
    """
    other = _generate(tmp_path, 2)
    _edit(run, "learning_rate_constant", 0.5)
    hparams = _HPARAMS.replace("batch_size=256", "batch_size=128,norm_epsilon=0.001")
    argv = _argv(other, run, hparams=f"{hparams},learning_rate_constant=0.25")
    changes = ("--train_steps=3", "--random_seed=4", "--moving_average_decay=0.9")
    assert trainer.main([*argv, *changes]) == 0
    output = capsys.readouterr().out
    for expected in (
        r"^note: batch_size is 128; the run was trained with 256 \(\S*/hparams.json\)$",
        r"^note: learning_rate_constant is 0.25; the run was trained with 2.0 \(",
        r"^note: norm_epsilon is 0.001; the run was trained with 1e-06 \(",
        r"^note: the training data changed from 1 file, .* to 1 file, .*$",
        "^note: random_seed changed from 3 to 4$",
        "^note: moving_average_decay changed from 0.0 to 0.9$",
        "^Starting a moving average of the weights, .*$",
        "^The order of the batches differs .* beginning of epoch 1$",
    ):
        assert re.search(expected, output, re.MULTILINE), (expected, output)
    assert trainer.main([*argv, *changes, "--train_steps=4"]) == 0
    output = capsys.readouterr().out
    assert not re.search("changed|trained with|another|average", output), output
    argv = [*argv, "--random_seed=4", "--train_steps=5"]
    assert trainer.main(argv) == 0
    output = capsys.readouterr().out
    assert "note: moving_average_decay changed from 0.9 to 0.0" in output
    assert "Ignoring the moving average of the weights" in output
    assert "order of the batches differs" not in output
    trained_with = json.loads((run / "run.json").read_text())["trained_with"]
    assert trained_with["hparams"]["norm_epsilon"] == 0.001
    assert trained_with["num_replicas"] == 1 and trained_with["train_steps"] == 5
