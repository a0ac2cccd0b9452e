"""Tests of training with two workers, which are two processes on one machine."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from tests import forks
from tests.training import elastic, two_workers
from ut_keras import problems
from ut_keras.training import distribution

_ROOT = pathlib.Path(__file__).parents[2]
_PROBLEM = "algorithmic_reverse_binary40_test"


def _environments():
    """Yield the environments of two workers, with ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    for index in range(2):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        yield {**os.environ, "TF_CONFIG": json.dumps(config)}


def _start(words, environment):
    """Start `python WORDS` in a fork, which does not import TensorFlow again."""
    return forks.start([*map(str, words)], _ROOT, environment)


def _start_new(words, environment):
    """Start `python WORDS` in a new process, whose stderr contains no output of `forks`."""
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=_ROOT,
        # A new process must not inherit the log level of TensorFlow from this process.
        env={k: v for k, v in environment.items() if k != "TF_CPP_MIN_LOG_LEVEL"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _kill(processes):
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def _finish(processes, seconds=240):
    """Wait for the processes, and return [(exit code, stdout, stderr)]."""
    try:
        written = [process.communicate(timeout=seconds) for process in processes]
    finally:
        _kill(processes)
    return [
        (process.returncode, out, err)
        for process, (out, err) in zip(processes, written, strict=True)
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the results of one device and of each of two workers."""
    data_dir = str(tmp_path_factory.mktemp("data"))
    two_workers.write_data(data_dir)
    command = ["-m", "tests.training.two_workers", data_dir]
    started = [_start(command, environment) for environment in _environments()]
    try:
        alone = two_workers.train_all(distribution.get_strategy(devices=["CPU:0"]), data_dir)
    finally:
        finished = _finish(started)
    for code, _, err in finished:
        assert code == 0, err[-3000:]
    # Only the last line contains the results. An earlier line may report a slow indexing.
    return [alone, *(json.loads(out.splitlines()[-1]) for _, out, _ in finished)]


def _assert_equal_weights(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_keras_methods_reject_several_workers(tmp_path):
    command = ["-m", "tests.training.fit_two_workers", tmp_path]
    started = [_start(command, environment) for environment in _environments()]
    for code, out, err in _finish(started):
        assert code == 0, err[-3000:]
        raised = json.loads(out.splitlines()[-1])
        assert len(raised) == 4
        for method, (kind, message) in raised.items():
            assert kind == "ValueError"
            assert message.startswith(f"{method} must") and "Received: 2 replicas." in message
            assert "20585" in message and "ut-trainer" in message


@pytest.mark.slow
def test_two_workers_equal_one_device(runs):
    one, *workers = (run["batches"] for run in runs)
    assert one["replicas"] == 1
    for worker in workers:
        assert worker["replicas"] == 2
        assert worker["traces"] == 1
        for key in ("losses", "tokens", "sequences", "ponder"):
            np.testing.assert_allclose(worker[key], one[key], rtol=1e-5, err_msg=key)
        _assert_equal_weights(worker["weights"], one["weights"])
        assert worker["evaluation"] == pytest.approx(one["evaluation"], rel=1e-5)


@pytest.mark.slow
def test_two_workers_with_own_examples_equal_one_device(runs):
    one, *workers = (run["files"] for run in runs)
    for worker in workers:
        assert worker["traces"] == 1
        np.testing.assert_allclose(worker["losses"], one["losses"], rtol=1e-5)
        _assert_equal_weights(worker["weights"], one["weights"])


@pytest.mark.slow
def test_workers_with_xla_equal_workers_without(runs):
    for run in runs:
        assert 0 <= run["xla"] < 1e-5


@pytest.mark.slow
def test_worker_reads_only_its_own_examples(runs):
    whole, *workers = (run["rows"] for run in runs)
    batches = [len(targets) for _, targets in whole["own"]]
    assert min(batches) == 1  # one worker gets no example of the smallest batch
    assert any(size > 1 and size % 2 for size in batches)
    for worker in workers:
        # "own" and "cut" both pad each example to the longest example of the complete batch.
        assert worker["own"] == worker["cut"]
        rows = [len(targets) for _, targets in worker["own"]]
        assert max(worker["read"]) == max(rows) < max(batches)
    for batch, *parts in zip(*(run["own"] for run in (whole, *workers)), strict=True):
        for number in range(2):
            assert sum((part[number] for part in parts), []) == batch[number]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["batches", "files"])
def test_two_workers_have_equal_weights(runs, name):
    _, first, second = runs
    assert first[name]["weights"] == second[name]["weights"]


@pytest.mark.slow
def test_workers_exchange_values(runs):
    alone, first, second = (run["agreed"] for run in runs)
    # The values have the order of `two_workers._agreed`: is_chief, from_chief, any_worker twice,
    # and is_same_on_all_workers twice.
    assert alone == [True, 5, False, False, True, True]
    assert first == [True, 5, True, False, True, False]
    assert second == [False, 5, True, False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change, expected",
    [
        ("--hparams=hidden_size=64", "hparam hidden_size="),
        ("--data_dir", "train_data='1 file, "),
    ],
)
def test_workers_with_other_settings_are_rejected(tmp_path, change, expected):
    """Both workers report the same line before the first update."""
    problem = problems.get(_PROBLEM)
    for seed in (1, 2):
        problem.generate_data(str(tmp_path / f"data{seed}"), str(tmp_path), seed, num_processes=1)
    if change == "--data_dir":
        change = f"--data_dir={tmp_path / 'data2'}"
    command = [
        "trainer.py",
        f"--problem={_PROBLEM}",
        "--model=universal_transformer",
        "--hparams_set=universal_transformer_tiny",
        f"--data_dir={tmp_path / 'data1'}",
        f"--output_dir={tmp_path / 'run'}",
        "--train_steps=6",
    ]
    chief, other = _environments()
    started = [_start_new(command, chief), _start_new([*command, change], other)]
    (code, _, err), (other_code, _, other_err) = _finish(started)
    assert (code, other_code) == (2, 2), err[-3000:] + other_err[-3000:]
    assert err == other_err
    assert err.startswith("error: All workers must have the same ")
    assert f"Received: {expected}" in err and len(err.splitlines()) == 1
    assert not list((tmp_path / "run").glob("model.ckpt*"))


@pytest.mark.slow
def test_signal_before_the_first_update_ends_the_process():
    """TensorFlow replaces the handler of SIGTERM on several workers, but the process still ends."""
    program = (
        "import os, signal, sys\n"
        "from ut_keras.bin import command\n"
        "def function(argv):\n"
        "    command.load_tensorflow()\n"
        "    from ut_keras.training import cluster, distribution\n"
        "    distribution.get_strategy(cluster=cluster.from_environment())\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.exit(command.run(function))\n"
    )
    started = [_start_new(["-c", program], environment) for environment in _environments()]
    for code, _, err in _finish(started, seconds=60):
        assert (code, err) == (143, "SIGTERM: stopped.\n")


@pytest.mark.slow
def test_run_resumes_with_another_number_of_workers(tmp_path):
    """With --global_batch_size, the number of workers changes the weights only by rounding.

    elastic_test.py also tests a change from several devices back to one device.
    """
    problems.get(_PROBLEM).generate_data(str(tmp_path), str(tmp_path), 1, num_processes=1)
    alone = [{**os.environ, "TF_CONFIG": ""}]

    def train(name, train_steps, environments):
        started = [
            _start(["trainer.py", *elastic.flags(tmp_path, name, train_steps)], environment)
            for environment in environments
        ]
        for code, _, err in _finish(started):
            assert code == 0, err[-3000:]

    train("alone", 4, alone)
    train("changing", 2, alone)
    train("changing", 4, list(_environments()))
    wanted, found = (elastic.weights(tmp_path / name) for name in ("alone", "changing"))
    assert wanted.keys() == found.keys()
    for name, weight in wanted.items():
        np.testing.assert_allclose(found[name], weight, atol=1e-5, err_msg=name)


class _Run:
    """A run with two workers that a test can start repeatedly."""

    def __init__(self, folder):
        from ut_keras.bin import datagen

        self.output_dir = folder / "run"
        self._data_dir = folder / "data"
        argv = [f"--problem={_PROBLEM}", f"--data_dir={self._data_dir}", f"--tmp_dir={folder}"]
        assert datagen.main(argv) == 0
        self._processes = []

    def start(self, train_steps=100000, schedule="train"):
        """Start the workers and return (chief, other)."""
        command = [
            "trainer.py",
            f"--problem={_PROBLEM}",
            "--model=universal_transformer_encoder",
            "--hparams_set=universal_transformer_tiny",
            "--hparams=hidden_size=8,filter_size=16,num_heads=2,num_rec_steps=1,batch_size=256",
            f"--data_dir={self._data_dir}",
            f"--output_dir={self.output_dir}",
            f"--train_steps={train_steps}",
            f"--schedule={schedule}",
            "--local_eval_frequency=20",
            "--eval_steps=1",
        ]
        self._processes = [_start(command, environment) for environment in _environments()]
        return self._processes

    def wait_for_checkpoint(self, after=0):
        """Wait until the run has a checkpoint of a step later than `after`."""
        while self.newest_step() <= after:
            for process in self._processes:
                assert process.poll() is None, process.communicate()[1][-3000:]
            time.sleep(0.1)

    def newest_step(self):
        """Return the step of the newest checkpoint, or 0 without a checkpoint."""
        path = self.output_dir / "checkpoint"
        return int(re.search(r"model.ckpt-(\d+)", path.read_text())[1]) if path.exists() else 0

    def kill(self):
        _kill(self._processes)


@pytest.fixture
def run(tmp_path):
    made = _Run(tmp_path)
    yield made
    made.kill()


def _assert_lost(run, left):
    """Check that the remaining process `left` reports the lost worker and ends."""
    out, err = left.communicate(timeout=60)
    assert left.returncode == 75, out[-1000:] + err[-3000:]
    last = out.splitlines()[-1]
    assert re.match(r"Lost .* another worker at step \d+\. .*same command on all workers", last)
    assert f"model.ckpt-{run.newest_step()}." in last
    assert "Traceback" not in err


@pytest.mark.slow
def test_workers_stop_together_and_resume(run):
    chief, other = run.start()
    run.wait_for_checkpoint()
    _kill([other])
    _assert_lost(run, chief)

    killed_at = run.newest_step()
    chief, other = run.start()
    run.wait_for_checkpoint(after=killed_at)
    _kill([chief])
    _assert_lost(run, other)

    killed_again_at = run.newest_step()
    assert killed_again_at > killed_at
    started = run.start()
    run.wait_for_checkpoint(after=killed_again_at)
    started[1].send_signal(signal.SIGTERM)
    (code, out, err), (other_code, other_out, other_err) = _finish(started, seconds=60)
    assert (code, other_code) == (143, 143), err[-3000:] + other_err[-3000:]
    step = run.newest_step()
    assert f"Resuming from step {killed_again_at} " in out
    assert f"Another worker received a stop signal: stopped at step {step} " in out
    assert f"SIGTERM: stopped at step {step} " in other_out

    last_step = step + 10
    results = []
    for code, out, err in _finish(run.start(last_step, "continuous_train_and_eval")):
        assert code == 0, err[-3000:]
        assert f"Resuming from step {step} " in out
        results.append(out.splitlines()[-1].split(" train_time")[0])
    assert results[0] == results[1]
    assert run.newest_step() == last_step
    # Only the chief writes records and event files.
    records = (run.output_dir / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in records]
    assert steps == sorted(set(steps))
    assert len(list(run.output_dir.glob("events.out.*"))) <= 4
