"""The test of the positions that a user's layer reads."""

import gc
import threading
import time
import weakref

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


class Failing(keras.layers.Layer):
    """A layer that raises an error when it is called."""

    def call(self, x):
        raise ValueError("no such input")


@pytest.mark.parametrize("before", [False, True])
def test_probe_restores_the_setting_after_an_error(before, caplog):
    tf.config.run_functions_eagerly(before)
    try:
        assert _probe(Failing()) == position_probe._UNKNOWN
        assert "no such input" in caplog.text
        assert tf.config.functions_run_eagerly() is before
    finally:
        tf.config.run_functions_eagerly(False)


class Slow(keras.layers.Layer):
    """A layer that records the setting of TensorFlow in each call."""

    def __init__(self):
        super().__init__()
        self.settings = set()

    def call(self, x):
        time.sleep(0.05)
        self.settings.add(tf.config.functions_run_eagerly())
        return x


class Starting(keras.layers.Layer):
    """A layer that starts a thread in its first call."""

    def __init__(self, thread):
        super().__init__()
        self.thread = thread

    def call(self, x):
        if self.thread.ident is None:
            self.thread.start()
            time.sleep(0.05)
        return x


def test_probes_in_two_threads_keep_the_setting_until_the_end():
    """If each probe restored the setting that it found, the setting would be wrong at the end."""
    slow = Slow()
    other = threading.Thread(target=_probe, args=[slow])
    _probe(Starting(other))
    other.join(60)
    assert slow.settings == {True}
    assert not tf.config.functions_run_eagerly()


def test_results_are_freed_with_their_layers():
    layer = FourierConvolution()
    _probe(layer)
    count, reference = len(position_probe._FOUND), weakref.ref(layer)
    del layer
    gc.collect()
    assert reference() is None and len(position_probe._FOUND) < count
