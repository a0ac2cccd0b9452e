"""Fixtures that import the programs in benchmarks/ and write a run for these programs."""

import importlib
import os
import sys

import pytest

from tests.bin import decoder_problems, small_run  # noqa: F401  the import registers problems
from ut_keras import problems

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "benchmarks"), os.path.join(ROOT, "scripts")]


@pytest.fixture
def benchmark_module():
    """Return a function that imports a file of benchmarks/ by its name without ".py"."""
    return importlib.import_module


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a folder with a run and its data. The model supports any number of steps."""
    folder = tmp_path_factory.mktemp("run")
    name = "decoder_test_digits"
    problems.get(name).generate_data(str(folder), str(folder))
    settings = {"num_rec_steps": 2, "step_timing_signal_type": "sinusoid", "batch_size": 64}
    small_run.write(folder, folder, problem=name, model="universal_transformer", **settings)
    return folder
