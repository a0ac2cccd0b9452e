"""Reads texts and pairs of texts from the containers that a caller may pass.

    texts(["one", "two"])                                       ->  ["one", "two"]
    pairs([("one", "eins")])                                    ->  (["one"], ["eins"])
    pairs([{"inputs": "one", "targets": "eins"}])               ->  (["one"], ["eins"])
    pairs([{"en": "one", "de": "eins"}], "en", "de")            ->  (["one"], ["eins"])

Iterating over some containers does not yield rows. A dict yields its keys, a `pandas.DataFrame` the
names of its columns, and a `str` its characters. All of these are texts and could be mistaken for
rows, so the functions reject such containers.
"""

import numbers
import re
import reprlib
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np
import tensorflow as tf

_NO_ROWS = (str, bytes, bytearray, memoryview, Mapping, Set)
_COLUMNS = ("inputs", "targets")
_EXPECTED = (
    "pairs must be a list of (source, target), or of dicts with 'inputs' and 'targets'; source= "
    "and target= name other columns."
)


def texts(values: Any) -> list[str]:
    """Return the texts of a list, an array with one axis, or another iterable of str.

    Raises:
        ValueError: for other containers, or if a text is not a str of valid Unicode characters.
    """
    if not _has_rows(values):
        raise ValueError(f"texts must be a list of str. Received: {_shown(values)}.")
    found = list(values)
    for text in found:
        _check_text(text)
    return found


def pairs(
    values: Any, source: str | None = None, target: str | None = None
) -> tuple[list[str], list[str]]:
    """Return the sources and the targets of pairs of texts.

    Args:
        values: iterable of (source, target), or of dicts. It may be a list, a generator, a
            `datasets.Dataset`, or a `tf.data.Dataset` of strings, batched or not.
        source, target: str, the names of the columns if the rows are dicts. If the only value of a
            row is a dict, as in {"translation": {"en": …, "de": …}}, this inner dict is read. By
            default, the rows must have exactly the columns "inputs" and "targets".

    Raises:
        ValueError: for other containers, if there are no pairs, or if a text is not a str.
    """
    for name, value in (("source", source), ("target", target)):
        if not isinstance(value, str | None):
            raise ValueError(f"{name} must be the name of a column. Received: {value!r}.")
    rows = [_pair(row, source, target) for row in _rows(values)]
    if not rows:
        raise ValueError(f"{_EXPECTED} Received: none.")
    sources, targets = zip(*rows, strict=True)
    return texts(sources), texts(targets)


def _rows(values):
    """Yield the rows of a container of pairs."""
    if isinstance(values, tf.data.Dataset):
        yield from _rows_of_dataset(values)
        return
    # `dict.items()` is allowed, because it has an order, although Python regards it as a `Set`.
    if isinstance(values, ItemsView):
        yield from values
        return
    if not _has_rows(values, most_axes=2) or _is_two_columns(values):
        raise ValueError(f"{_EXPECTED} Received: {_shown(values)}.")
    yield from values


def _is_two_columns(values):
    """Whether a tuple is (all sources, all targets), as x and y of `fit`."""
    if not isinstance(values, tuple) or len(values) != 2:
        return False
    return all(isinstance(value, list | np.ndarray) for value in values)


def _rows_of_dataset(dataset):
    """Yield the rows of a `tf.data.Dataset`. Its elements are rows or batches of rows."""
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "pairs must be finite. Received: a tf.data.Dataset that repeats without end."
        )
    specs = tf.nest.flatten(dataset.element_spec)
    ranks = {spec.shape.rank if isinstance(spec, tf.TensorSpec) else None for spec in specs}
    if ranks == {1}:
        dataset = dataset.unbatch()
    elif ranks != {0}:
        raise ValueError(f"{_EXPECTED} Received: a tf.data.Dataset of {dataset.element_spec}.")
    yield from dataset


def _pair(row, source, target):
    """Return (source, target) of a row, which may be a dict."""
    if _is_pair(row) and all(isinstance(part, Mapping) for part in row):
        row = {**row[0], **row[1]}  # (features, targets), the form that Keras uses
    fields = getattr(row, "_fields", ())  # the names in a namedtuple, as from `df.itertuples()`
    if set(_names(source, target)) <= set(fields):
        row = row._asdict()
    if isinstance(row, Mapping):
        return _columns(row, source, target)
    if not _is_pair(row):
        raise ValueError(f"{_EXPECTED} Received: {_shown(row)}.")
    if source or target:
        raise ValueError(
            "source and target must be None, unless pairs are dicts. "
            f"Received: source={source!r}, target={target!r}, {_shown(row)}."
        )
    return tuple(map(_as_str, row))


def _names(source, target):
    """Return the names of the two columns."""
    return (source or _COLUMNS[0], target or _COLUMNS[1])


def _columns(row, source, target):
    if len(row) == 1 and isinstance(only := next(iter(row.values())), Mapping):
        row = only
    wanted = _names(source, target)
    is_chosen = source is not None or target is not None
    if not row.keys() >= set(wanted) or (len(row) != 2 and not is_chosen):
        expected = _EXPECTED
        if is_chosen:
            expected = f"pairs must have the columns {wanted[0]!r} and {wanted[1]!r}."
        raise ValueError(f"{expected} Received: {', '.join(map(repr, row)) or 'an empty dict'}.")
    return tuple(_as_str(row[name]) for name in wanted)


def _is_pair(row):
    is_row = isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)
    return is_row and len(row) == 2


def _has_rows(values, most_axes=1):
    """Return whether iterating yields rows.

    A `DataFrame` has two axes, and iterating over it yields names.
    """
    if isinstance(values, _NO_ROWS) or not isinstance(values, Iterable):
        return False
    axes = getattr(values, "ndim", 1)
    is_frame = hasattr(values, "columns") and axes != 1
    return 0 < axes <= most_axes and not is_frame


def _as_str(value):
    """Return a scalar string tensor as str, and other values unchanged."""
    if tf.is_tensor(value) and value.dtype == tf.string and not value.shape.rank:
        return value.numpy().decode("utf-8", "surrogateescape")
    return value


def _check_text(text):
    if isinstance(text, numbers.Number) and text != text:  # pandas marks a missing text by NaN
        raise ValueError(
            "A text must be a str. Received: nan. If it is a missing value of a DataFrame, call "
            "df.dropna() first."
        )
    if isinstance(text, numbers.Number):
        raise ValueError(
            f"A text must be a str. Received: {text}. To use this number as a text, pass '{text}'."
        )
    if not isinstance(text, str) or re.search("[\ud800-\udfff]", text):
        raise ValueError(
            f"A text must be a str of valid Unicode characters. Received: {reprlib.repr(text)}."
        )


def _shown(value):
    """Return a text for errors that shows a container: its names, or its beginning."""
    if isinstance(value, Mapping):
        names: Iterator[Any] = iter(value)
    elif hasattr(value, "columns") and hasattr(value, "ndim"):
        names = iter(value.columns)
    else:
        return reprlib.repr(value)
    return f"a {type(value).__name__} of {', '.join(map(reprlib.repr, names))}"
