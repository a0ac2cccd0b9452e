"""T2T's batching scheme: the length of examples decides how many form a batch.

Examples are sorted into buckets by length. All examples of a batch come from one bucket, and each
batch holds about `batch_size` tokens, including padding:

    batching_scheme(batch_size=4096, max_length=256, min_length_bucket=8, length_bucket_step=1.1)
    boundaries  [8, 9, 10, ..., 215, 236]      length < 8, 8 <= length < 9, ..., 236 <= length
    batch_sizes [420, 420, 315, ..., 15, 15]

XLA compiles each batch shape separately, so `merged` joins buckets until few shapes remain.

This module does not import TensorFlow.
"""

from typing import NamedTuple

import numpy as np

from ut_keras.process.live_line import counted

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
        length_bucket_step: float > 1. The approximate ratio of successive boundaries.
    """
    boundaries = bucket_boundaries(min_length_bucket, max_length, length_bucket_step)
    sizes = [max(1, batch_size // length) for length in boundaries + [max_length]]
    window = max(n for n in _HIGHLY_COMPOSITE if n <= 3 * max(sizes))
    divisors = [n for n in range(1, max(sizes) + 1) if window % n == 0]
    return BatchingScheme(boundaries, [max(d for d in divisors if d <= size) for size in sizes])


def bucket_boundaries(first: int, stop: int, step: float) -> list[int]:
    """Return boundaries below `stop`, each about `step` times the previous boundary."""
    boundaries = []
    length = first
    while length < stop:
        boundaries.append(length)
        length = max(length + 1, int(length * step))
    return boundaries


def extended(
    scheme: BatchingScheme, batch_size: int, max_length: int, longest: int
) -> BatchingScheme:
    """Return a scheme with more buckets, from `max_length` to `longest`.

    Examples longer than `max_length` need these buckets, unless such examples are skipped. T2T puts
    all examples longer than `max_length` into its last bucket. A batch of this bucket can hold many
    times `batch_size` tokens.
    """
    extra = [*bucket_boundaries(max_length + 1, longest + 1, 1.5), longest + 1]
    sizes = [max(1, batch_size // (length - 1)) for length in extra[1:]] + [1]
    return BatchingScheme(
        scheme.boundaries + extra, scheme.batch_sizes[: len(scheme.boundaries) + 1] + sizes
    )


class MergedBuckets(NamedTuple):
    """A few buckets, each with one batch shape, and the padding that they cause."""

    scheme: BatchingScheme
    # int32 [buckets, features]: the length to which each feature of a bucket is padded.
    lengths: np.ndarray
    num_shapes: int  # the number of buckets with examples
    padding: float  # the share of padding in all ids of an epoch
    num_shapes_before: int  # `num_shapes` without merging
    padding_before: float  # `padding` without merging

    def __str__(self) -> str:
        return (
            f"{counted(self.num_shapes, 'batch shape')}, with {self.padding:.0%} padding "
            f"({self.padding_before:.0%} with one shape for each of {self.num_shapes_before} "
            "buckets)"
        ).replace("%", " %")


# More shapes are used only if they reduce the number of ids by more than about this share, because
# the compilation of each shape takes long.
_LEAST_GAIN = 0.02


def merged(
    scheme: BatchingScheme, key_lengths: np.ndarray, lengths: np.ndarray, most_shapes: int
) -> MergedBuckets:
    """Merge neighboring buckets so that at most `most_shapes` contain examples.

    For each possible number of merged buckets, the function finds the buckets with the least
    padding. It then chooses the smallest number that needs at most 2 % more ids than the greatest
    possible number of buckets. A merged bucket has the batch size of its last bucket, so a batch
    still holds about `batch_size` tokens. Each feature is padded to its greatest length in the
    bucket.

    Args:
        scheme: the buckets to merge.
        key_lengths: int array [n], the length of each example, which determines its bucket. All
            lengths must be below the last boundary.
        lengths: int array [n, features], the lengths of the features of each example.
        most_shapes: int > 0.
    """
    buckets, numbers = np.unique(
        np.searchsorted(scheme.boundaries, key_lengths, side="right"), return_inverse=True
    )
    counts = np.bincount(numbers)
    longest = np.zeros((len(buckets), lengths.shape[1]), np.int64)
    np.maximum.at(longest, numbers, lengths)
    num_ids = _num_ids_of_merged(longest, counts)
    ends, total = _least_padding(num_ids, most_shapes)
    firsts = [0, *(end + 1 for end in ends[:-1])]
    of_groups = [longest[a : b + 1].max(axis=0) for a, b in zip(firsts, ends, strict=True)]
    used = float(lengths.sum())
    return MergedBuckets(
        BatchingScheme(
            [scheme.boundaries[buckets[end]] for end in ends],
            [*(scheme.batch_sizes[buckets[end]] for end in ends), 1],
        ),
        np.array([*of_groups, of_groups[-1]], np.int32),
        len(ends),
        1 - used / total,
        len(buckets),
        1 - used / float(num_ids.diagonal().sum()),
    )


def _num_ids_of_merged(longest, counts):
    """Return the number of ids, with padding, for each merged range of buckets.

    Args:
        longest: int array [buckets, features], the greatest length of each feature in a bucket.
        counts: int array [buckets], the number of examples in each bucket.

    Returns:
        float array [buckets, buckets]. Element [i, j] is the number of ids in the bucket that
        results if the buckets i to j are merged. It is infinite if j < i.
    """
    num_ids = np.full((len(counts), len(counts)), np.inf)
    for first in range(len(counts)):
        widths = np.maximum.accumulate(longest[first:], axis=0).sum(axis=1)
        num_ids[first, first:] = widths * np.cumsum(counts[first:])
    return num_ids


def _least_padding(num_ids, most_merged):
    """Find the merged buckets with the least padding, by dynamic programming.

    If a smaller number of merged buckets needs hardly more padding, it is used instead.

    Args:
        num_ids: the return value of `_num_ids_of_merged`.
        most_merged: int. The greatest number of merged buckets.

    Returns:
        (list of int, int). The list contains the last bucket of each merged bucket. The int is the
        number of ids, with padding, in all merged buckets.
    """
    num_buckets = len(num_ids)
    # In round k, the buckets 0 to j form k + 1 merged buckets. best[j] is the least number of ids.
    # The last merged bucket begins with the bucket starts[k][j].
    best, starts = num_ids[0], [np.zeros(num_buckets, int)]
    totals = [best[-1]]
    for _ in range(1, min(most_merged, num_buckets)):
        # sums[i, j]: the number of ids if the last merged bucket has the buckets i + 1 to j.
        sums = best[:-1, np.newaxis] + num_ids[1:]
        starts.append(np.append(0, 1 + sums.argmin(axis=0)[1:]))
        best = np.append(np.inf, sums.min(axis=0)[1:])
        totals.append(best[-1])
    k = next(k for k, total in enumerate(totals) if total <= totals[-1] * (1 + _LEAST_GAIN))
    ends, end = [], num_buckets - 1
    for start_of in reversed(starts[: k + 1]):
        ends.append(end)
        end = start_of[end] - 1
    return ends[::-1], totals[k]
