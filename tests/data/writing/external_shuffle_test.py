import collections

import pytest

from ut_keras.data.writing import external_shuffle

RECORDS = [str(i).encode() * (i % 7) for i in range(1000)]  # some records are empty or equal


def _buckets(tmp_path, memory, number=3):
    buckets = external_shuffle.Buckets(str(tmp_path / "buckets"), number, memory)
    for i, record in enumerate(RECORDS):
        buckets.add(i % number, record)
    return buckets.close()


@pytest.mark.parametrize("memory", [1 << 30, 3000])
def test_bucket_without_seed_keeps_order(tmp_path, memory):
    buckets = _buckets(tmp_path, memory)
    assert [bucket.path is None for bucket in buckets] == [memory > 3000] * 3
    for number, bucket in enumerate(buckets):
        assert list(bucket.read()) == RECORDS[number::3]
        assert bucket.count == len(RECORDS[number::3])


def test_bucket_order_does_not_depend_on_memory(tmp_path):
    here, there = _buckets(tmp_path, 1 << 30)[0], _buckets(tmp_path, 3000)[0]
    assert list(here.read("a")) == list(there.read("a"))
    assert list(here.read("a")) != list(here.read("b"))
    assert collections.Counter(here.read("a")) == collections.Counter(RECORDS[::3])


def test_bucket_shuffle_is_uniform(tmp_path):
    """The mean positions of 100 records over 200 seeds are close to the middle position."""
    buckets = external_shuffle.Buckets(str(tmp_path), 1, 100)
    for i in range(100):
        buckets.add(0, bytes([i]))
    bucket = buckets.close()[0]
    positions = collections.Counter()
    for seed in range(200):
        for place, record in enumerate(bucket.read(seed)):
            positions[record] += place
    # The standard deviation of a mean is 28.9 / sqrt(200) = 2.04.
    assert all(abs(total / 200 - 49.5) < 5 * 2.04 for total in positions.values())
