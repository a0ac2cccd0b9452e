"""Which examples make which batch of an epoch, from nothing but their lengths. No TensorFlow.

    order = ExampleOrder(lengths, scheme.boundaries, scheme.batch_sizes)
    epoch = order.epoch(seed=[5, 0])
    epoch.examples(k)      the numbers of the examples of batch k, at once for any k

An epoch is a pure function of its seed and, where shares change, of its number: the examples are
shuffled, dealt out to the buckets of their lengths, cut into batches there, and the batches are
shuffled. So a run that was stopped goes on within an epoch without passing over what it has seen.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ut_keras.errors import DataError

_NUM_INTERVALS = 1000  # of an epoch, between which shares may change


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

    def fingerprint(self, seeds: Iterable[Any]) -> int:
        """An int in [1, 2^62] that stands for the epochs of some seeds, as `epoch` takes them."""
        digest = hashlib.sha256(repr((self._shuffle_batches, seeds)).encode())
        for array in (self._examples, self._buckets, self._sizes):
            digest.update(array.tobytes())
        return 1 + int.from_bytes(digest.digest()[:8], "little") % 2**62

    def epoch(self, seed: Sequence[int] | None, number: int = 0) -> Epoch:
        """Makes the `Epoch` of a seed, a list of ints in [0, 2^32); None shuffles no examples."""
        # Unlike numpy's newer generators, this one will draw the same numbers in every version.
        random = np.random.RandomState(seed)
        shuffled = self._in_order() if seed is None else self._shuffled(random, number)
        buckets = self._buckets[shuffled]
        by_bucket = np.argsort(buckets, kind="stable")
        starts, stops, batch_buckets = self._cut(buckets)
        if self._shuffle_batches and self._has_constant_shares(number):
            turn = random.permutation(len(starts))
        else:
            is_full = stops - starts == self._sizes[batch_buckets]
            filled_at = np.where(is_full, by_bucket[stops - 1], len(shuffled))
            turn = np.argsort(filled_at, kind="stable")
        turn = np.resize(turn, self.num_batches)  # of a mixture that changes
        return Epoch(
            self._examples[shuffled[by_bucket]], starts[turn], stops[turn], batch_buckets[turn]
        )

    def _in_order(self):
        """The examples of an epoch that is not shuffled, as places in `_examples`."""
        return np.arange(len(self._examples))

    def _shuffled(self, random, number):
        return random.permutation(len(self._examples))

    def _has_constant_shares(self, number):
        """Whether the end of an epoch may come at its beginning."""
        return True

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


class Mixture(NamedTuple):
    """The share that each of several groups of examples has in what training reads.

    Fields:
        shares: list of float, their sum is 1.
        first: the same, of the first example; empty as `shares`.
        until: float. How many examples it takes from `first` to `shares`.
        is_sudden: bool. `first` holds so long; else `shares` are neared as T2T's
            `inverse_exp_decay` does.
    """

    shares: Sequence[float]
    first: Sequence[float] = ()
    until: float = 0.0
    is_sudden: bool = True

    def at(self, examples: np.ndarray) -> np.ndarray:
        """float [n, groups], the shares behind so many examples, [n]."""
        way = np.ones(len(examples))
        if self.first and self.until > 0:
            gone = np.minimum(examples / self.until, 1.0)
            way = np.floor(gone) if self.is_sudden else 1e-4 ** (1 - gone)
        first = self.first or self.shares
        return np.outer(1 - way, first) + np.outer(way, self.shares)


class MixedOrder(ExampleOrder):
    """Makes epochs in which each of several groups of examples has its share.

    An epoch has about as many examples as there are: of a group with a small share some, others
    each time; those of one with a large share several times. Of each bucket a group gives the same
    part. Where the shares change within an epoch, each example comes at a place that is sampled by
    them, and the batches in the order in which they are full. All epochs have as many batches as
    the first: some at their end are left out, or some come again. Where nothing is shuffled the
    groups take turns.

    Args:
        groups: int array [n], the group of every example.
        mixture: `Mixture`. None: every example comes once.
        arguments: as of `ExampleOrder`.
    Raises:
        DataError: if a group has a share and no example.
    """

    def __init__(
        self, groups: np.ndarray, mixture: Mixture | None, *arguments: Any, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self._groups = groups = np.asarray(groups)[self._examples]
        sizes = np.bincount(groups, minlength=len(mixture.shares) if mixture else 0)
        self._mixture = mixture or Mixture(list(sizes / max(1, len(groups))))
        for shares in (self._mixture.first or self._mixture.shares, self._mixture.shares):
            if any(share and not size for share, size in zip(shares, sizes, strict=True)):
                raise DataError(
                    "Every problem of a mixture must have examples that are not too long. "
                    f"Received: {', '.join(map(str, sizes))} of them."
                )
        kinds = groups * len(self._sizes) + self._buckets
        self._members = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
        firsts = [members[0] for members in self._members]
        counts = np.bincount(self._buckets[firsts], self._counts(0), len(self._sizes))
        self.num_batches = int(np.ceil(counts / self._sizes).sum())

    def _shares_over_epoch(self, number):
        """float [places, groups], the shares in the shares of an epoch; one row if they stay."""
        places = (np.arange(_NUM_INTERVALS) + 0.5) / _NUM_INTERVALS
        shares = self._mixture.at((number + places) * len(self._groups))
        return shares[:1] if np.array_equal(shares[0], shares[-1]) else shares

    def _has_constant_shares(self, number):
        return len(self._shares_over_epoch(number)) == 1

    def _counts(self, number):
        """How many examples an epoch has of the members of each group and bucket."""
        shares = self._shares_over_epoch(number).mean(axis=0)
        sizes = np.bincount(self._groups, minlength=len(shares))
        times = len(self._groups) * shares / np.maximum(sizes, 1)  # that each example comes
        # Up to whole ones, or a few examples of a small share would never come.
        return [
            math.ceil(len(members) * times[self._groups[members[0]]] - 1e-6)
            for members in self._members
        ]

    def fingerprint(self, seeds: Iterable[Any]) -> int:
        changes = [tuple(self._mixture)] if self._mixture.first else []
        return super().fingerprint([*seeds, self._counts(0), *changes])

    def _in_order(self):
        in_group = np.zeros_like(self._groups)  # how many of its group come before
        for group in np.unique(self._groups):
            places = np.flatnonzero(self._groups == group)
            in_group[places] = np.arange(len(places))
        return np.lexsort((self._groups, in_group))

    def _shuffled(self, random, number):
        counts = self._counts(number)
        sampled = np.concatenate(
            list(map(np.resize, map(random.permutation, self._members), counts))
        )
        shares = self._shares_over_epoch(number)
        if len(shares) == 1:
            return random.permutation(sampled)
        shares /= np.maximum(shares.sum(axis=0), 1e-30)
        turns = np.concatenate(
            [
                random.choice(_NUM_INTERVALS, count, p=shares[:, self._groups[members[0]]])
                for members, count in zip(self._members, counts, strict=True)
                if count
            ]
        )
        return sampled[np.argsort(turns + random.random_sample(len(turns)), kind="stable")]
