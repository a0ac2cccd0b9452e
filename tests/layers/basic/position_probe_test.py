"""The test of the positions that a user's layer reads."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras.layers.basic import position_probe

_EARLIER = (True, False, False)
_RANDOM = (True, False, True)


class Compiled(keras.layers.Layer):
    """A layer that reads its weight in a `tf.function` of its own."""

    def __init__(self, **options):
        super().__init__()
        self.function = tf.function(self.product, **options)

    def build(self, x_shape):
        self.kernel = self.add_weight(shape=(4, 4), name="kernel")

    def product(self, x):
        return tf.matmul(x, self.kernel)

    def call(self, x):
        return self.function(x)


class FourierConvolution(keras.layers.Layer):
    """A causal convolution whose rounding errors depend on all positions."""

    def build(self, x_shape):
        self.decay = self.add_weight(shape=(4,), initializer="ones", name="decay")

    def call(self, x):
        steps = tf.cast(tf.range(tf.shape(x)[1]), tf.float32)
        kernel = tf.exp(-tf.cast(self.decay, tf.float32)[:, tf.newaxis] * steps)
        length = [2 * tf.shape(x)[1]]
        channels = tf.cast(tf.linalg.matrix_transpose(x), tf.float32)
        product = tf.signal.rfft(channels, length) * tf.signal.rfft(kernel, length)
        result = tf.signal.irfft(product, length)[..., : tf.shape(x)[1]]
        return tf.cast(tf.linalg.matrix_transpose(result), x.dtype)


class RandomNumbers(keras.layers.Layer):
    """A layer that samples random numbers also at inference."""

    def call(self, x):
        return x + tf.random.normal(tf.shape(x), dtype=x.dtype)


def _probe(layer):
    layer.build([None, None, 4])
    return position_probe.probe(layer, lambda x, mask: layer(x), 4)


@pytest.mark.parametrize(
    "options",
    [{"input_signature": [tf.TensorSpec([None, None, 4])]}, {"reduce_retracing": True}],
)
def test_probe_leaves_no_trace_in_a_function_of_the_layer(options):
    """Such a trace would contain the random weights of the test."""
    layer = Compiled(**options)
    assert _probe(layer) == (False, False, False)
    for length in (64, 3):
        x = np.random.RandomState(0).normal(size=[1, length, 4]).astype("float32")
        np.testing.assert_allclose(layer(x), x @ layer.kernel.numpy(), rtol=1e-5, atol=1e-6)
    assert not tf.config.functions_run_eagerly()


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_rounding_errors_are_no_reading_of_later_positions(dtype):
    assert _probe(FourierConvolution(dtype=dtype)) == _EARLIER


def test_random_numbers_are_no_reading_of_later_positions():
    assert _probe(RandomNumbers()) == _RANDOM
