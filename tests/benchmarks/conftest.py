"""The commands in benchmarks, which is no package, and a run for them."""

import importlib
import os
import sys

import pytest

from tests.bin import decoder_problems, small_run  # noqa: F401  registers
from ut_keras import problems

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "benchmarks"), os.path.join(ROOT, "scripts")]


@pytest.fixture
def benchmark_module():
    """A function: the name of a file in benchmarks -> module."""
    return importlib.import_module


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run, with its data, whose model can take any number of steps."""
    folder = tmp_path_factory.mktemp("run")
    name = "decoder_test_digits"
    problems.get(name).generate_data(str(folder), str(folder))
    settings = {"num_rec_steps": 2, "step_timing_signal_type": "sinusoid", "batch_size": 64}
    small_run.write(folder, folder, problem=name, model="universal_transformer", **settings)
    return folder
