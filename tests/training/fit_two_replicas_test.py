import json
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.slow  # half a minute for the process


@pytest.fixture(scope="module")
def runs():
    """What fitting on one and on two logical CPUs gives; see fit_two_replicas.py."""
    command = [sys.executable, "-m", "tests.training.fit_two_replicas"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "name", ["universal_transformer_tiny", "adaptive_universal_transformer_tiny"]
)
def test_fit_on_two_replicas_equals_one(runs, name):
    one, two = runs[name]
    assert (one["replicas"], two["replicas"]) == (1, 2)
    np.testing.assert_allclose(two["loss"], one["loss"], rtol=1e-5)
    for a, b in zip(two["weights"], one["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["universal_transformer_tiny", "adaptive_universal_transformer_tiny"]
)
def test_replicas_stay_alike(runs, name):
    _, two = runs[name]
    assert two["iterations"] == [6, 6]
    assert two["largest_difference_of_replicas"] == 0.0
