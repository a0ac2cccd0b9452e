"""Batches read in the order of an `ExampleOrder`, each when its turn comes, as a `tf.data.Dataset`.

    batches = IndexedBatches(index, order, seed_of=lambda number: [5, number], parse=parse)
    batches.one_pass()                   all batches of a pass; repeated, those of the next one
    batches.batches_from(number=3, first=7)   without end, from batch 7 of pass 3 on

The n-th pass has the order of the n-th seed: every pass is another, and the same ones come again in
another process. Any batch can be the first; none before it is read. Nor does one of several workers
read what the others do: see `Part`.

To begin a pass takes TensorFlow half a second, more than many a small one lasts. So a run reads
`batches_from`, and what reads a batch is traced once for all datasets.
"""

import dataclasses
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import tensorflow as tf

from ut_keras.errors import DataError

if TYPE_CHECKING:
    from ut_keras.data.reading.example_order import ExampleOrder
    from ut_keras.data.reading.record_index import RecordIndex

_ENDLESS = 2**48  # batches; times the replicas of a worker it fits into 64 bits


def weak_call(method: Any) -> Callable[..., Any]:
    """Returns a function for `tf.numpy_function` that calls a bound method, and keeps no object.

    TensorFlow keeps an operation's Python function as long as the outermost graph: for good, with
    all that it holds. Whoever makes the operation keeps the object; a `tf.data.Dataset` does so for
    what its functions refer to.
    """
    reference: Any = weakref.WeakMethod(method)

    return lambda *arguments: reference()(*arguments)


class Part(NamedTuple):
    """What one of several workers takes of every batch: a slice for each of its replicas.

    A batch is cut into as many slices as there are replicas, the last of which may have fewer rows
    or none. Workers take them in turn, as `tf.distribute` has it.
    """

    worker: int = 0  # which one
    workers: int = 1  # how many there are
    replicas: int = 1  # how many each of them has

    def slot(self, replica: int) -> tuple[int, int]:
        """(which slice of a batch one of the worker's replicas gets, of how many)."""
        return replica * self.workers + self.worker, self.workers * self.replicas


class NoDatasetError(DataError, AttributeError):
    """Something was asked of all passes that a `tf.data.Dataset` of one can do."""


@dataclasses.dataclass(eq=False)
class IndexedBatches:
    """All passes over the data, and the datasets of some of their batches.

    It is no `tf.data.Dataset` itself: what `map` makes of one knows no other passes, no place to go
    on from and no parts for workers.
    """

    index: "RecordIndex"  # with the length of every feature of an example
    order: "ExampleOrder"  # of its examples, not empty
    # From the number of a pass to its seed, as `ExampleOrder.epoch` takes it.
    seed_of: Callable[[int], list[int] | None]
    # int array [buckets], or None: how many rows to fill the batches of each bucket up to, with
    # examples that they hold already.
    fill_to: Sequence[int] | None
    # To a nest of tensors with a row for each record, which the datasets hold, from the records:
    # their files and themselves, string tensors [n], their lengths in the index, int32 [n,
    # features], the greatest of the whole batch, int32 [features], and its bucket, an int64 scalar.
    parse: Callable[..., Any]

    def __post_init__(self) -> None:
        order, seed_of = self.order, self.seed_of
        self.num_batches = order.num_batches  # of a pass
        self._names = tf.constant(self.index.files)
        self._planning = threading.Lock()
        # Two passes may be under way, the end of one and the start of the next.
        self._epoch = functools.lru_cache(maxsize=2)(lambda n: order.epoch(seed_of(n), n))
        vector, scalar = tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64)
        self._rows_of = tf.function(
            self._read_rows, input_signature=[vector, scalar, scalar, scalar], autograph=False
        )

    @functools.cached_property
    def fingerprint(self) -> int:
        """An int > 0 that stands for the order of the batches of all passes."""
        return self.order.fingerprint([self.seed_of(0), self.seed_of(1)])

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and hasattr(tf.data.Dataset, name):
            raise NoDatasetError(
                "Training batches must be changed one example at a time, by `Problem.preprocess`: "
                "they span all epochs, and only `data.reading` can order them. Received: "
                f"`{name}`, a method of one dataset."
            )
        raise AttributeError(name)

    # Nothing that reads needs AutoGraph, which takes a fifth of the time to make a dataset.
    @tf.autograph.experimental.do_not_convert
    def one_pass(self) -> tf.data.Dataset:
        """A dataset of a pass, each time the next one.

        It knows how many batches it has, so that `fit` knows where an epoch ends.
        """
        passes = itertools.count()
        count = self.num_batches

        def begin(_):
            number = tf.numpy_function(lambda: np.int64(next(passes)), [], tf.int64)
            number.set_shape([])
            return number

        numbers = tf.data.Dataset.range(1).map(begin)
        dataset = numbers.flat_map(lambda n: self._slices(n * count, (n + 1) * count, Part()))
        return dataset.apply(tf.data.experimental.assert_cardinality(count)).prefetch(2)

    def batches_from(
        self, number: int = 0, first: int = 0, part: Part | None = None
    ) -> tf.data.Dataset:
        """A dataset without end: the rest of a pass, and all that follow.

        Args:
            number: int, the number of the pass.
            first: int, the batch of it to begin with.
            part: `Part`. Each batch then is one after the other of the worker's slices of it.
                Optional.
        """
        part = part or Part()
        start = number * self.num_batches + min(first, self.num_batches)
        return self._slices(start, _ENDLESS, part).prefetch(2 * part.replicas)

    @tf.autograph.experimental.do_not_convert
    def _slices(self, start, stop, part):
        """The worker's slices of the batches `start` to `stop`, counted over all passes."""

        def slice_of(place):
            batch, types = place // part.replicas, [tf.int64, tf.int64]
            plan = weak_call(self._plan)
            numbers, bucket = tf.numpy_function(plan, [batch], types, stateful=False)
            numbers.set_shape([None])
            bucket.set_shape([])
            return self._rows_of(numbers, bucket, *part.slot(place % part.replicas))

        return tf.data.Dataset.range(start * part.replicas, stop * part.replicas).map(
            slice_of, num_parallel_calls=tf.data.AUTOTUNE
        )

    def _plan(self, batch):
        """(numbers of its examples, its bucket) of a batch, counted over all passes."""
        number, batch = divmod(int(batch), self.num_batches)
        with self._planning:  # or several threads would shuffle the same pass
            epoch = self._epoch(number)
        return epoch.examples(batch).astype(np.int64), np.int64(epoch.buckets[batch])

    def _read_rows(self, numbers, bucket, slot, slots):
        """One of the slices of a batch: the nest that `parse` makes of its records."""
        types = [tf.int64, tf.string, tf.int32, tf.int32, tf.int64]
        num_features = self.index.lengths.shape[1]
        shapes = [[None], [None], [None, num_features], [num_features], []]
        found = tf.numpy_function(weak_call(self._read), [numbers, bucket, slot, slots], types)
        for tensor, shape in zip(found, shapes, strict=True):
            tensor.set_shape(shape)
        files, records, lengths, longest, rows = found
        parsed = self.parse(tf.gather(self._names, files), records, lengths, longest, bucket)
        return tf.nest.map_structure(lambda value: value[:rows], parsed)

    def _read(self, numbers, bucket, slot, slots):
        if self.fill_to is not None:
            numbers = np.resize(numbers, self.fill_to[bucket])
        longest = self.index.lengths[numbers].max(axis=0)
        size = -(-len(numbers) // slots)
        mine = numbers[slot * size : (slot + 1) * size]
        # Without a row there would be nothing to parse, so one is read and left out again.
        numbers = mine if len(mine) else numbers[:1]
        files, records = self.index.read(numbers)
        lengths = self.index.lengths[numbers]
        return files, np.array(records, object), lengths, longest, np.int64(len(mine))
