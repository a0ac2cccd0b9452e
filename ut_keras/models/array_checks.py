"""Checks of arrays of ids before `fit`, `evaluate` and `predict` compute a batch."""

import logging
import reprlib
import types
from collections.abc import Container, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from ut_keras.data import features
from ut_keras.decoding.beam_search import EOS
from ut_keras.layers.basic import id_checks
from ut_keras.models import plain_data
from ut_keras.ops import plain_array

_LOG = logging.getLogger("ut_keras")
_HOW_TO_NUMBER_LABELS = (
    "To number the labels from 0: names, y = np.unique(y, return_inverse=True). The label of the "
    "class i is then names[i]."
)


def first_batch(x: Any, y: Any = None, weights: Any = None) -> tuple[Any, Any, Any]:
    """Return the arguments of `fit`, or the first batch if `x` is a `PyDataset`.

    Other datasets may give each batch only once, so this function does not read their batches.
    See `first_batches`.

    Args:
        x: the features or a dataset.
        y: the targets, or None.
        weights: the sample weights, or None.

    Returns:
        (x, y, weights). Tensors are converted to arrays, also the tensors in a dict `x`.
    """
    if isinstance(x, keras.utils.PyDataset) and x.num_batches:
        x, y, weights = keras.utils.unpack_x_y_sample_weight(x[0])
    if isinstance(x, Mapping):
        x = {name: plain_data.as_array(value) for name, value in x.items()}
    return x, plain_data.as_array(y), plain_data.as_array(weights)


def single_outputs(data: Any) -> tuple[Any, Any, Any]:
    """Return a batch with tensors as targets and weights.

    Keras also accepts lists, tuples and dicts of targets and weights, because a model can have
    several outputs. The function returns the only element of such a container.

    Raises:
        ValueError: if a container has several elements, because the model has a single output.
    """
    x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
    return x, single("y", y), single("sample_weight", weights)


def single(name: str, values: Any) -> Any:
    """Return the only element of a list, tuple or dict. Return other values unchanged."""
    if not isinstance(values, list | tuple | Mapping):
        return values
    found = keras.tree.flatten(values)
    if len(found) != 1:
        raise ValueError(
            f"{name} must be an array, such as {_array_of(name, values)}. In Keras, a list has "
            f"one element for each output, and the model has a single output. Received: a "
            f"{type(values).__name__} with {len(found)} elements."
        )
    return found[0]


def check_kind(
    name: str, data: Any, are_labels: bool = False, read_features: Container[str] | None = None
) -> None:
    """Raise `ValueError` if data of `fit` contain texts or other objects, not ids.

    Args:
        name: str, "x" or "y".
        data: this argument of `fit`, `evaluate` or `predict`.
        are_labels: bool. Whether the data are class labels. The error about texts then has another
            remedy.
        read_features: names of the features that the model reads, or None for all. Others of a
            `tf.data.Dataset` may be objects, such as the bytes of the original texts, or tuples.
    """
    _check_source(name, data)
    remedy = _HOW_TO_NUMBER_LABELS if are_labels else id_checks.HOW_TO_USE_TEXTS
    values = {None: data, **data} if isinstance(data, Mapping) else {None: data}
    for key, value in values.items():
        if plain_array.is_from(plain_data.HUGGING_FACE, value):
            kind = type(value).__name__
            first_step = "Load the data without streaming. " if "Iterable" in kind else ""
            raise ValueError(
                f"{name} must contain arrays. Received: datasets.{kind} of Hugging Face. "
                f'{first_step}columns = dataset.with_format("numpy")[:] is a dict of arrays for '
                "x, and columns['targets'] is an array for y."
            )
        is_objects = isinstance(value, np.ndarray) and value.dtype.kind in "OSU"
        if is_objects:
            value = value.ravel().tolist()
        first = value
        while isinstance(first, list | tuple) and first:
            first = first[0]
        if isinstance(first, str):
            raise ValueError(
                f"{name} must contain ids. Received: the text {reprlib.repr(first)}. {remedy}"
            )
        if read_features is not None and key is not None and key not in read_features:
            continue
        if is_objects:
            id_checks.raise_objects(name, value)
        if key is not None and isinstance(value, list | tuple):
            _raise_list(f"{name}[{key!r}]", value)


def _check_source(name, data):
    """Raise `ValueError` for an iterator, or for a dataset of torch.

    Keras' own error does not name the argument or a remedy.
    """
    kind = type(data).__name__
    if isinstance(data, Iterator) and not isinstance(data, types.GeneratorType):
        raise ValueError(
            f"{name} must be arrays, a dataset or a generator. Received: the iterator {kind}. To "
            f"convert an iterator, pass (batch for batch in {name})."
        )
    if plain_array.is_from(("torch.utils.data.dataset",), data):
        raise ValueError(
            f"{name} must be arrays or a DataLoader of torch. Received: {kind}. To convert a "
            f"dataset of torch, pass DataLoader({name}, batch_size=64)."
        )


def _raise_list(name, values):
    """Raise `ValueError` for a list of ids in a dict."""
    raise ValueError(
        f"{name} must be an array, such as {_array_of(name, values)}. "
        f"Received: a {type(values).__name__} with {len(values)} elements."
    )


def _array_of(name, values):
    """Return the Python code that makes an array of a list or dict of sequences."""
    lengths = {len(value) for value in values if isinstance(value, list | tuple | np.ndarray)}
    is_ragged = len(lengths) > 1
    return (
        f"keras.utils.pad_sequences({name}, padding='post')" if is_ragged else f"np.array({name})"
    )


def check_targets(y: Any, must_be_dense: bool = False) -> None:
    """Raise `ValueError` if the targets are missing.

    Args:
        y: the targets.
        must_be_dense: bool. Whether to raise an error for a RaggedTensor or a SparseTensor.
    """
    if y is None:
        raise ValueError(
            "y must be the targets, as in fit(features, features['targets']); a dataset must yield "
            "(features, targets). Received: None."
        )
    if must_be_dense:
        id_checks.check_dense(y, "y")


def check(
    specs: Mapping[str, features.FeatureSpec],
    x: Mapping[str, Any],
    y: Any = None,
    reads_targets: bool = True,
) -> None:
    """Check the arrays among the data of `fit`.

    TensorFlow raises an error for an id out of range only on a CPU, and only without XLA. If a
    feature seems to be padded on the left, a log line says so: `generate` begins at position 0, but
    training would begin at a later position. Another log line reports a `y` that differs from the
    feature `targets`. Keras' tutorials shift one of the two by a position. ut_keras' models shift
    the decoder input themselves. A third log line reports inputs of a language model.

    Args:
        specs: dict from the names of the model's features to `FeatureSpec`.
        x: dict from name to array, tensor or others.
        y: the targets, or None.
        reads_targets: bool. Whether the model reads the feature "targets". An encoder does not.

    Raises:
        ValueError: if an id is out of range or missing. Also if the arrays have different numbers
            of examples, or the targets do not have the shape of the feature "targets". On a GPU,
            TensorFlow does not raise an error for such targets.
    """
    if "inputs" in x and "inputs" not in specs:
        _LOG.warning(
            "The model does not read the feature 'inputs'. It is a language model of 'targets', "
            "because it was made without a vocabulary size of 'inputs'."
        )
    given = {name: ids for name in specs if isinstance(ids := x.get(name), np.ndarray)}
    for name, ids in given.items():
        is_symbol = specs[name].modality == "symbol"
        id_checks.check_missing(ids, name)
        id_checks.check_range(ids, name, specs[name].vocab_size, has_padding=is_symbol)
        if is_symbol and is_padded_on_left(ids):
            _LOG.warning(
                "%s should be padded with 0 on the right. Received: sequences that begin with 0. "
                "Use keras.utils.pad_sequences(..., padding='post').",
                name,
            )
    id_checks.check_batch_sizes({**given, "y": y}, [*given, "y"])
    if isinstance(y, np.ndarray):
        is_symbol = specs["targets"].modality == "symbol"
        id_checks.check_missing(y, "y")
        id_checks.check_range(y, "targets", specs["targets"].vocab_size, has_padding=is_symbol)
        targets = given.get("targets")
        if not reads_targets or targets is None:
            return
        if y.shape != targets.shape and is_symbol:
            raise ValueError(
                f"y must have the shape of the feature 'targets', {targets.shape}. "
                f"Received: {y.shape}."
            )
        if _have_other_ids(y, targets):
            _LOG.warning(
                "y should have the same ids as the feature 'targets', or 0 at positions without "
                "loss. Received: other ids. The model shifts the decoder input by one position "
                "itself, so do not shift either array."
            )


def check_ends(specs: Mapping[str, features.FeatureSpec], x: Any) -> None:
    """Log a warning if the targets of `fit` contain no EOS.

    `generate` stops only after EOS, and such a model does not learn to predict EOS. Language models
    are not checked, because their examples may be parts of a long text.

    Args:
        specs: as for `check`.
        x: the data of `fit`.
    """
    ids = x.get("targets") if isinstance(x, Mapping) else None
    is_symbol = specs["targets"].modality == "symbol" and "inputs" in specs
    if is_symbol and isinstance(ids, np.ndarray) and ids.any() and not (ids == EOS).any():
        _LOG.warning(
            "The targets should end with EOS, the id %d, before the padding. Received: targets "
            "without EOS. generate stops only after EOS, so its outputs would have the maximum "
            "length.",
            EOS,
        )


def _have_other_ids(y, targets):
    """Return whether the ids of `y` differ from `targets` at positions with loss."""
    return y.shape == targets.shape and bool(((y != targets) & (y != 0)).any())


def is_padded_on_left(ids: np.ndarray) -> bool:
    """Return whether some sequences [S] begin with 0, and none ends with 0.

    The argument is an array [B, S]. Sequences of zeros do not count.
    """
    if ids.ndim != 2:
        return False
    ids = ids[ids.any(axis=1)]
    return bool((ids[:, :1] == 0).any() and (ids[:, -1:] != 0).all())
