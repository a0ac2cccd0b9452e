"""A run that is killed and restarted has bitwise the same results as an uninterrupted run.

The processes are forks of one process that has imported TensorFlow. With the environment variable
UT_KERAS_KILLS=20, a test kills the run at 20 random moments instead of three moments.
"""

import json
import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest

from tests.training import survival_program as program

_KILLS = int(os.environ.get("UT_KERAS_KILLS", "3"))


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([program.__name__])
    return context


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    program.write_data(path)
    return path


def _start(processes, data_dir, output_dir, **options):
    output_dir.mkdir(exist_ok=True)
    arguments = (str(data_dir), str(output_dir))
    process = processes.Process(target=program.train, args=arguments, kwargs=options)
    process.start()
    return process


def _finish(process):
    process.join(timeout=600)
    if process.exitcode is None:
        process.kill()
    return process.exitcode


@pytest.fixture(scope="module")
def uninterrupted(processes, data_dir, tmp_path_factory):
    """Return the folder of a run that was never interrupted."""
    output_dir = tmp_path_factory.mktemp("whole")
    assert _finish(_start(processes, data_dir, output_dir)) == 0
    return output_dir


def _records(output_dir):
    """Return the records in metrics.jsonl without their times."""
    records = [json.loads(line) for line in (output_dir / "metrics.jsonl").read_text().splitlines()]
    return [{name: record[name] for name in record if name != "time"} for record in records]


def _assert_same_state(output_dir, uninterrupted):
    for path in (f"model.ckpt-{program.TRAIN_STEPS}", "best"):
        expected, actual = program.state(uninterrupted / path), program.state(output_dir / path)
        assert set(actual) == set(expected)
        for name in expected:
            np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)


def _assert_same(output_dir, uninterrupted):
    _assert_same_state(output_dir, uninterrupted)
    assert _records(output_dir) == _records(uninterrupted)
    for folder in ("", "eval", "decode"):
        assert program.events(output_dir, folder) == program.events(uninterrupted, folder), folder
    named = set(path.name for path in output_dir.glob("model.ckpt-*"))
    assert not [name for name in named if "temp" in name or "ut_keras" in name]
    assert {name for name in named if name.endswith("index")} >= {
        f"model.ckpt-{step}.index" for step in (10, 15, 20)
    }


@pytest.mark.slow
def test_uninterrupted_run_has_all_states(uninterrupted):
    records = _records(uninterrupted)
    assert [record["step"] for record in records] == [s for n in range(1, 5) for s in (5 * n,) * 2]
    state = program.state(uninterrupted / f"model.ckpt-{program.TRAIN_STEPS}")
    epoch, batch = (
        state[f"position/{name}/.ATTRIBUTES/VARIABLE_VALUE"] for name in ("epoch", "batch")
    )
    assert epoch >= 2 and batch > 0
    assert len(program.events(uninterrupted, "")) == 5 * len(
        {tag for _, tag in program.events(uninterrupted, "")}
    )


@pytest.mark.slow
def test_run_resumes_after_a_kill_at_every_critical_moment(
    processes, data_dir, uninterrupted, tmp_path
):
    output_dir = tmp_path / "run"
    for moment in program.MOMENTS:
        process = _start(processes, data_dir, output_dir, moment=moment)
        assert _finish(process) == -signal.SIGKILL, moment
    assert _finish(_start(processes, data_dir, output_dir)) == 0
    _assert_same(output_dir, uninterrupted)


@pytest.mark.slow
def test_run_resumes_after_a_kill_during_saving(processes, data_dir, uninterrupted, tmp_path):
    output_dir = tmp_path / "run"
    process = _start(processes, data_dir, output_dir)
    while process.is_alive() and not list(output_dir.glob(".model.ckpt-*.ut_keras-*")):
        time.sleep(0.0005)  # such a file exists only for milliseconds
    process.kill()
    assert _finish(process) == -signal.SIGKILL
    assert _finish(_start(processes, data_dir, output_dir)) == 0
    _assert_same(output_dir, uninterrupted)


@pytest.mark.slow
def test_run_resumes_after_a_kill_during_background_saving(
    processes, data_dir, uninterrupted, tmp_path
):
    output_dir = tmp_path / "run"
    process = _start(processes, data_dir, output_dir, moment="beside the steps")
    assert _finish(process) == -signal.SIGKILL
    assert "killed at step 12" in (output_dir / "log").read_text()
    # The files of the checkpoint are complete, but the file `checkpoint` does not name them.
    assert (output_dir / "model.ckpt-10.index").exists()
    assert _finish(_start(processes, data_dir, output_dir)) == 0
    log = (output_dir / "log").read_text()
    assert "Resuming from step 5 " in log
    assert "note: model.ckpt-10 will be overwritten" in log
    _assert_same(output_dir, uninterrupted)


@pytest.mark.slow
def test_run_resumes_after_kills_at_random_moments(processes, data_dir, uninterrupted, tmp_path):
    started = time.monotonic()
    assert _finish(_start(processes, data_dir, tmp_path / "timed")) == 0
    seconds = time.monotonic() - started
    killed_after, runs = [], 0
    while len(killed_after) < _KILLS:
        moment = random.uniform(0, seconds)
        output_dir = tmp_path / f"run{runs}"
        process = _start(processes, data_dir, output_dir)
        process.join(timeout=moment)
        process.kill()
        if _finish(process) == -signal.SIGKILL:
            killed_after.append(round(moment, 2))
        else:  # The run ended before the kill.
            _assert_same(output_dir, uninterrupted)
            runs += 1
    print("killed after seconds:", killed_after)
    assert _finish(_start(processes, data_dir, output_dir)) == 0
    _assert_same(output_dir, uninterrupted)


@pytest.mark.slow
def test_sigterm_saves_and_exits_with_143(processes, data_dir, uninterrupted, tmp_path):
    output_dir = tmp_path / "run"
    process = _start(processes, data_dir, output_dir)
    while process.is_alive() and not (output_dir / "checkpoint").exists():
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGTERM)
    assert _finish(process) == 128 + signal.SIGTERM
    log = (output_dir / "log").read_text()
    assert "SIGTERM: stopped at step" in log and " saved a checkpoint" in log
    assert _finish(_start(processes, data_dir, output_dir)) == 0
    _assert_same(output_dir, uninterrupted)


@pytest.mark.slow
def test_full_disk_does_not_change_the_result(processes, data_dir, uninterrupted, tmp_path):
    output_dir = tmp_path / "run"
    process = _start(processes, data_dir, output_dir, full_from=10, full_to=15)
    assert _finish(process) == 0
    log = (output_dir / "log").read_text()
    (line,) = {x for x in log.splitlines() if "step 10 could not be saved" in x}
    assert "; newest checkpoint: " in line and "model.ckpt-5." in line
    assert f": File too large: {output_dir}/model.ckpt-10. Training" in line
    _assert_same_state(output_dir, uninterrupted)
    # The lines that did not fit on the disk are missing, and all other lines are complete.
    records = _records(output_dir)
    assert all(record in _records(uninterrupted) for record in records)
    assert [record["step"] for record in records][-4:] == [15, 15, 20, 20]
    assert (
        log.count("Results could not be recorded")
        == len(_records(uninterrupted)) - len(records)
        > 0
    )


@pytest.mark.slow
def test_error_if_the_last_checkpoint_cannot_be_saved(processes, data_dir, uninterrupted, tmp_path):
    output_dir = tmp_path / "run"
    assert _finish(_start(processes, data_dir, output_dir, full_from=18)) == 2
    log = (output_dir / "log").read_text().strip().splitlines()
    assert f"The checkpoint of step {program.TRAIN_STEPS} could not be saved" in log[-1]
    assert (output_dir / "model.ckpt-15.index").exists()
    assert not list(output_dir.glob("model.ckpt-20*"))
    assert _finish(_start(processes, data_dir, output_dir)) == 0
    _assert_same(output_dir, uninterrupted)
