"""Test the datasets of users and the batches of the trainer."""

import os
import types

import pytest
import tensorflow as tf

from ut_keras import problems
from ut_keras.data.reading.indexed_batches import IndexedBatches

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
