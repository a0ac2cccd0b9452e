import collections

import numpy as np
import pytest

from tests.data.reading.small_files import SYMBOLS, arrays, example, settings, write
from ut_keras.data.reading import example_order, input_pipeline, record_index
from ut_keras.data.reading.indexed_batches import WorkerSlices
from ut_keras.errors import DataError


def _passes(files, chosen=None, num_replicas=1):
    return input_pipeline.make_batches(
        files, SYMBOLS, chosen or settings(), True, num_replicas, seed=lambda number: 3 + number
    )


def _reads(monkeypatch):
    """Return a list to which each read appends the list of its record numbers."""
    found = []
    plain = record_index.RecordIndex.read
    monkeypatch.setattr(
        record_index.RecordIndex,
        "read",
        lambda self, numbers: found.append(list(numbers)) or plain(self, numbers),
    )
    return found


def _ids(dataset):
    return [targets.numpy().tolist() for _, targets in dataset]


@pytest.mark.parametrize("static_shapes", [pytest.param(True, marks=pytest.mark.slow), False])
def test_batches_from_begins_with_any_batch(tmp_path, static_shapes):
    files = write(tmp_path, [example(n) for n in range(1, 33)] * 3, num_shards=2)
    chosen = settings(batch_shuffle_size=4, static_shapes=static_shapes)
    passes = _passes(files, chosen)
    expected = _ids(passes.one_pass().repeat(2))
    count = len(expected) // 2
    assert passes.num_batches == count
    for first in (0, 7, count - 1):
        found = _ids(passes.batches_from(0, first).take(2 * count - first))
        assert found == expected[first:]
    # The first batch of the next epoch follows the last batch.
    assert _ids(passes.batches_from(0, count + 5).take(count)) == expected[count:]
    assert _ids(passes.batches_from(1).take(2)) == expected[count : count + 2]


def test_batches_from_reads_no_earlier_records(tmp_path, monkeypatch):
    passes = _passes(write(tmp_path, [example(n) for n in range(1, 33)] * 3))
    first = passes.num_batches - 2
    planned = collections.defaultdict(set)
    plain = example_order.Epoch.examples

    def examples(epoch, batch):
        planned[id(epoch)].add(batch)
        return plain(epoch, batch)

    monkeypatch.setattr(example_order.Epoch, "examples", examples)
    next(iter(passes.batches_from(0, first)))
    # The dataset may also prefetch the first batches of the next epoch.
    assert [batches for batches in planned.values() if first in batches] in (
        [{first}],
        [{first, first + 1}],
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "workers, replicas, static_shapes", [(2, 1, False), (3, 2, False), (3, 2, True)]
)
def test_slices_of_all_workers_form_the_batches(tmp_path, workers, replicas, static_shapes):
    examples = [example(n, 1 + n // 2) for n in range(1, 33)] * 2
    files = write(tmp_path, examples, num_shards=2)
    count = workers * replicas
    passes = _passes(files, settings(static_shapes=static_shapes), num_replicas=2)
    for first in (0, 5):
        whole = passes.batches_from(0, first)
        number_of_batches = 2 * passes.num_batches - first
        expected = arrays(whole.take(number_of_batches))
        parts = []
        for worker in range(workers):
            part = passes.batches_from(0, first, WorkerSlices(worker, workers, replicas))
            assert part.element_spec == whole.element_spec
            parts.append(arrays(part.take(replicas * number_of_batches)))
        for number, (features, targets) in enumerate(expected):
            # tf.distribute splits a batch of unknown size into slices of this size.
            size = -(-len(targets) // count)
            for slot in range(count):
                worker, replica = slot % workers, slot // workers
                found, found_targets = parts[worker][number * replicas + replica]
                rows = slice(slot * size, (slot + 1) * size)
                np.testing.assert_array_equal(found_targets, targets[rows])
                for name, value in features.items():
                    np.testing.assert_array_equal(found[name], value[rows])


def test_worker_reads_only_its_own_records(tmp_path, monkeypatch):
    passes = _passes(write(tmp_path, [example(n) for n in range(1, 33)] * 6), num_replicas=4)
    largest = max(len(targets) for _, targets in passes.one_pass())
    reads = _reads(monkeypatch)
    read = 0
    for worker in range(4):
        part = passes.batches_from(0, 0, WorkerSlices(worker, 4, 1)).take(passes.num_batches)
        read += sum(len(targets) for _, targets in part)
    assert read == 32 * 6
    assert max(map(len, reads)) == -(-largest // 4) < largest


def test_worker_with_several_replicas(tmp_path):
    passes = _passes(write(tmp_path, [example(5)] * 16), num_replicas=16)
    _, targets = next(iter(passes.batches_from(0, 0, WorkerSlices(1, 2, 8))))
    assert targets.shape[1] == 5


def test_dataset_methods_raise(tmp_path):
    """The result of `map` would have only one epoch, no position and no worker slices."""
    passes = _passes(write(tmp_path, [example(5)] * 3))
    for name in ("map", "skip", "batch"):
        with pytest.raises(DataError, match=f"by `Problem.preprocess`: .* Received: `{name}`"):
            getattr(passes, name)
    assert not hasattr(passes, "no_such_thing")


def test_fingerprint_identifies_order(tmp_path):
    files = write(tmp_path, [example(n) for n in range(1, 33)])
    assert _passes(files).fingerprint == _passes(files).fingerprint > 0
    assert _passes(files).fingerprint != _passes(files, num_replicas=2).fingerprint
