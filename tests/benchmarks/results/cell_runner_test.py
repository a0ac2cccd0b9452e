"""Tests of `cell_runner`, which trains and tests a run and reads results from the run's folder."""

import dataclasses
import json
import os
import types

import pytest
from results import cell_runner, lines

from tests.benchmarks.results.made_up import CELL, TABLE
from ut_keras.errors import UserError
from ut_keras.files import path_lock
from ut_keras.process import interruption
from ut_keras.training import trial_process


@pytest.fixture
def folders(tmp_path):
    names = ("runs_dir", "data_dir", "tmp_dir", "results_dir")
    return types.SimpleNamespace(**{name: str(tmp_path / name) for name in names})


@pytest.fixture
def directory(folders):
    """Return the folder of a trained and tested run that has no result line yet."""
    folder = cell_runner.run_directory(folders.runs_dir, CELL, 1)
    os.makedirs(os.path.join(folder, "best"))
    record = {"seconds": 1.5, "commit": cell_runner.commit(), "trained": True, "where": "a GPU"}
    _write(folder, "paper.json", record)
    evaluations = [
        {"step": step, "time": 1.0, "split": "dev", "mean_error": 1 / step}
        for step in range(1, 101)
    ]
    _write(folder, "metrics.jsonl", *evaluations)
    _write(folder, "best/metrics.jsonl", {"step": 90, "split": "test", "mean_error": 0.0123456789})
    open(os.path.join(folder, "best", "model.ckpt-90.index"), "w").close()
    return folder


def _write(folder, name, *records):
    with open(os.path.join(folder, name), "w") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def _run(folders):
    with interruption.StopRequest() as stop:
        return cell_runner.Runner(folders, stop).run(TABLE, CELL, 1)


def test_runner_writes_line_with_validation_curve(folders, directory):
    line = _run(folders)
    assert lines.read(folders.results_dir).of(CELL) == [line]
    assert (line["seconds"], line["best_at"], line["commit"]) == (2, 90, cell_runner.commit())
    assert line["where"] == "a GPU"
    assert line["valid"] == {"mean_error": 0.0111111} and line["test"] == {"mean_error": 0.0123457}
    steps = [step for step, _ in line["curve"]]
    assert 30 < len(steps) <= 40 and steps == sorted(steps) and steps[-1] == 100
    assert line["curve"][-1] == [100, 0.01]


@pytest.mark.parametrize(
    ("name", "records", "message"),
    [
        (
            "paper.json",
            [{"seconds": 1.5, "commit": "another", "trained": True, "where": ""}],
            "where it began, a",
        ),
        ("paper.json", [5], "paper.json must hold a JSON object"),
        ("paper.json", [{"seconds": "long"}], "paper.json must be a file of this script"),
        ("metrics.jsonl", ["nothing"], "Every line must be a JSON object with a step"),
        (
            "metrics.jsonl",
            [{"step": 90, "split": "dev", "loss": "much"}],
            "must have mean_error of dev",
        ),
        (
            "metrics.jsonl",
            [{"step": 90, "split": "dev", "loss": 1.0}],
            "must have mean_error of dev",
        ),
        ("best/metrics.jsonl", [[]], "Every line must be a JSON object with a step"),
    ],
)
def test_runner_rejects_folder_of_another_run(name, records, message, folders, directory):
    _write(directory, name, *records)
    before = {
        path: os.stat(os.path.join(directory, path)).st_mtime_ns for path in os.listdir(directory)
    }
    with pytest.raises(UserError, match=message) as raised:
        _run(folders)
    assert "\n" not in str(raised.value)
    assert not os.path.exists(folders.results_dir)
    assert before == {
        path: os.stat(os.path.join(directory, path)).st_mtime_ns for path in os.listdir(directory)
    }


def test_runner_rejects_folder_of_running_command(folders, directory):
    with (
        path_lock.held(os.path.join(directory, "paper.json"), "", ""),
        pytest.raises(path_lock.LockedError, match="by one command at a time. Received: .*seed-1"),
    ):
        _run(folders)
    assert not os.path.exists(folders.results_dir)
    assert _run(folders)["seed"] == 1


def test_runner_requires_best_weights(folders, directory):
    os.remove(os.path.join(directory, "best", "model.ckpt-90.index"))
    with pytest.raises(UserError, match="The best weights must be in"):
        _run(folders)


def test_runner_gives_trainer_absolute_folder_of_package(tmp_path, monkeypatch):
    cell = dataclasses.replace(CELL, package="benchmarks/results/small_data")
    started = []

    def start(command, directory, gpus, lock):
        lock.close()
        started.extend(command)
        raise KeyboardInterrupt

    monkeypatch.setattr(trial_process, "TrialProcess", start)
    monkeypatch.chdir(tmp_path)
    names = ("runs_dir", "data_dir", "tmp_dir", "results_dir")
    folders = types.SimpleNamespace(**{name: str(tmp_path / name) for name in names})
    with interruption.StopRequest() as stop, pytest.raises(KeyboardInterrupt):
        cell_runner.Runner(folders, stop).run(TABLE, cell, 1)
    [folder] = [word.split("=")[1] for word in started if word.startswith("--t2t_usr_dir")]
    assert os.path.isabs(folder) and os.path.isfile(os.path.join(folder, "__init__.py"))
