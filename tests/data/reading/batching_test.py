import itertools

import numpy as np
import pytest

from ut_keras.data.reading import batching


def test_batching_scheme_matches_t2t():
    # The expected values are the result of
    # tensor2tensor.utils.data_reader.batching_scheme(2048, 50, 8, 1.3).
    scheme = batching.batching_scheme(2048, 50, 8, 1.3)
    assert scheme.boundaries == [8, 10, 13, 16, 20, 26, 33, 42]
    assert scheme.batch_sizes == [240, 180, 144, 120, 90, 72, 60, 48, 40]


@pytest.mark.parametrize(("batch_size", "max_length"), [(4096, 256), (512, 41), (1, 1), (16, 400)])
def test_batches_hold_about_batch_size_tokens(batch_size, max_length):
    boundaries, sizes = batching.batching_scheme(batch_size, max_length, 8, 1.1)
    assert len(sizes) == len(boundaries) + 1
    assert boundaries == sorted(set(boundaries))
    for length, size in zip([*boundaries, max_length], sizes, strict=True):
        assert size == 1 or batch_size / 2 < length * size <= batch_size


def test_extended_covers_longer_examples():
    scheme = batching.batching_scheme(4096, 256, 8, 1.1)
    longer = batching.extended(scheme, 4096, 256, 10_000)
    assert longer.boundaries[: len(scheme.boundaries)] == scheme.boundaries
    assert longer.boundaries[len(scheme.boundaries)] == 257
    assert longer.boundaries[-1] == 10_001
    assert longer.batch_sizes[: len(scheme.batch_sizes)] == scheme.batch_sizes
    assert len(longer.batch_sizes) == len(longer.boundaries) + 1
    for length, size in zip(longer.boundaries, longer.batch_sizes[:-1], strict=True):
        assert size == 1 or (length - 1) * size <= 4096


def _cost(buckets, lengths, ends):
    """Return the number of ids, including padding, if the merged buckets end at `ends`."""
    total, before = 0, -1
    for end in ends:
        chosen = (buckets > before) & (buckets <= end)
        total += chosen.sum() * lengths[chosen].max(axis=0).sum()
        before = end
    return total


@pytest.mark.parametrize("most_shapes", [1, 2, 3, 4])
def test_merged_buckets_have_least_padding(most_shapes):
    random = np.random.default_rng(most_shapes)
    lengths = random.integers(1, 31, (200, 2))
    scheme = batching.extended(batching.batching_scheme(256, 30, 8, 1.3), 256, 30, 30)
    buckets = np.searchsorted(scheme.boundaries, lengths.max(axis=1), side="right")
    used = np.unique(buckets)
    least = min(
        _cost(buckets, lengths, [*ends, used[-1]])
        for count in range(most_shapes)
        for ends in itertools.combinations(used[:-1], count)
    )
    merged = batching.merged(scheme, lengths.max(axis=1), lengths, most_shapes)
    ends = [scheme.boundaries.index(boundary) for boundary in merged.scheme.boundaries]
    assert merged.num_shapes == len(ends) <= most_shapes
    cost = _cost(buckets, lengths, ends)
    assert least <= cost <= 1.02 * least
    assert merged.padding == pytest.approx(1 - lengths.sum() / cost)
    assert merged.num_shapes_before == len(used)
    assert merged.padding_before == pytest.approx(1 - lengths.sum() / _cost(buckets, lengths, used))
    assert merged.scheme.batch_sizes[:-1] == [scheme.batch_sizes[end] for end in ends]
    number = np.searchsorted(merged.scheme.boundaries, lengths.max(axis=1), side="right")
    for bucket, longest in enumerate(merged.lengths[:-1]):
        assert longest.tolist() == lengths[number == bucket].max(axis=0).tolist()


def test_merged_needs_no_more_shapes_than_gain():
    """Examples of equal lengths need only one shape."""
    scheme = batching.extended(batching.batching_scheme(64, 32, 8, 1.1), 64, 32, 32)
    merged = batching.merged(scheme, np.full(9, 20), np.full((9, 1), 20), most_shapes=8)
    assert (merged.num_shapes, merged.padding) == (1, 0)
    assert merged.lengths[0] == [20]
    assert "1 batch shape" in str(merged)
