"""Which examples make which batch of an epoch, from nothing but their lengths. No TensorFlow.

    order = ExampleOrder(lengths, scheme.boundaries, scheme.batch_sizes)
    epoch = order.epoch(seed=[5, 0])
    epoch.examples(k)      the numbers of the examples of batch k, at once for any k

An epoch is a pure function of its seed: the examples are shuffled, dealt out to the buckets of
their lengths, cut into batches there, and the batches are shuffled. So a run that was stopped goes
on within an epoch without passing over what it has seen.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ut_keras.errors import DataError


class Epoch(NamedTuple):
    """The batches of one pass."""

    order: np.ndarray  # int32 [n], numbers of examples, those of one batch next to each other
    starts: np.ndarray  # int64 [batches], where in `order` each batch lies
    stops: np.ndarray
    buckets: np.ndarray  # int64 [batches], the bucket that each batch is from

    def __len__(self) -> int:
        return len(self.starts)

    def examples(self, batch: int) -> np.ndarray:
        """The numbers of the examples of a batch."""
        return self.order[self.starts[batch] : self.stops[batch]]


class ExampleOrder:
    """Makes epochs.

    Args:
        lengths: int array [n], the length of every example.
        boundaries, batch_sizes: as in `BatchingScheme`.
        shortest, longest: int. Other lengths are left out.
        shuffle_batches: bool. Otherwise a batch comes when the shuffled examples have filled it,
            and those that are not filled come at the end.
    Attributes:
        num_batches: int, how many batches every epoch has.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        boundaries: Sequence[int],
        batch_sizes: Sequence[int],
        shortest: int = 0,
        longest: int = 2**31,
        shuffle_batches: bool = True,
    ) -> None:
        lengths = np.asarray(lengths)
        kept = np.flatnonzero((lengths >= shortest) & (lengths <= longest))
        self._lengths = lengths
        self._examples = kept.astype(np.int32)
        # int16, which numpy sorts by counting.
        self._buckets = np.searchsorted(boundaries, lengths[kept], side="right").astype(np.int16)
        self._sizes = np.asarray(batch_sizes, np.int64)
        self._shuffle_batches = shuffle_batches
        counts = np.bincount(self._buckets, minlength=len(self._sizes))
        self.num_batches = int((-(-counts // self._sizes)).sum())

    def __len__(self) -> int:
        """How many examples an epoch has."""
        return len(self._examples)

    def fingerprint(self, seeds: Iterable[Sequence[int] | None]) -> int:
        """An int in [1, 2^62] that stands for the epochs of some seeds, as `epoch` takes them."""
        digest = hashlib.sha256(repr((self._shuffle_batches, seeds)).encode())
        for array in (self._examples, self._buckets, self._sizes):
            digest.update(array.tobytes())
        return 1 + int.from_bytes(digest.digest()[:8], "little") % 2**62

    def epoch(self, seed: Sequence[int] | None) -> Epoch:
        """Makes the `Epoch` of a seed, a list of ints in [0, 2^32); None shuffles no examples."""
        # Unlike numpy's newer generators, this one will draw the same numbers in every version.
        random = np.random.RandomState(seed)
        shuffled = self._in_order() if seed is None else self._shuffled(random)
        buckets = self._buckets[shuffled]
        by_bucket = np.argsort(buckets, kind="stable")
        starts, stops, batch_buckets = self._cut(buckets)
        if self._shuffle_batches:
            turn = random.permutation(len(starts))
        else:
            is_full = stops - starts == self._sizes[batch_buckets]
            filled_at = np.where(is_full, by_bucket[stops - 1], len(shuffled))
            turn = np.argsort(filled_at, kind="stable")
        return Epoch(
            self._examples[shuffled[by_bucket]], starts[turn], stops[turn], batch_buckets[turn]
        )

    def _in_order(self):
        """The examples of an epoch that is not shuffled, as places in `_examples`."""
        return np.arange(len(self._examples))

    def _shuffled(self, random):
        return random.permutation(len(self._examples))

    def _cut(self, buckets):
        """(starts, stops, buckets) of batches, where the examples are sorted by bucket."""
        counts = np.bincount(buckets, minlength=len(self._sizes))
        bucket_stops = np.cumsum(counts)
        cut = [
            np.arange(stop - count, stop, size)
            for stop, count, size in zip(bucket_stops, counts, self._sizes, strict=True)
        ]
        batch_buckets = np.repeat(np.arange(len(counts)), [len(part) for part in cut])
        starts = np.concatenate(cut)
        stops = np.minimum(starts + self._sizes[batch_buckets], bucket_stops[batch_buckets])
        return starts, stops, batch_buckets


class MixedOrder(ExampleOrder):
    """Makes epochs in which each of several groups of examples has its share.

    An epoch has about as many examples as there are: of a group with a small share some, others
    each time; those of one with a large share several times. Of each bucket a group gives the same
    part, so that all epochs have as many batches. Where nothing is shuffled the groups take turns.

    Args:
        groups: int array [n], the group of every example.
        shares: list of float, that of each group; their sum is 1. None: every example comes once.
        arguments: as of `ExampleOrder`.
    Raises:
        DataError: if a group has a share and no example.
    """

    def __init__(
        self, groups: np.ndarray, shares: Sequence[float] | None, *arguments: Any, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self._groups = groups = np.asarray(groups)[self._examples]
        sizes = np.bincount(groups, minlength=len(shares or ()))
        shares = list(sizes / max(1, len(groups))) if shares is None else shares
        if any(share and not size for share, size in zip(shares, sizes, strict=True)):
            raise DataError(
                "Every problem of a mixture must have examples that are not too long. "
                f"Received: {', '.join(map(str, sizes))} of them."
            )
        times = len(groups) * np.asarray(shares) / np.maximum(sizes, 1)  # that each example comes
        kinds = groups * len(self._sizes) + self._buckets
        self._members = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
        # Up to whole ones, or a few examples of a small share would never come.
        self._counts = [
            math.ceil(len(members) * times[groups[members[0]]] - 1e-6) for members in self._members
        ]
        buckets = self._buckets[[members[0] for members in self._members]]
        counts = np.bincount(buckets, self._counts, len(self._sizes))
        self.num_batches = int(np.ceil(counts / self._sizes).sum())

    def fingerprint(self, seeds: Iterable[Sequence[int] | None]) -> int:
        return super().fingerprint([*seeds, self._counts])

    def _in_order(self):
        in_group = np.zeros_like(self._groups)  # how many of its group come before
        for group in np.unique(self._groups):
            places = np.flatnonzero(self._groups == group)
            in_group[places] = np.arange(len(places))
        return np.lexsort((self._groups, in_group))

    def _shuffled(self, random):
        drawn = map(np.resize, map(random.permutation, self._members), self._counts)
        return random.permutation(np.concatenate(list(drawn)))
