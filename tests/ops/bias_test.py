import numpy as np
import pytest
import tensorflow as tf

from ut_keras.ops import bias


def _gradients(x, vector, upstream):
    with tf.GradientTape() as tape:
        tape.watch([x, vector])
        y = bias.add(x, vector)
    return y, *tape.gradient(y, [x, vector], upstream)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("shape", [(6, 5), (2, 3, 5), (0, 5)])
def test_add_and_gradients_match_numpy(shape, dtype):
    rng = np.random.default_rng(0)
    # Sums of small integers are exact.
    x, vector, upstream = (
        rng.integers(-9, 9, size).astype("float32") for size in (shape, (5,), shape)
    )
    tensors = [tf.constant(part, dtype) for part in (x, vector, upstream)]
    expected = (x + vector, upstream, upstream.reshape(-1, 5).sum(axis=0))
    for function in (_gradients, tf.function(_gradients, autograph=False)):
        for found, correct in zip(function(*tensors), expected, strict=True):
            np.testing.assert_array_equal(found.numpy().astype("float32"), correct)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_gradient_sums_thousands_of_vectors_in_16_bits(dtype, jit_compile):
    ones = tf.ones([16, 64, 3], dtype)
    function = tf.function(_gradients, autograph=False, jit_compile=jit_compile)
    _, _, of_bias = function(ones, tf.zeros([3], dtype), ones)
    np.testing.assert_array_equal(of_bias.numpy().astype("float32"), 1024.0)
