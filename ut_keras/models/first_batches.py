"""Observe the first batch of a generator or `tf.data.Dataset` that `fit` reads.

Each batch reaches the model once and unchanged, also if the data can be read only once.
"""

import itertools
import types
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.ops.weak_call import weak_call


def observed(x: Any, check: Callable[..., Any]) -> Any:
    """Return data with the batches of `x`. The first batch is passed to a method.

    Args:
        x: the data of `fit`. Other data than generators and datasets are returned unchanged.
        check: bound method with the arguments x, y and weights. Each of them is an array, a dict,
            tuple or list of arrays, or None. The caller must keep the object of the method. An
            exception of the method ends the reading.
    """
    if isinstance(x, types.GeneratorType):
        return _observed_generator(x, check)
    if isinstance(x, tf.data.Dataset) and _is_on_host(x):
        return _observed_dataset(x, check)
    return x


def _is_on_host(dataset):
    """Return False for a dataset that ends with `prefetch_to_device`, the last possible step."""
    tensors = tf.nest.flatten(dataset, expand_composites=True)
    return not any("GPU" in tensor.device for tensor in tensors)


def _observed_generator(batches, check):
    first = list(itertools.islice(batches, 1))
    if first:
        check(*keras.utils.unpack_x_y_sample_weight(first[0]))
    return _chained(first, batches)


def _chained(first, batches):
    """Return a generator, because Keras accepts no other iterator."""
    yield from itertools.chain(first, batches)  # at the end, a chain does not close its parts


def _observed_dataset(dataset, check):
    call = weak_call(check)
    is_checked: list[bool] = []  # every epoch begins with is_first=True

    @tf.autograph.experimental.do_not_convert
    def step(is_first, batch):
        parts = keras.utils.unpack_x_y_sample_weight(batch)
        tensors = tf.nest.flatten(parts)
        is_dense = [isinstance(tensor, tf.Tensor) for tensor in tensors]
        structure = tf.nest.map_structure(lambda _: None, parts)

        def check_once(*arrays):
            if not is_checked:
                is_checked.append(True)
                given = iter(arrays)
                values = [next(given) if dense else None for dense in is_dense]
                call(*tf.nest.pack_sequence_as(structure, values))
            return np.False_

        dense = [tensor for tensor, is_one in zip(tensors, is_dense, strict=True) if is_one]
        is_first = tf.cond(
            is_first, lambda: tf.numpy_function(check_once, dense, tf.bool), lambda: is_first
        )
        return tf.ensure_shape(is_first, []), batch

    return dataset.scan(tf.constant(True), step)
