"""Reads batches in the order of an `ExampleOrder` as a `tf.data.Dataset`.

    batches = IndexedBatches(index, order, seed_of=lambda number: [5, number], parse=parse)
    batches.one_pass()                        one epoch; each repetition reads the next epoch
    batches.batches_from(number=3, first=7)   endless, from batch 7 of epoch 3

The seed `seed_of(n)` determines the order of epoch n. So every epoch has a different order, and
another process computes the same orders. Reading can begin with any batch, without reading earlier
batches. If there are several workers, each worker reads only its slices of a batch: see
`WorkerSlices`.

TensorFlow needs half a second to begin an epoch, and a small epoch may take less time than this. So
a training run reads the endless dataset `batches_from`. The function that reads a batch is traced
once for all datasets.
"""

import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import tensorflow as tf

from ut_keras.errors import DataError
from ut_keras.ops import autotuning
from ut_keras.ops.weak_call import weak_call

if TYPE_CHECKING:
    from ut_keras.data.reading.batching import MergedBuckets
    from ut_keras.data.reading.example_order import ExampleOrder
    from ut_keras.data.reading.record_index import RecordIndex

# Number of batches of an endless dataset. The product of this number and the number of replicas of
# a worker must fit into 64 bits.
_ENDLESS = 2**48


class WorkerSlices(NamedTuple):
    """The slices of a batch that one worker reads, one slice for each of its replicas.

    The number of slices of a batch is the number of all replicas. The last slices may have fewer
    examples or none. The workers take slices in turn, in the order that `tf.distribute` uses.
    """

    worker: int = 0  # the index of this worker
    workers: int = 1  # the number of workers
    replicas: int = 1  # the number of replicas of each worker

    def slot(self, replica: int) -> tuple[int, int]:
        """Return (index of the slice for a replica, number of slices of a batch)."""
        return replica * self.workers + self.worker, self.workers * self.replicas


class NoDatasetError(DataError, AttributeError):
    """An error for a method of `tf.data.Dataset` that `IndexedBatches` does not have."""


@dataclasses.dataclass(eq=False)
class IndexedBatches:
    """The batches of all epochs, and functions that return datasets of these batches.

    This class is not a `tf.data.Dataset`, because the methods of a dataset, such as `map`, return
    plain datasets. A plain dataset cannot begin at a later batch, continue with the next epochs, or
    give each worker its slices.
    """

    index: "RecordIndex"  # an index that holds the length of every feature of every example
    order: "ExampleOrder"  # the order of the examples in `index`; it must have examples
    # Function from the number of an epoch to a seed in the format of `ExampleOrder.epoch`.
    seed_of: Callable[[int], list[int] | None]
    # int array [buckets], or None. The number of examples in the batches of each bucket. A smaller
    # batch is filled up to this number by repeating some of its examples.
    fill_to: Sequence[int] | None
    # Function that returns an element of the datasets: a nest of tensors with one entry per record.
    # The arguments of the function are:
    # - the file of each record, string [n]
    # - the records, string [n]
    # - the lengths of the records' features according to the index, int32 [n, features]
    # - the greatest lengths in the complete batch, int32 [features]
    # - the bucket of the batch, int64 scalar
    parse: Callable[..., Any]
    # The `batching.MergedBuckets` if buckets were merged to reduce the number of batch shapes.
    merged: "MergedBuckets | None" = None

    def __post_init__(self) -> None:
        order, seed_of = self.order, self.seed_of
        self.num_batches = order.num_batches  # the number of batches of an epoch
        self._names = tf.constant(self.index.files)
        self._planning = threading.Lock()
        # Two epochs may be in use at the same time: one that ends and one that starts.
        self._epoch = functools.lru_cache(maxsize=2)(lambda n: order.epoch(seed_of(n), n))
        vector, scalar = tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64)
        self._rows_of = tf.function(
            self._read_rows, input_signature=[vector, scalar, scalar, scalar], autograph=False
        )

    @functools.cached_property
    def fingerprint(self) -> int:
        """An int > 0 that identifies the order of the batches of all epochs."""
        return self.order.fingerprint([self.seed_of(0), self.seed_of(1)])

    def up_to(self, longest: int) -> "IndexedBatches":
        """Return the batches of the examples whose length is at most `longest`.

        Raises:
            DataError: in the same cases as `ExampleOrder.up_to`.
        """
        return dataclasses.replace(self, order=self.order.up_to(longest))

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and hasattr(tf.data.Dataset, name):
            raise NoDatasetError(
                "Training batches must be changed one example at a time, by `Problem.preprocess`: "
                "they span all epochs, and only `data.reading` can order them. Received: "
                f"`{name}`, a method of one dataset."
            )
        raise AttributeError(name)

    # The reading functions do not use AutoGraph, because AutoGraph would take a fifth of the time
    # for creating a dataset.
    @tf.autograph.experimental.do_not_convert
    def one_pass(self) -> tf.data.Dataset:
        """Return a dataset of one epoch. Each iteration gives the next epoch.

        The dataset knows its number of batches, so `fit` knows where an epoch ends.
        """
        passes = itertools.count()
        count = self.num_batches

        def begin(_):
            number = tf.numpy_function(lambda: np.int64(next(passes)), [], tf.int64)
            number.set_shape([])
            return number

        numbers = tf.data.Dataset.range(1).map(begin)
        dataset = numbers.flat_map(
            lambda n: self._slices(n * count, (n + 1) * count, WorkerSlices())
        )
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(count)).prefetch(2)
        return autotuning.disable(dataset)

    def batches_from(
        self, number: int = 0, first: int = 0, part: WorkerSlices | None = None
    ) -> tf.data.Dataset:
        """Return an endless dataset: the rest of an epoch, and all following epochs.

        Args:
            number: int, the number of the epoch.
            first: int, the first batch of this epoch to read.
            part: `WorkerSlices`. If it is given, the dataset yields the slices of the worker one
                after the other, batch by batch. Optional.
        """
        part = part or WorkerSlices()
        start = number * self.num_batches + min(first, self.num_batches)
        return autotuning.disable(self._slices(start, _ENDLESS, part).prefetch(2 * part.replicas))

    @tf.autograph.experimental.do_not_convert
    def _slices(self, start, stop, part):
        """Return the worker's slices of batches `start` to `stop` of all epochs."""

        def slice_of(number):
            batch, types = number // part.replicas, [tf.int64, tf.int64]
            plan = weak_call(self._plan)
            numbers, bucket = tf.numpy_function(plan, [batch], types, stateful=False)
            numbers.set_shape([None])
            bucket.set_shape([])
            return self._rows_of(numbers, bucket, *part.slot(number % part.replicas))

        return tf.data.Dataset.range(start * part.replicas, stop * part.replicas).map(
            slice_of, num_parallel_calls=tf.data.AUTOTUNE
        )

    def _plan(self, batch):
        """Return (numbers of the examples, bucket) of a batch.

        `batch` is the number of the batch, counted from the first batch of epoch 0.
        """
        number, batch = divmod(int(batch), self.num_batches)
        with self._planning:  # without the lock, several threads would shuffle the same epoch
            epoch = self._epoch(number)
        return epoch.examples(batch).astype(np.int64), np.int64(epoch.buckets[batch])

    def _read_rows(self, numbers, bucket, slot, slots):
        """Return one slice of a batch: what `parse` returns for the slice's records."""
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
        # `parse` needs at least one record. So for an empty slice, one record is read. It is
        # removed after `parse`.
        numbers = mine if len(mine) else numbers[:1]
        files, records = self.index.read(numbers)
        lengths = self.index.lengths[numbers]
        return files, np.array(records, object), lengths, longest, np.int64(len(mine))
