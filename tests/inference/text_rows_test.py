"""Tests with texts and pairs of texts in containers that callers use."""

import collections
import csv
import io
import re

import numpy as np
import pytest
import tensorflow as tf

from ut_keras.inference import text_rows

SOURCES, TARGETS = ["one dog", "two", "three"], ["ein Hund", "zwei", "drei"]
PAIRS = list(zip(SOURCES, TARGETS, strict=True))
OURS = [{"inputs": source, "targets": target} for source, target in PAIRS]
EN_DE = [{"en": source, "de": target} for source, target in PAIRS]
BY_NAME = {"inputs": SOURCES, "targets": TARGETS}
Row = collections.namedtuple("Row", ["de", "en"])


class Column:
    """An iterable of rows that is not a list, like `datasets.Column`."""

    def __init__(self, rows):
        self._rows = rows

    def __getitem__(self, key):
        return self._rows[key]

    def __iter__(self):
        return iter(self._rows)

    def __len__(self):
        return len(self._rows)


class Frame:
    """A table that iterates over the names of its columns, like `pandas.DataFrame`."""

    ndim = 2

    def __init__(self, columns):
        self.columns = list(columns)

    def __iter__(self):
        return iter(self.columns)


def _of_tensors(values=None):
    return tf.data.Dataset.from_tensor_slices(values or (SOURCES, TARGETS))


TAKEN = {
    "list": lambda: PAIRS,
    "lists": lambda: [list(pair) for pair in PAIRS],
    "generator": lambda: (pair for pair in PAIRS),
    "zip": lambda: zip(SOURCES, TARGETS, strict=True),
    "named tuples": lambda: [Row(*pair) for pair in PAIRS],
    "array": lambda: np.array(PAIRS),
    "items of a dict": lambda: dict(PAIRS).items(),
    "dicts": lambda: OURS,
    "dicts in another order": lambda: [dict(reversed(row.items())) for row in OURS],
    "column of dicts": lambda: Column(OURS),
    "ordered dicts": lambda: map(collections.OrderedDict, OURS),
    "dicts of numpy": lambda: [{name: np.str_(row[name]) for name in row} for row in OURS],
    "dicts of tensors": lambda: [{name: tf.constant(row[name]) for name in row} for row in OURS],
    "features and targets": lambda: [({"inputs": s}, {"targets": t}) for s, t in PAIRS],
    "tf.data": _of_tensors,
    "batches": lambda: _of_tensors().batch(2),
    "tf.data of dicts": lambda: _of_tensors(BY_NAME),
    "batches of dicts": lambda: _of_tensors(BY_NAME).batch(2),
    "batches of features and targets": lambda: _of_tensors(
        ({"inputs": SOURCES}, {"targets": TARGETS})
    ).batch(2),
    "elements of tf.data": lambda: iter(_of_tensors()),
}


@pytest.mark.parametrize("make", TAKEN.values(), ids=TAKEN)
def test_pairs_reads(make):
    assert text_rows.pairs(make()) == (SOURCES, TARGETS)


CHOSEN = {
    "dicts": lambda: EN_DE,
    "with another column": lambda: [{"id": "7", **row} for row in EN_DE],
    "in a dict": lambda: Column([{"translation": row} for row in EN_DE]),
    "tf.data": lambda: _of_tensors({"en": SOURCES, "de": TARGETS}),
    "batches": lambda: _of_tensors({"en": SOURCES, "de": TARGETS}).batch(2),
    "csv": lambda: csv.DictReader(["en,de", *map(",".join, PAIRS)]),
}


@pytest.mark.parametrize("make", CHOSEN.values(), ids=CHOSEN)
def test_pairs_chooses_columns(make):
    assert text_rows.pairs(make(), "en", "de") == (SOURCES, TARGETS)
    assert text_rows.pairs(make(), "de", "en") == (TARGETS, SOURCES)
    with pytest.raises(ValueError, match=".*'fr'.*'de'.* Received: .*'en', 'de'"):
        text_rows.pairs(make(), "fr", "de")


def test_pairs_reads_named_tuples_by_name():
    """`itertuples` of a DataFrame yields such tuples, in the order of the columns."""
    reversed_row = collections.namedtuple("Pandas", ["targets", "inputs"])
    rows = [reversed_row(target, source) for source, target in PAIRS]
    assert text_rows.pairs(rows) == (SOURCES, TARGETS)
    assert text_rows.pairs(rows, "targets", "inputs") == (TARGETS, SOURCES)


def test_pairs_chooses_one_column():
    rows = [{"inputs": source, "de": target} for source, target in PAIRS]
    assert text_rows.pairs(rows, target="de") == (SOURCES, TARGETS)


REJECTED = {
    "dicts of other names": (lambda: EN_DE, "'en', 'de'"),
    "column of dicts": (lambda: Column([{"translation": row} for row in EN_DE]), "'en', 'de'"),
    "a third column": (lambda: [{"id": "7", **OURS[0]}], "'id', 'inputs', 'targets'"),
    "a later row": (lambda: [*OURS, EN_DE[0]], "'en', 'de'"),
    "tf.data of dicts": (lambda: _of_tensors({"a": SOURCES, "b": TARGETS}), "'a', 'b'"),
    "dict of columns": (lambda: BY_NAME, "a dict of 'inputs', 'targets'"),
    "dict of splits": (
        lambda: collections.UserDict({"train": OURS, "test": OURS}),
        "a UserDict of 'train', 'test'",
    ),
    "dict from source to target": (lambda: dict(PAIRS[1:]), "a dict of 'two', 'three'"),
    "frame": (lambda: Frame(["ab", "cd"]), "a Frame of 'ab', 'cd'"),
    "columns": (lambda: (SOURCES[:2], TARGETS[:2]), r"\(\['one dog', 'two'\]"),
    "arrays of columns": (lambda: (np.array(SOURCES[:2]), np.array(TARGETS[:2])), r"\(array"),
    "str": (lambda: "ab", "'ab'"),
    "bytes": (lambda: b"ab", "b'ab'"),
    "list of str": (lambda: ["ab", "cd"], "'ab'"),
    "list of bytes": (lambda: [b"ab"], "b'ab'"),
    "sets": (lambda: [set(PAIRS[0])], "{'"),
    "set of pairs": (lambda: set(PAIRS), "{"),
    "three columns": (lambda: [("a", "b", "c")], r"\('a', 'b', 'c'\)"),
    "array of another shape": (lambda: np.array([PAIRS]), "array"),
    "number": (lambda: 7, "7"),
    "none": (lambda: [], "none"),
    "pairs of bytes": (lambda: [(b"a", b"b")], "b'a'"),
    "pairs of numbers": (lambda: [("a", 1)], "1"),
    "without an end": (lambda: _of_tensors().repeat(), "a tf.data.Dataset that repeats"),
    "batches of batches": (
        lambda: _of_tensors().batch(2).batch(2),
        "a tf.data.Dataset of .*TensorSpec",
    ),
}


@pytest.mark.parametrize("make, received", REJECTED.values(), ids=REJECTED)
def test_pairs_rejects(make, received):
    with pytest.raises(ValueError, match=f" Received: {received}") as error:
        text_rows.pairs(make())
    assert "\n" not in str(error.value)


def test_pairs_rejects_names_without_dicts():
    with pytest.raises(ValueError, match="source='en', target=None"):
        text_rows.pairs(PAIRS, source="en")
    with pytest.raises(ValueError, match="target must be .* Received: 1"):
        text_rows.pairs(PAIRS, target=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SOURCES,
        lambda: tuple(SOURCES),
        lambda: iter(SOURCES),
        lambda: Column(SOURCES),
        lambda: np.array(SOURCES),
        lambda: np.array(SOURCES, object),
        lambda: dict(zip(TARGETS, SOURCES, strict=True)).values(),
        lambda: map(str.strip, io.StringIO("\n".join(SOURCES))),
    ],
)
def test_texts_reads(make):
    assert text_rows.texts(make()) == SOURCES


@pytest.mark.parametrize(
    "values, received",
    [
        ("one", "'one'"),
        (b"one", "b'one'"),
        (bytearray(b"one"), "bytearray"),
        ({"one": "eins"}, "a dict of 'one'"),
        (collections.Counter(["one"]), "a Counter of 'one'"),
        ({"one"}, "{'one'}"),
        (Frame(["one"]), "a Frame of 'one'"),
        (np.array("one"), "array"),
        (np.array([["one"]]), "array"),
        (tf.constant(["one"]), "<tf.Tensor"),
        ([{"inputs": "one"}], "{'inputs': 'one'}"),
        (None, "None"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_texts_rejects(values, received):
    with pytest.raises(ValueError, match=f" Received: {re.escape(received)}") as error:
        text_rows.texts(values)
    assert "\n" not in str(error.value)


def test_pairs_reads_hugging_face_datasets():
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    ours = datasets.Dataset.from_dict(BY_NAME)
    forms = [ours, ours.to_iterable_dataset(), ours.with_format("numpy"), ours.with_format("tf")]
    forms += [ours.to_tf_dataset(batch_size=2), ours.to_tf_dataset()]
    forms += [ours.to_tf_dataset(columns="inputs", label_cols="targets", batch_size=2)]
    for form in forms:
        assert text_rows.pairs(form) == (SOURCES, TARGETS)
    nested = datasets.Dataset.from_list([{"translation": row} for row in EN_DE])
    for form in (nested, nested["translation"], nested.to_iterable_dataset()):
        assert text_rows.pairs(form, "en", "de") == (SOURCES, TARGETS)
        with pytest.raises(ValueError, match="Received: 'en', 'de'"):
            text_rows.pairs(form)
    with pytest.raises(ValueError, match="a DatasetDict of 'train'"):
        text_rows.pairs(datasets.DatasetDict({"train": ours}))


@pytest.mark.parametrize("missing", [float("nan"), np.float32("nan")])
def test_missing_text_of_a_data_frame_raises_with_remedy(missing):
    with pytest.raises(ValueError, match=r"must be a str\. Received: nan\. .*df\.dropna\(\)"):
        text_rows.pairs([("one", missing)])


@pytest.mark.parametrize("number", [1, 1.5, np.int64(1)])
def test_number_as_a_text_raises_an_error_that_shows_the_text(number):
    for rows in ([("one", number)], [{"inputs": "one", "targets": number}]):
        with pytest.raises(ValueError, match=f"must be a str. .*number as a text, pass '{number}'"):
            text_rows.pairs(rows)
