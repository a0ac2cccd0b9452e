import functools
import itertools
import json

import numpy as np
import pytest

from tests import forks
from tests.training import fit_two_replicas

pytestmark = pytest.mark.slow  # the processes of fit_two_replicas.py take a minute
# "uneven" trains an adaptive model.
RUNS = [(2, "universal"), (2, "uneven"), (3, "uneven")]
# {numbers of replicas in one process: names of the runs}
_PROCESSES = {"1,2": ["universal", "uneven"], "3": ["uneven"]}


@functools.cache
def _output(numbers):
    """Return the results of fit_two_replicas.py for numbers of replicas, such as "1,2"."""
    words = ["-m", "tests.training.fit_two_replicas", numbers, *_PROCESSES[numbers]]
    done = forks.run(words, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def _run(name, replicas):
    numbers = "1,2" if replicas < 3 else "3"
    return _output(numbers)[name][str(replicas)]


@pytest.mark.parametrize(("replicas", "name"), RUNS)
def test_fit_on_several_replicas_equals_one(replicas, name):
    """The replicas get different numbers of tokens and examples, and different sample weights."""
    one, several = _run(name, 1), _run(name, replicas)
    assert (one["replicas"], several["replicas"]) == (1, replicas)
    for key in ("loss", "metric"):
        np.testing.assert_allclose(several[key], one[key], rtol=1e-5)
    np.testing.assert_allclose(several["predicted"], one["predicted"], atol=1e-4)
    for a, b in zip(several["weights"], one["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize(("replicas", "name"), RUNS)
def test_fit_keeps_replicas_equal(replicas, name):
    several = _run(name, replicas)
    updates = 2 * (len(fit_two_replicas.ROWS) if name == "uneven" else 3)
    assert several["iterations"] == [updates] * replicas
    assert several["largest_difference_of_replicas"] == 0.0


def test_fit_compiles_a_model_of_several_replicas():
    assert np.isfinite(_output("1,2")["made by fit"]).all()


def test_fit_checks_the_first_batch_of_a_dataset():
    """The check sees the batch before it is divided among the replicas."""
    assert sum("padding='post'" in line for line in _output("1,2")["log"]) == 2


def test_fit_rejects_unsupported_calls_of_keras():
    """Without the checks of ut_keras, Keras would wait forever or raise a long error."""
    refusals = _output("1,2")["refusals"]
    assert len(refusals) == 3
    for refusal, value in zip(refusals, (2, 4, 3), strict=True):
        assert f"Received: {value}, and 2 replicas." in refusal


def test_fit_and_evaluate_reject_central_storage():
    """Keras would return a wrong loss and wrong metrics."""
    errors = _output("1,2")["central storage"]
    for method, error in zip(("fit", "evaluate"), errors, strict=True):
        assert error.startswith(f"{method} must not be called under CentralStorageStrategy")
        assert "Received: 2 replicas." in error


def test_replicas_have_different_dropout_masks():
    """The first replica has the masks of a single device. The second replica has other masks."""
    one, several = (_run("universal", replicas) for replicas in (1, 2))
    assert one["masks"] == several["masks"][:1]
    masks = [mask for replica in several["masks"] for mask in replica]
    for mask, other in itertools.combinations(masks, 2):
        assert 16 < sum(a != b for a, b in zip(mask, other, strict=True)) < 48
