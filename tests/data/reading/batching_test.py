import pytest

from ut_keras.data.reading import batching


def test_batching_scheme_matches_t2t():
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
