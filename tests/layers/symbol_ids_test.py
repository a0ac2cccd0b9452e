import numpy as np
import pytest
import tensorflow as tf

from ut_keras.layers import symbol_ids


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_takes_ints_of_every_size(dtype):
    ids = symbol_ids.as_ids(np.array([[3, 1]], dtype), "inputs")
    assert ids.dtype == tf.int32
    np.testing.assert_array_equal(ids, [[3, 1]])


def test_takes_empty_lists():
    assert symbol_ids.as_ids([[]], "inputs").shape == (1, 0)


@pytest.mark.parametrize("values", [[[3.7, 1.0]], np.ones([1, 2], "float16"), [[True]]])
def test_cuts_nothing_off(values):
    with pytest.raises(ValueError, match="inputs must be ids of an int type .* Received: "):
        symbol_ids.as_ids(values, "inputs")
