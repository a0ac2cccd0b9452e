"""Batches read in the order of an `ExampleOrder`, each when its turn comes, as a `tf.data.Dataset`.

    indexed_batches.make(index, order, seed=5, first_batch=1200, parse=parse)

The n-th pass over the dataset has the order of (seed, n): every pass is another, and the same
ones come again in another process. Any batch can be the first; none before it is read.
"""

import functools
import itertools

import numpy as np
import tensorflow as tf


def make(index, order, seed, first_batch=0, *, parse):
    """Makes the dataset.

    Args:
        index: `RecordIndex`.
        order: `ExampleOrder` of the lengths of `index`.
        seed: int in [0, 2^32).
        first_batch: int. Where the first pass begins.
        parse: function to what the dataset holds, from the records of a batch: their files and
            themselves, string tensors [n], their lengths in the index, int32 [n], and their
            bucket, an int64 scalar.
    """
    names = tf.constant(index.files)
    passes = itertools.count()

    # Two passes may be under way, the end of one and the start of the next.
    @functools.lru_cache(maxsize=2)
    def epoch_of(number):
        return order.epoch([seed, number])

    def begin():
        number = next(passes)
        first = 0 if number else first_batch
        return np.array([number, first, len(epoch_of(number))], np.int64)

    def read(number, batch):
        epoch = epoch_of(int(number))
        numbers = epoch.examples(batch)
        files, records = index.read(numbers)
        return files, np.array(records, object), index.lengths[numbers], epoch.buckets[batch]

    def batch_of(number, batch):
        files, records, lengths, bucket = tf.numpy_function(
            read, [number, batch], [tf.int64, tf.string, tf.int32, tf.int64]
        )
        for tensor in (files, records, lengths):
            tensor.set_shape([None])
        bucket.set_shape([])
        return parse(tf.gather(names, files), records, lengths, bucket)

    def start(_):
        place = tf.numpy_function(begin, [], tf.int64)
        place.set_shape([3])
        return place

    def batches(place):
        return tf.data.Dataset.range(place[1], place[2]).map(
            lambda batch: batch_of(place[0], batch), num_parallel_calls=tf.data.AUTOTUNE
        )

    return tf.data.Dataset.range(1).map(start).flat_map(batches)
