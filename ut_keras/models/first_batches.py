"""Check the first batch of a generator, a dataset or a `DataLoader` of torch.

`fit`, `evaluate` and `predict` use this module. The datasets are those of `tf.data` and Grain. The
model still gets each batch once, even if the data can be read only once. In the batches of
generators, `PyDataset`s and `DataLoader`s, arrays and dicts replace the objects of other libraries.
"""

import copy
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.models import plain_data
from ut_keras.ops import plain_array
from ut_keras.ops.weak_call import weak_call


def observed(x: Any, check: Callable[..., Any]) -> Any:
    """Return data with the same batches as `x`, and call `check` with the first batch.

    Args:
        x: the data of `fit`, `evaluate` or `predict`. The function wraps a generator, a
            `tf.data.Dataset`, a `PyDataset` and a `DataLoader` of torch, and returns other data
            unchanged. It reads the first batch of a Grain dataset itself. The model still gets this
            batch, because each loop over a Grain dataset begins with it. The function does not
            check the first batch of a `PyDataset`, because `array_checks.first_batch` reads it.
        check: bound method with the arguments x, y and weights. Each of them is an array, a dict,
            tuple or list of arrays, or None. The caller must keep a reference to the object of the
            method. If the method raises an exception for a dataset, reading the dataset raises an
            error of TensorFlow.
    """
    if isinstance(x, types.GeneratorType):
        return _observed_generator(x, check)
    if isinstance(x, tf.data.Dataset) and _is_on_host(x):
        return _observed_dataset(x, check)
    if isinstance(x, keras.utils.PyDataset):
        return plain_data.PlainBatches(x)
    if isinstance(x, Iterable) and plain_array.is_from(("grain._src",), x):
        for batch in itertools.islice(x, 1):
            _check_batch(check, batch)
    if any(one.__name__ == "DataLoader" for one in type(x).__mro__) and plain_array.is_from(
        ("torch.utils.data",), x
    ):
        return _observed_loader(x, check)
    return x


def _check_batch(check, batch):
    """Call `check` with the arrays of a batch. The batch may contain tensors."""
    x, y, weights = keras.utils.unpack_x_y_sample_weight(plain_data.plain(batch))
    check(*keras.tree.map_structure(plain_data.as_array, (x, y, weights)))


def _is_on_host(dataset):
    """Return whether the batches of a dataset are in the memory of the host.

    They are on a GPU if the dataset ends with `prefetch_to_device`. TensorFlow allows no
    transformation after `prefetch_to_device`.
    """
    tensors = tf.nest.flatten(dataset, expand_composites=True)
    return not any("GPU" in tensor.device for tensor in tensors)


def _observed_generator(batches, check):
    """Read and check the first batch. Return a generator of all batches."""
    first = list(itertools.islice(batches, 1))
    if first:
        _check_batch(check, first[0])
    return _chained(first, batches)


def _chained(first, batches):
    """Yield the first batch and all other batches.

    Keras accepts generators, but no other iterators.
    """
    # If the reader stops early, `yield from batches` would close `batches`. A chain does not.
    yield from map(plain_data.plain, itertools.chain(first, batches))


def _observed_loader(loader, check):
    """Return a copy of a `DataLoader` that calls `check` with its first batch.

    An additional loop over the loader would change the random order of the batches, so the copy
    checks the batch while Keras reads it. Keras accepts only objects of torch's class. Therefore
    the class of the copy is a subclass of the loader's class.
    """
    is_checked: list[bool] = []

    class Observed(type(loader)):  # type: ignore[misc]
        def __iter__(self):
            for batch in super().__iter__():
                if not is_checked:
                    is_checked.append(True)
                    _check_batch(check, batch)
                yield _readable_batch(batch)

    observed = copy.copy(loader)
    observed.__class__ = Observed
    return observed


def _readable_batch(batch):
    """Return a batch of a `DataLoader` in the form that Keras reads.

    Keras calls the method `cpu` of every leaf of the batch, and converts the result to an array.
    Keras would read a batch that is a dict as a tuple of the keys.
    """
    torch: Any = sys.modules["torch"]

    def as_tensor(leaf):
        return torch.as_tensor(np.require(leaf, requirements="W"))  # torch requires writable arrays

    batch = keras.tree.map_structure(as_tensor, plain_data.plain(batch), none_is_leaf=False)
    return (batch,) if isinstance(batch, dict) else batch


def _observed_dataset(dataset, check):
    """Return a dataset that calls `check` when its first batch is first read."""
    call = weak_call(check)
    # Every epoch begins with is_first=True, but only the first epoch calls `check`.
    is_checked: list[bool] = []

    @tf.autograph.experimental.do_not_convert
    def step(is_first, batch):
        parts = keras.utils.unpack_x_y_sample_weight(batch)
        tensors = tf.nest.flatten(parts)
        is_dense = [isinstance(tensor, tf.Tensor) for tensor in tensors]
        structure = tf.nest.map_structure(lambda _: None, parts)

        check_once = functools.partial(_check_once, call, is_checked, structure, is_dense)
        dense = [tensor for tensor, is_one in zip(tensors, is_dense, strict=True) if is_one]
        is_first = tf.cond(
            is_first, lambda: tf.numpy_function(check_once, dense, tf.bool), lambda: is_first
        )
        return tf.ensure_shape(is_first, []), batch

    return dataset.scan(tf.constant(True), step)


def _check_once(check, is_checked, structure, is_dense, *arrays):
    """Call `check` with a batch, unless `check` was called before. Return False.

    Args:
        check: function with the arguments x, y and weights.
        is_checked: list, empty at first. The function appends True when it calls `check`.
        structure: the nest of a batch: x, y and weights.
        is_dense: list with a bool for each leaf of the nest: whether the leaf is a dense tensor.
            `check` gets None for the other leaves.
        *arrays: the arrays of the dense leaves.
    """
    if not is_checked:
        is_checked.append(True)
        given = iter(arrays)
        values = [next(given) if dense else None for dense in is_dense]
        check(*tf.nest.pack_sequence_as(structure, values))
    return np.False_
