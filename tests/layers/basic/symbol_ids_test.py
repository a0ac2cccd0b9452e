import numpy as np
import pytest
import tensorflow as tf

from ut_keras.layers.basic import symbol_ids


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


@pytest.mark.parametrize("worst", [-1, 8, 2**33 + 2])
def test_ids_out_of_range(worst):
    with pytest.raises(ValueError, match=rf"inputs must be ids in \[0, 8\). Received: {worst}\."):
        symbol_ids.as_ids(np.array([[0, worst, 7]]), "inputs", 8)
    np.testing.assert_array_equal(symbol_ids.as_ids([[0, 7]], "inputs", 8), [[0, 7]])
    assert symbol_ids.as_ids([[]], "inputs", 8).shape == (1, 0)
