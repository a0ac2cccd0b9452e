import json

import numpy as np
import pytest

from tests import forks


@pytest.fixture(scope="module")
def runs():
    """Return the results of compiled_replicas.py, without XLA and with XLA."""
    done = forks.run(["-m", "tests.training.compiled_replicas"], timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    ["toy", "segmented", "not_compiled", "normalized", "summed", "sums", "plain_variable"],
)
def test_compiled_replicas_equal_replicas_without_xla(runs, model):
    expected, actual = runs[model]
    np.testing.assert_allclose(actual["results"], expected["results"], rtol=1e-5)
    for a, b in zip(actual["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert actual["iterations"] == expected["iterations"] > 0
    assert actual["seeds"] == expected["seeds"]
    assert actual["replica_difference"] == 0.0
    for a, b in zip(actual["states"], expected["states"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


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
    for model in ("toy", "segmented", "dropout", "normalized"):
        assert not runs[model][1]["lines"], model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "received"),
    [
        ("summed", "mean with aggregation='mean' and synchronization='auto'"),
        ("sums", "a layer with such a sum"),
        ("plain_variable", "plain:0"),
    ],
)
def test_replicas_fall_back_if_a_state_would_be_updated_twice(runs, model, received):
    (line,) = runs[model][1]["lines"]
    assert "--xla_compile=auto" in line and line.endswith(received) and "\n" not in line
    if model == "plain_variable":
        assert len(runs[model][0]["states"][0]) == 2  # the states of the two replicas
        assert "non-trainable keras.Variable" in runs["error"]


@pytest.mark.slow
def test_variables_of_a_replica_share_the_powers_of_adam(runs):
    num_variables = len(runs["segmented"][0]["weights"])
    assert runs["toy"][0]["powers"] == 2 * 2 < 2 * 2 * num_variables
