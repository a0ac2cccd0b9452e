"""Batches read in the order of an `ExampleOrder`, each when its turn comes, as a `tf.data.Dataset`.

    indexed_batches.make(index, order, seed=5, first_batch=1200, parse=parse)

The n-th pass over the dataset has the order of (seed, n): every pass is another, and the same
ones come again in another process. Any batch can be the first; none before it is read. Nor does one
of several workers read what the others do: see `Part`.
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Part(NamedTuple):
    """What one of several workers takes of every batch: a slice for each of its replicas.

    A batch is cut into as many slices as there are replicas, the last of which may have fewer rows
    or none. Workers take them in turn, as `tf.distribute` has it.

    Fields:
        worker: int, which one.
        workers: int, how many there are.
        replicas: int, how many each of them has.
    """

    worker: int = 0
    workers: int = 1
    replicas: int = 1

    def rows(self, count, replica):
        """The slice of a batch of `count` rows that one of the worker's replicas gets."""
        size = -(-count // (self.workers * self.replicas))
        start = (replica * self.workers + self.worker) * size
        return slice(start, start + size)


def make(index, order, seed, first_batch=0, part=None, fill_to=None, *, parse):
    """Makes the dataset.

    Args:
        index: `RecordIndex`, with the length of every feature of an example.
        order: `ExampleOrder` of its examples.
        seed: int in [0, 2^32).
        first_batch: int. Where the first pass begins.
        part: `Part`. Each batch then is one after the other of the worker's slices of it. Optional.
        fill_to: int array [buckets]. How many rows to fill the batches of each bucket up to, with
            examples that they hold already. Optional.
        parse: function to a dict of tensors with a row for each record, which the dataset holds,
            from the records: their files and themselves, string tensors [n], their lengths in the
            index, int32 [n, features], the greatest of the whole batch, int32 [features], and its
            bucket, an int64 scalar.
    """
    names = tf.constant(index.files)
    passes = itertools.count()
    part = part or Part()

    # Two passes may be under way, the end of one and the start of the next.
    @functools.lru_cache(maxsize=2)
    def epoch_of(number):
        return order.epoch([seed, number])

    def begin():
        number = next(passes)
        first = 0 if number else first_batch
        return np.array([number, first, len(epoch_of(number))], np.int64)

    def read(number, batch, replica):
        epoch = epoch_of(int(number))
        numbers = epoch.examples(batch)
        bucket = epoch.buckets[batch]
        if fill_to is not None:
            numbers = np.resize(numbers, fill_to[bucket])
        longest = index.lengths[numbers].max(axis=0)
        mine = numbers[part.rows(len(numbers), replica)]
        # Without a row there would be nothing to parse, so one is read and left out again.
        numbers = mine if len(mine) else numbers[:1]
        files, records = index.read(numbers)
        records = np.array(records, object)
        return files, records, index.lengths[numbers], longest, bucket, np.int64(len(mine))

    types = [tf.int64, tf.string, tf.int32, tf.int32, tf.int64, tf.int64]
    num_features = index.lengths.shape[1]
    shapes = [[None], [None], [None, num_features], [num_features], [], []]

    def slice_of(number, place):
        batch, replica = place // part.replicas, place % part.replicas
        found = tf.numpy_function(read, [number, batch, replica], types)
        for tensor, shape in zip(found, shapes, strict=True):
            tensor.set_shape(shape)
        files, *others, rows = found
        features = parse(tf.gather(names, files), *others)
        return {name: value[:rows] for name, value in features.items()}

    def start(_):
        place = tf.numpy_function(begin, [], tf.int64)
        place.set_shape([3])
        return place

    def slices(place):
        first, stop = place[1] * part.replicas, place[2] * part.replicas
        return tf.data.Dataset.range(first, stop).map(
            lambda number: slice_of(place[0], number), num_parallel_calls=tf.data.AUTOTUNE
        )

    return tf.data.Dataset.range(1).map(start).flat_map(slices)
