import json
import subprocess
import sys

import numpy as np
import pytest


@pytest.fixture(scope="module")
def runs():
    """Return the results of compiled_replicas.py, without XLA and with XLA."""
    command = [sys.executable, "-m", "tests.training.compiled_replicas"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["toy", "segmented", "not_compiled"])
def test_compiled_replicas_equal_replicas_without_xla(runs, model):
    expected, actual = runs[model]
    np.testing.assert_allclose(actual["results"], expected["results"], rtol=1e-5)
    for a, b in zip(actual["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert actual["iterations"] == expected["iterations"] > 0
    assert actual["seeds"] == expected["seeds"]
    assert actual["replica_difference"] == 0.0


@pytest.mark.slow
def test_compiled_replicas_sample_one_mask_per_dropout(runs):
    """Under XLA, dropout has other masks, but each update advances the seeds as without XLA."""
    expected, actual = runs["dropout"]
    assert actual["seeds"] == expected["seeds"]
    assert max(seed[1] for seed in actual["seeds"]) > 0
    losses = np.array([[result[0] for result in run["results"]] for run in (expected, actual)])
    assert np.isfinite(losses).all() and 0 < abs(losses[0] - losses[1]).max() < 0.5


@pytest.mark.slow
def test_replicas_fall_back_to_form_without_xla(runs):
    (line,) = runs["not_compiled"][1]["lines"]
    assert "--xla_compile=auto" in line and "PyFunc is not supported" in line
    assert not runs["toy"][1]["lines"] and not runs["segmented"][1]["lines"]


@pytest.mark.slow
def test_variables_of_a_replica_share_the_powers_of_adam(runs):
    num_variables = len(runs["segmented"][0]["weights"])
    assert runs["toy"][0]["powers"] == 2 * 2 < 2 * 2 * num_variables
