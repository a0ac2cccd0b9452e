"""Convert data of other libraries to the arrays and dicts that Keras accepts.

pandas, Polars, PyArrow, JAX and h5py have objects that NumPy can read. Keras accepts only some of
these objects, and fewer in the batches of a generator. Keras' errors do not name the argument.
"""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.ops import plain_array

# The modules of Hugging Face's datasets. A user's own module may also have the name `datasets`.
HUGGING_FACE = tuple(
    f"datasets.{name}" for name in ("arrow_dataset", "dataset_dict", "iterable_dataset")
)
_NUMBER_OR_TEXT = (int, float, str, bytes)


def plain(data: Any) -> Any:
    """Return data with arrays and dicts instead of the objects of other libraries.

    The function returns tensors of TensorFlow, datasets and generators unchanged.

    Args:
        data: an argument of `fit`, such as `x` or `validation_data`, or a batch.

    Raises:
        ValueError: if an array has masked values other than 0. TensorFlow would ignore the mask.
    """
    if isinstance(data, _NUMBER_OR_TEXT) or _is_plain_list(data):
        return data
    if isinstance(data, np.ndarray) and data.dtype.names:  # a structured array
        return {name: plain(data[name]) for name in data.dtype.names}
    if plain_array.is_from(HUGGING_FACE, data):
        return data
    if isinstance(data, Mapping):
        return {name: plain(value) for name, value in data.items()}
    if isinstance(data, tuple) or type(data) is list:
        kind = tuple if isinstance(data, tuple) else list
        return kind(map(plain, data))
    return plain_array.convert(data)


def _is_plain_list(data):
    """Return whether data are a list of numbers or texts, or a list of such lists.

    The function reads only the beginning of each list, because long lists are slow to read.
    """
    if type(data) is not list or not data:
        return type(data) is list
    if type(data[0]) is list:
        return all(map(_is_plain_list, data))
    return isinstance(data[0], _NUMBER_OR_TEXT)


def as_array(value: Any) -> Any:
    """Return a tensor, or an object that NumPy can read, as an array.

    The function returns other values unchanged.
    """
    if isinstance(value, tf.Tensor) and not tf.is_symbolic_tensor(value):
        return value.numpy()
    return plain_array.convert(value)


class PlainBatches(keras.utils.PyDataset):
    """A `PyDataset` that converts the batches of another `PyDataset` with `plain`."""

    def __init__(self, inner: keras.utils.PyDataset) -> None:
        super().__init__(inner.workers, inner.use_multiprocessing, inner.max_queue_size)
        self.inner = inner

    @property
    def num_batches(self) -> int | None:
        return self.inner.num_batches

    def __getitem__(self, index: int) -> Any:
        return plain(self.inner[index])

    def on_epoch_begin(self) -> None:
        self.inner.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self.inner.on_epoch_end()
