import numpy as np
import pytest
import tensorflow as tf

from ut_keras.ops import int32


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("compiled", [False, True])
def test_cast_keeps_ids_in_range(dtype, compiled):
    ids = tf.constant([0, 1, 100], dtype)
    result = tf.function(int32.cast, jit_compile=compiled)(ids)
    assert result.dtype == tf.int32
    np.testing.assert_array_equal(result, [0, 1, 100])


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int64", 2**32 + 5, 2**31 - 1),
        ("int64", 2**31, 2**31 - 1),
        ("int64", -(2**32) + 5, -(2**31)),
        ("uint32", 2**32 - 1, 2**31 - 1),
        ("uint64", 2**40 + 1, 2**31 - 1),
    ],
)
def test_cast_limits_ids_out_of_range(dtype, value, expected):
    assert int32.cast(tf.constant(np.array([value], dtype))).numpy() == [expected]
