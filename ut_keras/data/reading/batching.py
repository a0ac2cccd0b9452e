"""T2T's batching scheme: the number of examples in a batch, by the length of the examples.

Examples are sorted into buckets by length. All examples of a batch come from one bucket, and the
batch holds about `batch_size` tokens, including padding:

    batching_scheme(batch_size=4096, max_length=256, min_length_bucket=8, length_bucket_step=1.1)
    boundaries  [8, 9, 10, ..., 215, 236]      length < 8, 8 <= length < 9, ..., 236 <= length
    batch_sizes [420, 420, 315, ..., 15, 15]

This module does not import TensorFlow.
"""

from typing import NamedTuple

# T2T rounds every batch size down to a divisor of one of these numbers, because an early version of
# tf.data required this. T2T's hparams were chosen for the rounded sizes, so ut_keras also rounds.
_HIGHLY_COMPOSITE = (
    1, 2, 4, 6, 12, 24, 36, 48, 60, 120, 180, 240, 360, 720, 840, 1260, 1680, 2520, 5040, 7560,
    10080, 15120, 20160, 25200, 27720, 45360, 50400, 55440, 83160, 110880, 166320, 221760, 277200,
    332640, 498960, 554400, 665280, 720720, 1081080, 1441440, 2162160, 2882880, 3603600, 4324320,
    6486480, 7207200, 8648640, 10810800, 14414400, 17297280, 21621600, 32432400, 36756720,
    43243200, 61261200, 73513440, 110270160,
)  # fmt: skip


class BatchingScheme(NamedTuple):
    """Buckets by length: bucket i has boundaries[i-1] <= length < boundaries[i]."""

    boundaries: list  # list of int, increasing; the last bucket has no upper bound
    batch_sizes: list  # list of int: the number of examples in a batch of each bucket


def batching_scheme(
    batch_size: int, max_length: int, min_length_bucket: int, length_bucket_step: float
) -> BatchingScheme:
    """Return the `BatchingScheme` that T2T computes from the same hparams.

    Args:
        batch_size: int. Tokens in a batch, including padding.
        max_length: int. Boundaries are below this length. The batch size of the last bucket is
            computed for examples of this length.
        min_length_bucket: int. The first boundary.
        length_bucket_step: float > 1. Approximate ratio of successive boundaries.
    """
    boundaries = bucket_boundaries(min_length_bucket, max_length, length_bucket_step)
    sizes = [max(1, batch_size // length) for length in boundaries + [max_length]]
    window = max(n for n in _HIGHLY_COMPOSITE if n <= 3 * max(sizes))
    divisors = [n for n in range(1, max(sizes) + 1) if window % n == 0]
    return BatchingScheme(boundaries, [max(d for d in divisors if d <= size) for size in sizes])


def bucket_boundaries(first: int, stop: int, step: float) -> list[int]:
    """Return boundaries below `stop`, each about `step` times the previous one."""
    boundaries = []
    length = first
    while length < stop:
        boundaries.append(length)
        length = max(length + 1, int(length * step))
    return boundaries


def extended(
    scheme: BatchingScheme, batch_size: int, max_length: int, longest: int
) -> BatchingScheme:
    """Return a scheme with more buckets, for lengths between `max_length` and `longest`.

    Examples longer than `max_length` need these buckets, unless such examples are skipped. T2T puts
    all of them into its last bucket, where a batch can hold many times `batch_size` tokens.
    """
    extra = [*bucket_boundaries(max_length + 1, longest + 1, 1.5), longest + 1]
    sizes = [max(1, batch_size // (length - 1)) for length in extra[1:]] + [1]
    return BatchingScheme(
        scheme.boundaries + extra, scheme.batch_sizes[: len(scheme.boundaries) + 1] + sizes
    )
