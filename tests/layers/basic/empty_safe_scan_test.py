"""`empty_safe_scan` gives the states of a recurrence for any length, also for an empty sequence."""

import numpy as np
import pytest
import tensorflow as tf

from ut_keras.layers.basic import empty_safe_scan


@pytest.mark.parametrize("jit_compile", [False, True])
def test_scan_of_any_length(jit_compile):
    def run(x):
        start = tf.ones([tf.shape(x)[1], 2])
        states = empty_safe_scan.scan(lambda state, now: 2 * state + now, x, start)
        # XLA cannot repeat a single state if it does not know the number of states.
        return tf.repeat(tf.transpose(states, [1, 0, 2]), 2, axis=0)

    signature = [tf.TensorSpec([None, None, 2])]
    run = tf.function(run, signature, autograph=False, jit_compile=jit_compile)
    for length in (3, 1, 0):
        x = np.arange(length * 6, dtype=np.float32).reshape([length, 3, 2])
        state, expected = np.ones([3, 2]), np.zeros([3, length, 2])
        for position in range(length):
            state = expected[:, position] = 2 * state + x[position]
        np.testing.assert_allclose(run(x), np.repeat(expected, 2, axis=0))
