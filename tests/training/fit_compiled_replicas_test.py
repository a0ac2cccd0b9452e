import json

import numpy as np
import pytest

from tests import forks

pytestmark = pytest.mark.slow  # XLA takes long to compile the updates


@pytest.fixture(scope="module")
def runs():
    """Return the results of fit_compiled_replicas.py."""
    done = forks.run(["-m", "tests.training.fit_compiled_replicas"], timeout=2400)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("auto", "without_xla"),
        ("xla", "without_xla"),
        ("fallback", "not_compiled"),
        ("segments_auto", "segments"),
    ],
)
def test_fit_with_xla_on_two_replicas_equals_fit_without(runs, name, expected):
    """`auto` skips no batch.

    Except in the runs with segments, the last batch has fewer examples than the others.
    """
    found, want = runs[name], runs[expected]
    assert found["iterations"] == want["iterations"] > 0
    assert found["replica_difference"] == 0.0
    for metric, values in want["history"].items():
        np.testing.assert_allclose(found["history"][metric], values, rtol=1e-5, err_msg=metric)
    for metric, value in found["evaluated"].items():
        np.testing.assert_allclose(value, want["evaluated"][metric], rtol=1e-5, err_msg=metric)
    for a, b in zip(found["weights"], want["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_auto_says_why_replicas_are_not_compiled(runs):
    assert runs["auto"]["lines"] == runs["segments_auto"]["lines"] == []
    for name, reason in (
        ("fallback", "PyFunc is not supported"),
        ("own_loss_auto", "crossentropy"),
    ):
        (line,) = [line for line in runs[name]["lines"] if "jit_compile='auto'" in line]
        assert reason in line and "\n" not in line
    # The own loss reads the logits as probabilities, which a second line says.
    assert (len(runs["fallback"]["lines"]), len(runs["own_loss_auto"]["lines"])) == (1, 2)


def test_replicas_reject_xla_with_an_own_loss(runs):
    error = runs["own_loss"]["error"]
    assert error.startswith("jit_compile must be") and error.endswith("Received: True.")
    assert "sparse_categorical_crossentropy" in error and "\n" not in error
