"""A test that finds the positions which a user's layer reads.

    probe(layer, call, width)  ->  Reads(other_positions=True, later_positions=False, padding=True)

Layers of this library declare what they read. A user's layer declares nothing. The test calls the
layer with a sequence of random numbers, and with changed copies of this sequence. The outputs for
the sequence are H. The test compares outputs at the same position:

    each position as a sequence of its own: if an output is not H, the layer reads other positions
    the sequence with other numbers at its end: if an output before the end is not H, the layer
        reads later positions
    the sequence with a masked end, and the sequence without this end: if their outputs differ, the
        layer reads padding

Trainable weights have random values in the test, because a weight that starts at 0 would hide what
a layer reads. The test changes no Keras weight. A layer whose `call` changes a `tf.Variable` of its
own also changes it in the test.

A layer may read its weights in a `tf.function` of its own. A trace in the test would contain the
random values, and later calls would use it. So the test runs each `tf.function` without a trace.
"""

import contextlib
import logging
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ut_keras.ops import own_layers, private_api

_LENGTHS = (64, 8)  # a layer may have a maximum length
_LOG = logging.getLogger("ut_keras")
# Maps a layer to its result. Python removes the entry together with the layer.
_FOUND: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_LOCK = threading.RLock()  # reentrant, because a test of a layer may test a layer inside it


class Reads(NamedTuple):
    """What the output of a layer at a position depends on, besides this position."""

    other_positions: bool
    later_positions: bool  # the values after the position, but not their number
    padding: bool  # padding after the position; a layer that accepts a mask gets the padding mask


ONLY_ITS_POSITION = Reads(False, False, False)
# A layer that the test cannot call is used without a cache, and without padding.
_UNKNOWN = Reads(True, False, True)


def probe(layer: keras.layers.Layer, call: Callable[[Any, Any], Any], width: int) -> Reads:
    """Return what a layer reads. The result is computed once per layer.

    Args:
        layer: a layer that is built.
        call: function (x [B, S, D], mask bool [B, S]) -> [B, S, D] that calls the layer.
        width: int D.
    """
    if own_layers.are_all(layer):
        return ONLY_ITS_POSITION
    if layer not in _FOUND:
        _FOUND[layer] = _probe(layer, call, width)
    return _FOUND[layer]


def probe_signal(signal: keras.layers.Layer, width: int) -> Reads:
    """Return what a position signal reads besides the number of a position.

    Without a cache, a model passes no numbers, because positions count from 0. A search with a
    cache passes one position and its number, int32 [1]. A signal that ignores the number would add
    the signal of position 0 everywhere.

    Args:
        signal: a layer (x [B, S, D], positions int32 [S] or None) -> [B, S, D].
        width: int D.
    """

    def call(x, mask):
        if x.shape[1] > 1:
            return signal(x, None, training=False)
        columns = [
            signal(column[tf.newaxis], tf.constant([i]), training=False)
            for i, column in enumerate(x)
        ]
        return tf.concat(columns, axis=0)

    return probe(signal, call, width)


def _probe(layer, call, width):
    for length in _LENGTHS:
        try:
            # Keras warns of a Softmax over one position.
            with warnings.catch_warnings(), _without_traces():
                warnings.simplefilter("ignore")
                return _probe_length(layer, call, width, length)
        except Exception as error:  # any error of the user's layer
            last = " ".join(str(error).split())
    _LOG.warning(
        "The layer %s failed in the test of the positions that it reads: %s. Decoding therefore "
        "uses no cache and no padding.",
        layer.name,
        last,
    )
    return _UNKNOWN


def _probe_length(layer, call, width, length):
    random, before_end = np.random.RandomState(0), 5 * length // 8
    weights = [
        (weight, random.uniform(0.2, 1.0, weight.shape) / _scale(weight))
        for weight in layer.trainable_variables
    ]
    x = random.normal(size=[1, length, width])
    other_end = x.copy()
    other_end[:, before_end:] = random.normal(size=[1, length - before_end, width])
    is_real = np.arange(length)[np.newaxis] < before_end
    is_exact = tf.as_dtype(layer.compute_dtype).size > 2
    tolerance = 1e-3 if is_exact else 0.05
    # Inputs of the same shape differ less, for example by the rounding errors of an FFT.
    same_shape_tolerance = 1e-5 if is_exact else 0.02

    def run(x, mask):
        with keras.StatelessScope(weights):
            result = call(tf.cast(x, layer.compute_dtype), tf.constant(mask))
        return np.asarray(tf.cast(result, tf.float32))

    with tf.init_scope(), private_api.stop_recording(), tf.device("CPU"):
        weights = [(weight, tf.cast(value, weight.dtype)) for weight, value in weights]
        everywhere = run(x, np.ones_like(is_real))
        alone = run(x[0, :, np.newaxis], np.ones([length, 1], bool))
        before = run(other_end, np.ones_like(is_real))[:, :before_end]
        padded = run(x, is_real)[:, :before_end]
        short = run(x[:, :before_end], is_real[:, :before_end])
        again = run(x, np.ones_like(is_real))
    is_random = _differ(everywhere, again, same_shape_tolerance)
    return Reads(
        other_positions=_differ(everywhere.swapaxes(0, 1), alone, tolerance),
        later_positions=not is_random
        and _differ(everywhere[:, :before_end], before, same_shape_tolerance),
        padding=_differ(short, padded, tolerance),
    )


def _differ(one, other, tolerance):
    """Return whether two outputs differ by more than a share of the largest value."""
    if one.shape != other.shape:
        return True
    return not np.allclose(one, other, rtol=0, atol=tolerance * np.abs(one).max())


@contextlib.contextmanager
def _without_traces():
    """Return a context in which a `tf.function` runs as Python code, without tracing.

    TensorFlow has one setting for all threads. The lock lets only one thread change it at a time.
    If another thread calls a `tf.function` in the meantime, it also runs as Python code.
    """
    with _LOCK:
        before = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)
        try:
            yield
        finally:
            tf.config.run_functions_eagerly(before)


def _scale(weight):
    """Return a number by which the random values of a weight are divided."""
    return max(1, np.prod(weight.shape[:-1], dtype=int)) ** 0.5
