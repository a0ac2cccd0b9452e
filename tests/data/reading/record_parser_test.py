import pytest
import tensorflow as tf

from ut_keras.data.reading import readable, record_parser
from ut_keras.errors import DataError


@tf.function(autograph=False)
def _checked(rows):
    files = tf.constant([f"file {number}" for number in range(5)])[: rows.nrows()]
    with tf.control_dependencies([record_parser.check_ids(rows, "inputs", 6, files)]):
        return tf.identity(rows.flat_values)


@pytest.mark.parametrize(
    "rows", [[[], []], [[0, 5], [], [3]], [[5], []], [[], [0]]], ids=lambda rows: f"{rows}"
)
def test_check_ids_accepts_ids_and_empty_rows(rows):
    rows = tf.ragged.constant(rows, tf.int64)
    assert _checked(rows).shape == rows.flat_values.shape


@pytest.mark.parametrize(
    ("rows", "low", "high", "number"),
    [
        ([[6, 1]], 1, 6, 0),
        ([[], [5], [], [2, 7, 0, 9], [-3]], 0, 9, 3),
        ([[1, 2], [4, -1], [9]], -1, 4, 1),
        ([[1], [], [6]], 6, 6, 2),
    ],
)
def test_check_ids_names_the_first_bad_row(rows, low, high, number):
    message = f"Received: ids from {low} to {high} in file {number}\\."
    with pytest.raises(DataError, match=message), readable.errors():
        _checked(tf.ragged.constant(rows, tf.int64))
