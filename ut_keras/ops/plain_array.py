"""Convert objects of other libraries to arrays.

    plain_array.convert(pandas.DataFrame([[3, 1]], dtype="Int64"))   # int64 array [1, 2]

The libraries are pandas, Polars, PyArrow, JAX, h5py and torch.
"""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def is_from(modules: Iterable[str], value: Any) -> bool:
    """Return whether a value or one of its parent classes is from some modules.

    Args:
        modules: names of packages or modules. A name includes all modules inside a package. If a
            user's own module may have the name of the package, name the modules of the package.
        value: any object.
    """
    found = [f"{one.__module__}." for one in type(value).__mro__]
    return any(name.startswith(f"{module}.") for module in modules for name in found)


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor or a variable of TensorFlow or Keras."""
    return tf.is_tensor(value) or isinstance(value, keras.KerasTensor | keras.Variable)


def convert(value: Any) -> Any:
    """Return objects of other libraries as arrays, and other values unchanged.

    Tensors of TensorFlow stay tensors. Arrays of objects become arrays of numbers, if possible.

    Raises:
        ValueError: if an array has masked values other than 0. TensorFlow would ignore the mask.
    """
    if isinstance(value, np.ma.MaskedArray):
        if count := np.count_nonzero(value.data[np.ma.getmaskarray(value)]):
            raise ValueError(
                "Arrays must have no masked values other than 0. Received: a masked array with "
                f"{count} of them. To replace the masked values by 0, call its method filled(0)."
            )
        return value.data
    if isinstance(value, np.ndarray):
        return _without_objects(value)
    if is_tensor(value):
        return value
    if is_from(("pandas",), value) and hasattr(value, "to_numpy"):
        return _without_objects(value.to_numpy())
    if is_from(("torch",), value) and hasattr(value, "detach"):
        value = value.detach().cpu()
        # NumPy has no bfloat16.
        return np.asarray(value.float() if "bfloat16" in str(value.dtype) else value)
    return _without_objects(np.asarray(value)) if hasattr(value, "__array__") else value


def _without_objects(values):
    """Convert an array of objects to an array of numbers, if possible.

    pandas returns an array of objects for a DataFrame with a dtype such as "Int64", and for a
    Series of lists. PyArrow returns one for a column of lists.
    """
    if values.dtype != object:
        return values
    if not values.size:
        return np.zeros(values.shape, np.int32)
    try:
        found = np.array(values.tolist())
    except (ValueError, OverflowError):  # lists of different lengths
        return values
    return found if found.dtype.kind in "iuf" else values
