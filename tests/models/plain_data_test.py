"""Tests of the conversion of other libraries' data.

The classes of this file behave like the classes of pandas, Polars and torch.
"""

import collections
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras.models import plain_data


class _PandasObject:
    """Has the method of a pandas object that the conversion calls."""

    __module__ = "pandas"

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values


class _Readable:
    """An object that only NumPy can read, such as a `DataFrame` of Polars or a dataset of h5py."""

    def __array__(self, dtype=None, copy=None):
        return np.array([[3, 1]])


class _Tensor:
    """A tensor of torch with gradients. NumPy reads neither gradients nor bfloat16."""

    __module__ = "torch"

    def __init__(self, dtype, has_gradients=True):
        self.dtype, self.has_gradients = f"torch.{dtype}", has_gradients

    def detach(self):
        return _Tensor(self.dtype[6:], has_gradients=False)

    def cpu(self):
        return self

    def float(self):
        return _Tensor("float32", self.has_gradients)

    def __array__(self, dtype=None, copy=None):
        if self.has_gradients:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.array([1.5], self.dtype[6:])


def _objects(values):
    """Return an array of objects with one axis."""
    found = np.empty(len(values), object)
    found[:] = values
    return found


def test_pandas_objects_in_lists_and_named_tuples_become_arrays():
    given, batch = _PandasObject(np.array([1, 2])), collections.namedtuple("Batch", "x y")
    for data in ([given, {"a": given}], batch(given, {"a": given})):
        first, second = plain_data.plain(data)
        assert first is second["a"] is given.values


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[3, 1], [4, 1]], object), [[3, 1], [4, 1]]),  # a DataFrame of dtype "Int64"
        (_objects([[3, 1], [4, 1]]), [[3, 1], [4, 1]]),  # a Series of lists
        (np.array([0.5, 2], object), [0.5, 2.0]),
    ],
)
def test_numbers_in_pandas_objects_become_numbers(values, expected):
    found = plain_data.plain(_PandasObject(values))
    assert found.tolist() == expected and found.dtype == np.array(expected).dtype


@pytest.mark.parametrize(
    "values",
    [
        _objects([[3, 1], [4, 5, 1]]),
        np.array(["a", "b"], object),
        np.array([3, None], object),
        np.array([2**70], object),
    ],
)
def test_other_objects_stay_objects(values):
    """`check_kind` then raises an error with a remedy."""
    assert plain_data.plain(_PandasObject(values)) is values


def test_numbers_in_arrays_of_objects_become_numbers():
    for data in (np.array([[3, 1]], object), _objects([[3, 1]]), _objects([np.array([3, 1])])):
        found = plain_data.plain({"a": data})["a"]
        assert found.tolist() == [[3, 1]] and found.dtype == int


def test_objects_that_only_numpy_reads_become_arrays():
    for found in (plain_data.plain({"a": _Readable()})["a"], plain_data.as_array(_Readable())):
        assert isinstance(found, np.ndarray) and found.tolist() == [[3, 1]]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_tensors_of_torch_become_arrays(dtype):
    expected = "float32" if dtype == "bfloat16" else dtype
    for convert in (plain_data.plain, plain_data.as_array):
        found = convert(_Tensor(dtype))
        assert found.tolist() == [1.5] and found.dtype == expected


def test_structured_array_becomes_a_dict():
    values = np.zeros(2, [("inputs", "i4", (3,)), ("targets", "i4")])
    values["inputs"][1], values["targets"][1] = 5, 7
    found = plain_data.plain(values)
    assert found["inputs"].tolist() == [[0] * 3, [5] * 3] and found["targets"].tolist() == [0, 7]


def test_masked_values_are_rejected():
    ids = np.ma.masked_equal([[3, -1]], -1)
    with pytest.raises(ValueError, match=r"masked array with 1 of them\. .*filled\(0\)"):
        plain_data.plain({"inputs": ids})
    found = plain_data.plain(np.ma.masked_equal([[3, 0]], 0))
    assert type(found) is np.ndarray and found.tolist() == [[3, 0]]


def test_other_data_stay_unchanged():
    splits = type("DatasetDict", (dict,), {"__module__": "datasets.dataset_dict"})()
    column = type("Column", (list,), {"__module__": "datasets.arrow_dataset"})([1])
    loader = types.SimpleNamespace()
    tensors = [tf.constant([1]), tf.ragged.constant([[1]]), tf.sparse.from_dense([[1]])]
    arrays = [np.array([1]), np.array(["a"], object)]
    dataset = tf.data.Dataset.range(3)
    for data in (splits, column, loader, *tensors, *arrays, dataset, None, "text", 3):
        assert plain_data.plain(data) is data


def test_lists_of_numbers_are_not_read():
    """A list can have millions of ids. The error for such a list must come at once."""
    for data in ([3, 4], [[3, 4], [], [5]], ["a", "b"], [[["a"]]], []):
        assert plain_data.plain({"inputs": data})["inputs"] is data
    found = plain_data.plain([[1, 2], [_Readable()]])
    assert isinstance(found[1][0], np.ndarray)


def test_objects_of_pandas_without_values_stay_unchanged():
    """`read_csv(…, chunksize=…)` returns an iterator of the class `TextFileReader`."""
    reader = type("TextFileReader", (), {"__module__": "pandas.io.parsers.readers"})()
    assert plain_data.plain(reader) is reader


def test_plain_batches_have_the_settings_of_the_inner_dataset():
    class Endless(keras.utils.PyDataset):
        num_batches = None

        def __getitem__(self, index):
            return {"inputs": _Readable(), "index": index}

    found = plain_data.PlainBatches(Endless(workers=3, max_queue_size=7))
    assert (found.workers, found.max_queue_size, found.num_batches) == (3, 7, None)
    assert found[4]["index"] == 4 and isinstance(found[4]["inputs"], np.ndarray)
