import numpy as np
import pytest

from ut_keras.data.reading import batching, example_order

LENGTHS = np.random.RandomState(0).randint(1, 60, 2000)
SCHEME = batching.batching_scheme(256, 50, 8, 1.3)


def _order(lengths=LENGTHS, **options):
    return example_order.ExampleOrder(lengths, SCHEME.boundaries, SCHEME.batch_sizes, **options)


def _batches(epoch):
    return [epoch.examples(batch).tolist() for batch in range(len(epoch))]


@pytest.mark.parametrize("shuffle_batches", [True, False])
def test_epoch_has_every_example_once_in_its_bucket(shuffle_batches):
    order = _order(shortest=3, longest=50, shuffle_batches=shuffle_batches)
    epoch = order.epoch([1, 0])
    wanted = np.flatnonzero((LENGTHS >= 3) & (LENGTHS <= 50)).tolist()
    assert sorted(sum(_batches(epoch), [])) == wanted
    assert len(order) == len(wanted)
    smaller = np.zeros(len(SCHEME.batch_sizes), int)
    for batch, bucket in zip(_batches(epoch), epoch.buckets, strict=True):
        assert (np.searchsorted(SCHEME.boundaries, LENGTHS[batch], side="right") == bucket).all()
        smaller[bucket] += len(batch) != SCHEME.batch_sizes[bucket]
        assert 0 < len(batch) <= SCHEME.batch_sizes[bucket]
    assert smaller.max() == 1


def test_epoch_depends_on_seed():
    order = _order()
    first = _batches(order.epoch([1, 0]))
    assert first == _batches(_order().epoch([1, 0]))
    for seed in ([1, 1], [2, 0], [0, 1]):
        other = _batches(order.epoch(seed))
        # The epochs have different batches, not only a different order of equal batches.
        assert not {tuple(sorted(batch)) for batch in first if len(batch) > 1} & {
            tuple(sorted(batch)) for batch in other
        }


def test_epoch_of_seed_is_stable_across_versions():
    """A version of ut_keras with another order could not resume the runs of older versions."""
    order = example_order.ExampleOrder([3, 9, 4, 9, 5, 9, 6], [8], [2, 2])
    assert _batches(order.epoch([5, 3])) == [[2, 4], [5], [6, 0], [3, 1]]


def test_unshuffled_batches_come_when_full():
    lengths = [5] * 100 + [30] * 10
    order = example_order.ExampleOrder(lengths, [8], [10, 4], shuffle_batches=False)
    sizes = [len(batch) for batch in _batches(order.epoch([0, 0]))]
    assert sorted(sizes[:-1]) == [4] * 2 + [10] * 10
    assert sizes[-1] == 2


def test_shuffled_batches_spread_lengths_over_epoch():
    buckets = _order().epoch([0, 0]).buckets
    half = len(buckets) // 2
    assert abs(buckets[:half].mean() - buckets[half:].mean()) < 1.0


def test_epoch_without_examples_is_empty():
    order = _order(shortest=100)
    assert len(order) == len(order.epoch([0])) == order.num_batches == 0
    assert len(_order([])) == 0


def test_epoch_with_one_bucket():
    order = example_order.ExampleOrder([1, 2, 3], [], [2])
    assert sorted(map(len, _batches(order.epoch([0])))) == [1, 2]
