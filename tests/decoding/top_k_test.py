import numpy as np
import pytest
import tensorflow as tf

from ut_keras.decoding import top_k


@pytest.mark.parametrize("shape", [(3, 50), (2, 3, 5000), (1, 8193), (2, 8000)])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_matches_tensorflow(shape, k):
    random = np.random.RandomState(k)
    for x in (
        random.normal(size=shape),
        random.randint(0, 6, size=shape),  # many are equal
        np.where(random.uniform(size=shape) < 2 / shape[-1], 1.0, -np.inf),  # few are allowed
    ):
        x = tf.constant(x, tf.float32)
        values, indices = top_k.top_k(x, tf.constant(k))
        expected = tf.math.top_k(x, k)
        np.testing.assert_array_equal(values, expected.values)
        np.testing.assert_array_equal(indices, expected.indices)


def test_traces_with_unknown_sizes():
    function = tf.function(
        lambda x: top_k.top_k(x, 4), input_signature=[tf.TensorSpec([None, None, None])]
    )
    x = tf.random.stateless_normal([2, 3, 7000], [1, 2])
    np.testing.assert_array_equal(function(x)[1], tf.math.top_k(x, 4).indices)
