"""Convert data of other libraries to the arrays and dicts that Keras accepts.

pandas, Polars, PyArrow, JAX and h5py have objects that NumPy can read. Keras accepts only some of
these objects, and fewer in the batches of a generator. Keras' errors do not name the argument.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# The modules of Hugging Face's datasets. A user's own module may also have the name `datasets`.
HUGGING_FACE = tuple(
    f"datasets.{name}" for name in ("arrow_dataset", "dataset_dict", "iterable_dataset")
)
_NUMBER_OR_TEXT = (int, float, str, bytes)


def is_from(modules: Iterable[str], value: Any) -> bool:
    """Return whether a value or one of its parent classes is from some modules.

    Args:
        modules: names of packages or modules. A name includes all modules inside a package. If a
            user's own module may have the name of the package, name the modules of the package.
        value: any object.
    """
    found = [f"{one.__module__}." for one in type(value).__mro__]
    return any(name.startswith(f"{module}.") for module in modules for name in found)


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
    if is_from(HUGGING_FACE, data):
        return data
    if isinstance(data, Mapping):
        return {name: plain(value) for name, value in data.items()}
    if isinstance(data, tuple) or type(data) is list:
        kind = tuple if isinstance(data, tuple) else list
        return kind(map(plain, data))
    return _plain_array(data)


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
    return _plain_array(value)


def _plain_array(value):
    """Return an object that NumPy can read as an array, and other values unchanged."""
    if isinstance(value, np.ma.MaskedArray):
        if count := np.count_nonzero(value.data[np.ma.getmaskarray(value)]):
            raise ValueError(
                "Arrays must have no masked values other than 0. Received: a masked array with "
                f"{count} of them. To replace the masked values by 0, call its method filled(0)."
            )
        return value.data
    if isinstance(value, np.ndarray) or tf.is_tensor(value):
        return value
    if is_from(("pandas",), value) and hasattr(value, "to_numpy"):
        return _without_objects(value.to_numpy())
    if is_from(("torch",), value) and hasattr(value, "detach"):
        value = value.detach().cpu()
        # NumPy has no bfloat16.
        return np.asarray(value.float() if "bfloat16" in str(value.dtype) else value)
    return np.asarray(value) if hasattr(value, "__array__") else value


def _without_objects(values):
    """Convert an array of objects from pandas to an array of numbers, if possible.

    pandas returns an array of objects for a DataFrame with a dtype such as "Int64", and for a
    Series of lists.
    """
    if values.dtype != object:
        return values
    try:
        found = np.array(values.tolist())
    except (ValueError, OverflowError):  # lists of different lengths
        return values
    return found if found.dtype.kind in "iuf" else values


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
