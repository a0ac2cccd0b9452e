"""The program that compares this package with PyTorch on a GPU is not in this repository.

It uses names of benchmarks/ and of ut_keras. These tests run its jobs with tiny models on a CPU.
"""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.benchmarks import conftest

OPTIONS = {"UT_TINY": "1", "UT_PROJECT": conftest.ROOT}


@pytest.fixture
def program(shared_dir):
    """Return the path of the program."""
    path = os.path.join(shared_dir, "gpu", "measure.py")
    if not os.path.isfile(path):
        pytest.skip(f"{path} is missing")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "job, key",
    [
        ({"kind": "tf_train", "size": "a", "model": "AUT", "dtype": "bfloat16"}, "ms"),
        ({"kind": "tf_correct"}, "float32 XLA"),
        ({"kind": "tf_decode", "dtype": "bfloat16", "jit": True}, "greedy"),
    ],
)
def test_job_measures_this_checkout(program, job, key):
    environment = {**os.environ, **OPTIONS, "PYTHONPATH": conftest.ROOT}
    done = subprocess.run(
        [sys.executable, program, "job", json.dumps({"name": "tiny", **job})],
        input="\n",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    result = json.loads(line.removeprefix("RESULT "))
    assert key in result
    if job["kind"] == "tf_train":
        assert 0 < result["depth"] <= 6
        assert result["loss"][0] > result["loss"][1] > 0


@pytest.mark.parametrize("file", ["train_worker.py", "decode_worker.py"])
def test_programs_for_pytorch_can_be_moved_to_a_gpu(program, file, monkeypatch):
    for name, value in OPTIONS.items():
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("measure", program)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source, device = module.worker_source(file)  # exits if a line that it changes is missing
    assert device == "cpu" and '.to("cpu")' in source
