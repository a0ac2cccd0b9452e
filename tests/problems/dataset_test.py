"""Tests of the datasets that users get and of the batches of the trainer."""

import os
import types

import pytest
import tensorflow as tf

from ut_keras import problems
from ut_keras.data.reading.indexed_batches import IndexedBatches
from ut_keras.errors import DataError

_DATA_DIR = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "data_dir")
_PROBLEM = "algorithmic_reverse_binary40"
_HPARAMS = types.SimpleNamespace(batch_size=512, max_length=256)


def _targets(dataset):
    return [targets.numpy().tolist() for _, targets in dataset]


@pytest.mark.parametrize("name", [_PROBLEM, f"{_PROBLEM}_rev"])
@pytest.mark.parametrize("seed", [None, 5, lambda number: 5 + number])
def test_dataset_is_a_tensorflow_dataset(name, seed):
    problem = problems.get(name)
    for split in ("train", "dev"):
        dataset = problem.dataset(split, _DATA_DIR, _HPARAMS, seed=seed)
        assert isinstance(dataset, tf.data.Dataset)
        assert len(dataset) > 1


@pytest.mark.parametrize("name", [_PROBLEM, f"{_PROBLEM}_rev"])
def test_training_batches_are_those_of_dataset(name):
    problem = problems.get(name)
    batches = problem.training_batches(_DATA_DIR, _HPARAMS, lambda number: 5 + number)
    assert isinstance(batches, IndexedBatches)
    epochs = []
    for number in (0, 1):
        epochs.append(_targets(problem.dataset("train", _DATA_DIR, _HPARAMS, seed=5 + number)))
        assert _targets(batches.batches_from(number).take(batches.num_batches)) == epochs[-1]
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("ending", ["_rev", "_copy", "_copy_rev"])
def test_dataset_rejects_derived_problem_of_own_dataset(ending, monkeypatch):
    """A derived problem raises an error if its base problem overrides `dataset`."""
    base = type(problems.get(_PROBLEM))
    plain = base.dataset
    monkeypatch.setattr(base, "dataset", lambda self, *where: plain(self, *where).take(1))
    assert len(_targets(problems.get(_PROBLEM).dataset("train", _DATA_DIR, _HPARAMS))) == 1
    with pytest.raises(DataError, match=f"{_PROBLEM}{ending}"):
        problems.get(_PROBLEM + ending).dataset("train", _DATA_DIR, _HPARAMS)
