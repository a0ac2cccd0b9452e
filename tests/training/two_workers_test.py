"""Two processes over loopback, as two machines would train."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import numpy as np
import pytest

_ROOT = pathlib.Path(__file__).parents[2]
_PROBLEM = "algorithmic_reverse_binary40_test"


def _environments():
    """The environments of two workers; the ports were free a moment ago."""
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    for index in range(2):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        yield {**os.environ, "TF_CONFIG": json.dumps(config)}


def _start(arguments, environment, **options):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=_ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def _finish(processes, seconds=240):
    """What each wrote, and its exit code."""
    try:
        written = [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [
        (process.returncode, out, err)
        for process, (out, err) in zip(processes, written, strict=True)
    ]


@pytest.fixture(scope="module")
def runs():
    """What one process alone and each of two workers got."""
    arguments = ["-m", "tests.training.two_workers"]
    alone = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    started = [_start(arguments, environment) for environment in (alone, *_environments())]
    finished = _finish(started)
    for code, _, err in finished:
        assert code == 0, err[-3000:]
    return [json.loads(out) for _, out, _ in finished]


@pytest.mark.parametrize("model", ["toy", "adaptive"])
def test_two_workers_equal_one_device(runs, model):
    one, *workers = (run[model] for run in runs)
    assert one["replicas"] == 1
    for worker in workers:
        assert worker["replicas"] == 2
        assert worker["traces"] == 1
        for key in ("losses", "tokens", "sequences", "ponder"):
            np.testing.assert_allclose(worker[key], one[key], rtol=1e-5, err_msg=key)
        for a, b in zip(worker["weights"], one["weights"], strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
        assert worker["evaluation"] == pytest.approx(one["evaluation"], rel=1e-5)


@pytest.mark.parametrize("model", ["toy", "adaptive"])
def test_two_workers_have_equal_weights(runs, model):
    _, first, second = runs
    assert first[model]["weights"] == second[model]["weights"]


def test_workers_agree(runs):
    alone, first, second = (run["agreed"] for run in runs)
    #                 chief  its value  any    any    agreed agreed
    assert alone == [True, 5, False, False, True, True]
    assert first == [True, 5, True, False, True, False]
    assert second == [False, 5, True, False, True, False]


def _command(data_dir, output_dir, train_steps):
    return [
        "trainer.py",
        f"--problem={_PROBLEM}",
        "--model=universal_transformer",
        "--hparams_set=adaptive_universal_transformer_tiny",
        "--hparams=hidden_size=8,filter_size=16,num_heads=2,batch_size=256",
        f"--data_dir={data_dir}",
        f"--output_dir={output_dir}",
        f"--train_steps={train_steps}",
        "--local_eval_frequency=20",
        "--eval_steps=2",
    ]


def _read_until(process, text):
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(process.communicate()[1][-3000:])


def _step_of_newest(output_dir):
    return int(re.search(r"model.ckpt-(\d+)", (output_dir / "checkpoint").read_text())[1])


def test_a_killed_worker_ends_the_other_and_both_go_on(tmp_path):
    from ut_keras.bin import datagen

    data_dir, output_dir = tmp_path / "data", tmp_path / "run"
    argv = [f"--problem={_PROBLEM}", f"--data_dir={data_dir}", f"--tmp_dir={tmp_path}"]
    assert datagen.main(argv) == 0
    command = _command(data_dir, output_dir, 100000)
    chief, other = (_start(command, environment) for environment in _environments())
    try:
        _read_until(chief, "evaluation at step 20")
        other.kill()
        out, err = chief.communicate(timeout=60)
    finally:
        for process in (chief, other):
            process.kill()
            process.communicate()
    assert chief.returncode == 75, err[-3000:]
    step = _step_of_newest(output_dir)
    last = out.splitlines()[-1]
    assert re.match(r"Another worker has stopped answering, at step \d+\. Run the same", last)
    assert f"model.ckpt-{step}." in last
    assert "Traceback" not in err

    command = _command(data_dir, output_dir, step + 10)
    finished = _finish([_start(command, environment) for environment in _environments()])
    for code, out, err in finished:
        assert code == 0, err[-3000:]
        assert f"Going on from step {step} " in out
    assert (
        finished[0][1].splitlines()[-1].split(" train_time")[0]
        == (finished[1][1].splitlines()[-1].split(" train_time")[0])
    )
    assert _step_of_newest(output_dir) == step + 10
    # The chief alone writes.
    records = (output_dir / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in records]
    assert steps == sorted(set(steps))
    assert len(list(output_dir.glob("events.out.*"))) <= 2
