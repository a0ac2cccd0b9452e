"""Computes the batches of an epoch from the lengths of the examples alone.

    order = ExampleOrder(lengths, scheme.boundaries, scheme.batch_sizes)
    epoch = order.epoch(seed=[5, 0])
    epoch.examples(k)      the numbers of the examples of batch k, for any k

An epoch is a pure function of its seed. If the shares of a mixture change, the epoch also depends
on its number. The examples are shuffled and sorted into buckets by length. Each bucket is cut into
batches, and the batches are shuffled. Because of this, a stopped run can resume in the middle of an
epoch without reading the earlier batches again.

This module does not import TensorFlow.
"""

import copy
import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ut_keras.errors import DataError

# Number of equal intervals of an epoch. Within an interval, the shares of a mixture are constant.
_NUM_INTERVALS = 1000


class Epoch(NamedTuple):
    """The batches of one pass over the data."""

    order: np.ndarray  # the numbers of the examples; the examples of a batch are adjacent
    starts: np.ndarray  # the index in `order` at which each batch starts
    stops: np.ndarray
    buckets: np.ndarray  # the bucket of each batch

    def __len__(self) -> int:
        return len(self.starts)

    def examples(self, batch: int) -> np.ndarray:
        """Return the numbers of the examples of a batch."""
        return self.order[self.starts[batch] : self.stops[batch]]


class ExampleOrder:
    """The order of the examples in every epoch.

    Args:
        lengths: int array [n], the length of every example.
        boundaries, batch_sizes: as in `BatchingScheme`.
        shortest, longest: int. Shorter and longer examples are skipped.
        shuffle_batches: bool. If True, the batches of an epoch are shuffled. If False, the batches
            are in the order in which the shuffled examples fill them. Incomplete batches come last.

    Attributes:
        num_batches: int, the number of batches of every epoch.
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
        # numpy sorts int16 with radix sort, in linear time.
        self._buckets = np.searchsorted(boundaries, lengths[kept], side="right").astype(np.int16)
        self._sizes = np.asarray(batch_sizes, np.int64)
        self._shuffle_batches = shuffle_batches
        self.num_batches = self._count_batches()

    def _count_batches(self):
        """Return the number of batches of every epoch."""
        counts = np.bincount(self._buckets, minlength=len(self._sizes))
        return int((-(-counts // self._sizes)).sum())

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of the examples that are not skipped, int array [n]."""
        return self._lengths[self._examples]

    def up_to(self, longest: int) -> Self:
        """Return the order of the examples whose length is at most `longest`.

        The buckets and their batch sizes remain the same.

        Raises:
            DataError: for a `MixedOrder`, because the shares of its groups would change.
        """
        kept = self.lengths <= longest
        shorter = copy.copy(self)
        shorter._examples, shorter._buckets = self._examples[kept], self._buckets[kept]
        shorter.num_batches = shorter._count_batches()
        return shorter

    def __len__(self) -> int:
        """Return the number of examples of an epoch."""
        return len(self._examples)

    def fingerprint(self, seeds: Iterable[Any]) -> int:
        """Return an int in [1, 2^62] that identifies the epochs of given seeds.

        Args:
            seeds: list of seeds in the format of `epoch`.
        """
        digest = hashlib.sha256(repr((self._shuffle_batches, seeds)).encode())
        for array in (self._examples, self._buckets, self._sizes):
            digest.update(array.tobytes())
        return 1 + int.from_bytes(digest.digest()[:8], "little") % 2**62

    def epoch(self, seed: Sequence[int] | None, number: int = 0) -> Epoch:
        """Return the `Epoch` for a seed.

        Args:
            seed: list of ints in [0, 2^32). If it is None, the examples are not shuffled.
            number: int. The number of the epoch, which only affects mixtures whose shares change.
        """
        # RandomState samples the same numbers in every version of numpy. The newer generators do
        # not guarantee this.
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
        # If the shares of a mixture change, the number of batches may differ from `num_batches`.
        turn = np.resize(turn, self.num_batches)
        return Epoch(
            self._examples[shuffled[by_bucket]], starts[turn], stops[turn], batch_buckets[turn]
        )

    def _in_order(self):
        """Return the order of an epoch without shuffling, as indices into `_examples`."""
        return np.arange(len(self._examples))

    def _shuffled(self, random, number):
        return random.permutation(len(self._examples))

    def _has_constant_shares(self, number):
        """Return whether the batches of the complete epoch may be shuffled together."""
        return True

    def _cut(self, buckets):
        """Return (starts, stops, buckets) of the batches, for examples sorted by bucket."""
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
    """The share of each group of examples in the training data.

    Fields:
        shares: list of float. One share per group. The sum of the shares is 1.
        first: list of float. The shares at the first example. The list is empty if the shares are
            constant.
        until: float. The number of examples after which the shares are `shares`.
        is_sudden: bool. If True, the shares change from `first` to `shares` at once, after `until`
            examples. If False, the shares approach `shares` as in T2T's `inverse_exp_decay`.
    """

    shares: Sequence[float]
    first: Sequence[float] = ()
    until: float = 0.0
    is_sudden: bool = True

    def at(self, examples: np.ndarray) -> np.ndarray:
        """Return the shares after given numbers of examples.

        Args:
            examples: array [n], the numbers of examples.

        Returns:
            float [n, groups].
        """
        way = np.ones(len(examples))
        if self.first and self.until > 0:
            gone = np.minimum(examples / self.until, 1.0)
            way = np.floor(gone) if self.is_sudden else 1e-4 ** (1 - gone)
        first = self.first or self.shares
        return np.outer(1 - way, first) + np.outer(way, self.shares)


class MixedOrder(ExampleOrder):
    """The order of the examples in epochs in which each group has a given share.

    An epoch has about as many examples as the data. If the share of a group is small, an epoch has
    only some of the group's examples, and each epoch has different examples. If the share is large,
    an epoch has every example of the group several times. An epoch uses the same fraction of a
    group's examples in all buckets.

    If the shares change within an epoch, the group at each position is sampled according to the
    current shares. The batches are then in the order in which the examples fill them. All epochs
    have as many batches as the first epoch. If an epoch has another number of batches, the order
    skips its last batches or repeats its first batches. Without shuffling, the groups take turns.

    Args:
        groups: int array [n], the group of every example.
        mixture: `Mixture`. If it is None, an epoch has every example once.
        arguments, named: the arguments of `ExampleOrder`.

    Raises:
        DataError: if a group without examples has a positive share.
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

    def up_to(self, longest: int) -> Self:
        raise DataError(
            "A curriculum of lengths requires the data of one problem. "
            "Received: a mixture of problems."
        )

    def _shares_over_epoch(self, number):
        """Return the shares during an epoch: float [intervals or 1, groups]."""
        midpoints = (np.arange(_NUM_INTERVALS) + 0.5) / _NUM_INTERVALS
        shares = self._mixture.at((number + midpoints) * len(self._groups))
        return shares[:1] if np.array_equal(shares[0], shares[-1]) else shares

    def _has_constant_shares(self, number):
        return len(self._shares_over_epoch(number)) == 1

    def _counts(self, number):
        """Return the number of examples in an epoch, for each group and bucket."""
        shares = self._shares_over_epoch(number).mean(axis=0)
        sizes = np.bincount(self._groups, minlength=len(shares))
        # [groups]: the number of times that an epoch uses each example of a group.
        times = len(self._groups) * shares / np.maximum(sizes, 1)
        # The counts are rounded up, because otherwise a few examples of a group with a small share
        # would never be used.
        return [
            math.ceil(len(members) * times[self._groups[members[0]]] - 1e-6)
            for members in self._members
        ]

    def fingerprint(self, seeds: Iterable[Any]) -> int:
        changes = [tuple(self._mixture)] if self._mixture.first else []
        return super().fingerprint([*seeds, self._counts(0), *changes])

    def _in_order(self):
        in_group = np.zeros_like(self._groups)  # the number of earlier examples of the same group
        for group in np.unique(self._groups):
            members = np.flatnonzero(self._groups == group)
            in_group[members] = np.arange(len(members))
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
