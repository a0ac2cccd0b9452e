import numpy as np
import pytest
import tensorflow as tf

from ut_keras.layers.basic import id_checks


def test_as_ids_rejects_texts_and_ragged_tensors():
    with pytest.raises(ValueError, match="inputs must contain ids. Received: texts. .*run.tran"):
        id_checks.as_ids(["a text"], "inputs")
    with pytest.raises(ValueError, match="padded.*Received: a RaggedTensor. .*to_tensor.*padded_b"):
        id_checks.as_ids(tf.ragged.constant([[3, 4], [5]]), "inputs")
    for texts in ("a text", ["a text"]):
        with pytest.raises(ValueError, match="Received: the text 'a text'. .*ut_keras.load"):
            id_checks.check_features(texts)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_as_ids_accepts_all_int_dtypes(dtype):
    ids = id_checks.as_ids(np.array([[3, 1]], dtype), "inputs")
    assert ids.dtype == tf.int32
    np.testing.assert_array_equal(ids, [[3, 1]])


def test_as_ids_accepts_empty_lists():
    assert id_checks.as_ids([[]], "inputs").shape == (1, 0)


@pytest.mark.parametrize("values", [[[3.7, 1.0]], np.ones([1, 2], "float16"), [[True]]])
def test_as_ids_rejects_floats_and_bools(values):
    with pytest.raises(ValueError, match="inputs must .*int.* Received: "):
        id_checks.as_ids(values, "inputs")


@pytest.mark.parametrize("worst", [-1, 8, 2**33 + 2])
def test_as_ids_rejects_ids_out_of_range(worst):
    with pytest.raises(ValueError, match=rf"inputs must be ids in \[0, 8\). Received: {worst}\."):
        id_checks.as_ids(np.array([[0, worst, 7]]), "inputs", 8)
    np.testing.assert_array_equal(id_checks.as_ids([[0, 7]], "inputs", 8), [[0, 7]])
    assert id_checks.as_ids([[]], "inputs", 8).shape == (1, 0)
