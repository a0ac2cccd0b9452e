"""Check and convert the ids that a caller passes.

The functions accept all int dtypes. `as_ids` rejects other dtypes.
"""

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from ut_keras.ops import int32, plain_array, private_api

# If a caller passes texts instead of ids, the error ends with this advice.
HOW_TO_USE_TEXTS = (
    'To use texts, load the run: run = ut_keras.load("FOLDER"), or make one from the model: '
    "run = SavedRun.of(model, problem, data_dir). Then call run.translate, run.generate or "
    "run.classify, or run.model.fit(run.dataset(pairs))."
)
HOW_TO_FILL = (
    "To replace missing values by 0, the padding, call fillna(0) of pandas or fill_null(0) of "
    'Polars. Then convert the result to the dtype "int32".'
)


def check_features(features: Any, names: Sequence[str] = ()) -> None:
    """Check that `features` is a dict with all given names as keys.

    Raises:
        ValueError: if `features` is not a dict or lacks a key.
    """
    if not isinstance(features, Mapping):
        first = features[0] if isinstance(features, list | tuple) and features else features
        if isinstance(first, str):
            raise ValueError(
                "features must be a dict from name to ids. "
                f"Received: the text {reprlib.repr(first)}. {HOW_TO_USE_TEXTS}"
            )
        shape = getattr(features, "shape", None)
        received = type(features).__name__ if shape is None else f"a tensor of shape {shape}"
        example = ", ".join(f'"{name}": [[3, 4, 1]]' for name in names or ("inputs",))
        raise ValueError(
            f"features must be a dict from name to ids, such as {{{example}}}. "
            f"Received: {received}. In fit, pass the dict as x and the targets as y."
        )
    if not set(names) <= set(features):
        raise ValueError(f"features must have the keys {names}. Received: {sorted(features)}.")


def known_rank(values: Any) -> int | None:
    """Return the rank of an array or a tensor. None: unknown, as for a list."""
    shape = getattr(values, "shape", None)
    if shape is None or isinstance(shape, tf.TensorShape):
        return None if shape is None else shape.rank
    return len(shape)


def known_batch_size(values: Any) -> int | None:
    """Return the size of the first axis of an array or tensor. None means unknown."""
    return values.shape[0] if known_rank(values) else None


def check_batch_sizes(features: Mapping[str, Any], names: Sequence[str]) -> None:
    """Check that the named features have the same batch size.

    The function skips features without a known batch size.

    Raises:
        ValueError: if the batch sizes differ.
    """
    shapes = {}
    for name in names:
        if known_rank(features.get(name)):
            shapes[name] = features[name].shape
    first = "targets" if "targets" in shapes else next(iter(shapes), "")
    for name, shape in shapes.items():
        if shape[0] is not None and shapes[first][0] not in (None, shape[0]):
            raise ValueError(
                f"{name} must have the batch size of {first}, {shapes[first][0]}. "
                f"Received: {shape[0]}."
            )


def as_ids(values: Any, name: str, size: int | None = None) -> tf.Tensor:
    """Return ids as an int32 tensor.

    Keras and TensorFlow accept some invalid ids without an error. Keras' embeddings truncate
    floats. A cast to int32 drops the higher bits of large ints. On a GPU, a gather returns zeros
    for an id out of range. This function rejects such ids.

    There is one exception. To build a user's loaded model, Keras calls the model with floats that
    have shapes, but no values. The function accepts these floats. If it raised an error, Keras
    would hide the error, and the loaded model would keep random weights.

    Args:
        values: int tensor, nested lists or any object that NumPy can read, of any shape.
        name: str, for the error message.
        size: int. Optional. The ids must be in [0, size). The function checks this only in eager
            mode.

    Raises:
        ValueError: if `values` are not ints, if an id is not in [0, size), or if the sequences have
            different lengths. Also if an array has masked values other than 0.
    """
    check_dense(values, name)
    values = plain_array.convert(values)
    if isinstance(values, np.ndarray):
        _check_objects(values, name)
        check_missing(values, name)
    try:
        ids = tf.convert_to_tensor(values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be sequences of the same length, padded with 0 on the right. "
            f"Received: {type(values).__name__}: {error}"
        ) from error
    if ids.dtype.is_floating and private_api.is_shape_inference():
        return tf.cast(ids, tf.int32)
    if ids.dtype == tf.string:
        raise ValueError(f"{name} must contain ids. Received: texts. {HOW_TO_USE_TEXTS}")
    # TensorFlow converts an empty list to floats.
    if not ids.dtype.is_integer and ids.shape.num_elements() != 0:
        raise ValueError(
            f"{name} must have an int dtype. Received: {ids.dtype.name}. "
            "For keras.Input, pass dtype='int32'."
        )
    if size is not None and tf.executing_eagerly() and tf.size(ids):
        _check_extremes(int(tf.reduce_min(ids)), int(tf.reduce_max(ids)), name, size)
    return int32.cast(ids)


def check_dense(values: Any, name: str) -> None:
    """Raise `ValueError` for a RaggedTensor or a SparseTensor of ids."""
    remedies = {
        tf.RaggedTensor: "Call its method to_tensor(). For a tf.data.Dataset, use padded_batch "
        "instead of ragged_batch.",
        tf.SparseTensor: "Convert it with tf.sparse.to_dense.",
    }
    for kind, remedy in remedies.items():
        if isinstance(values, kind):
            raise ValueError(
                f"{name} must be sequences of the same length, padded with 0 on the right. "
                f"Received: a {kind.__name__}. {remedy}"
            )


def check_missing(values: np.ndarray, name: str) -> None:
    """Raise `ValueError` for an array of floats in which NaN marks missing values."""
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError(f"{name} must contain ids. Received: missing values (NaN). {HOW_TO_FILL}")


def _check_objects(values, name):
    """Raise `ValueError` for an array of objects other than texts."""
    if values.dtype == object and values.size and not isinstance(values.flat[0], str | bytes):
        raise_objects(name, values.ravel().tolist())


def raise_objects(name: str, values: Sequence[Any]) -> NoReturn:
    """Raise `ValueError` for the values of an array of objects, such as lists of ids."""
    remedy = 'Convert it, for example with astype("int32").'
    if values and isinstance(values[0], list | tuple | np.ndarray):
        remedy = (
            "If it is an array of sequences, keras.utils.pad_sequences(list(…), padding='post') "
            "makes one array of them."
        )
    kinds = sorted({type(value).__name__ for value in values})
    if not {"NAType", "NoneType"}.isdisjoint(kinds):
        remedy = HOW_TO_FILL
    raise ValueError(
        f"{name} must contain arrays of ints. Received: an array of objects of the type "
        f"{' and '.join(kinds)}. {remedy}"
    )


def check_range(ids: np.ndarray, name: str, size: int, has_padding: bool = False) -> None:
    """Check that an int array contains only ids in [0, size).

    Args:
        ids: int array.
        name: str, for the error.
        size: int.
        has_padding: bool. Whether 0 is padding. The error about a negative id then says so, because
            other libraries mark padding by -100.

    Raises:
        ValueError: if an id is out of range.
    """
    if ids.dtype.kind in "iu" and ids.size:
        remedy = " Replace negative ids by 0, the padding." if has_padding and ids.min() < 0 else ""
        _check_extremes(ids.min(), ids.max(), name, size, remedy)


def _check_extremes(least, largest, name, size, remedy=""):
    """Raise `ValueError` unless the least and the largest id are in [0, size)."""
    for extreme in (least, largest):
        if not 0 <= extreme < size:
            raise ValueError(f"{name} must be ids in [0, {size}). Received: {extreme}.{remedy}")
