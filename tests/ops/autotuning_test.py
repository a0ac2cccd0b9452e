import os
import types

import pytest
import tensorflow as tf

from tests.bin import decoder_problems  # noqa: F401  the import registers the problem
from ut_keras import hparams, problems
from ut_keras.data import tfrecords
from ut_keras.ops import autotuning
from ut_keras.training import distribution


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return (problem, folder with its data)."""
    folder = str(tmp_path_factory.mktemp("data"))
    problem = problems.get("decoder_test_digits")
    problem.generate_data(folder, folder)
    return problem, folder


def test_dataset_is_the_same_without_autotuning():
    dataset = tf.data.Dataset.range(5).map(lambda x: 2 * x, num_parallel_calls=tf.data.AUTOTUNE)
    found = autotuning.disable(dataset)
    assert list(found.as_numpy_iterator()) == [0, 2, 4, 6, 8]
    assert found.cardinality() == 5
    assert found.options().autotune.enabled is False


def test_batches_have_no_autotuning(data):
    problem, folder = data
    hp = hparams.get("universal_transformer_tiny", "batch_size=64")
    batches = problem.training_batches(folder, hp, lambda number: number)
    for dataset in (
        problem.dataset("train", folder, hp),
        problem.dataset("dev", folder, hp),
        batches.batches_from(),
    ):
        assert dataset.options().autotune.enabled is False


def test_distributed_dataset_has_no_autotuning(monkeypatch):
    """The trainer also distributes datasets that a problem makes without `data.reading`."""
    two = types.SimpleNamespace(num_replicas_in_sync=2, experimental_distribute_dataset=list)
    for strategy in (distribution.get_strategy(devices=["CPU:0"]), two):
        monkeypatch.setattr(strategy, "experimental_distribute_dataset", lambda dataset: dataset)
        dataset = distribution.distribute(strategy, tf.data.Dataset.range(3))
        assert dataset.options().autotune.enabled is False
    policy = dataset.options().experimental_distribute.auto_shard_policy
    assert policy == tf.data.experimental.AutoShardPolicy.DATA


def test_single_replica_reads_the_dataset_itself():
    """A distributed dataset has a further dataset for the device, with autotuning."""
    strategy = distribution.get_strategy(devices=["CPU:0"])
    dataset = distribution.distribute(strategy, tf.data.Dataset.range(3))
    assert isinstance(dataset, tf.data.Dataset)
    assert list(dataset.as_numpy_iterator()) == [0, 1, 2]


def test_records_are_read_without_autotuning(data, monkeypatch):
    _, folder = data
    disabled = []
    monkeypatch.setattr(autotuning, "disable", lambda dataset: disabled.append(dataset) or dataset)
    (path, *_) = [
        os.path.join(folder, name) for name in sorted(os.listdir(folder)) if "train" in name
    ]
    assert tfrecords.find_bad([path]) is None and len(list(tfrecords.read(path))) > 0
    assert len(disabled) == 2
