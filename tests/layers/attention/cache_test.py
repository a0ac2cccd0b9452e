"""Tests of the decoding caches of layers."""

import numpy as np
import pytest
import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib

STEPS, WIDTHS = 3, {"key": (2, 4)}


def _write_deeper(values):
    """Write values [B, 1, 8] of one column at the second step and all deeper steps."""
    size = cache_lib.CacheSize(values.shape[0] or tf.shape(values)[0], 1, 5)
    stores = cache_lib.start(WIDTHS, size, STEPS)
    layout = cache_lib.Layout(WIDTHS, cache_lib.window(tf.constant([2]), size))
    cache = cache_lib.LayerCache(stores, tf.constant(1), layout)
    cache.write("key", values, deeper=True)
    return cache.stores["key"]


@pytest.mark.parametrize("batch_size", [None, 3])
def test_write_at_deeper_steps_is_the_same_under_xla(batch_size):
    values = tf.constant(np.random.default_rng(0).normal(size=[3, 1, 8]), tf.float32)
    signature = [tf.TensorSpec([batch_size, 1, 8], tf.float32)]
    write = tf.function(_write_deeper, signature, autograph=False, jit_compile=True)
    found, expected = write(values), _write_deeper(values)
    np.testing.assert_array_equal(found, expected)
    # Columns of 4 numbers: 2 heads at 2 of 3 steps.
    assert np.count_nonzero(found) == 3 * 2 * 4 * 2
