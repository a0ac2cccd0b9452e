import numpy as np
import pytest
import tensorflow as tf

from ut_keras.layers.attention import attention

WEIGHTS = np.array([[0.4, 0.1, 0.3, 0.2], [0.7, 0.3, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])


def test_matches_reference():
    got = attention.harden(tf.constant(WEIGHTS), 3)
    # In row 1, the third largest weight is 0.2. The function subtracts 0.2 from 0.4 and from 0.3,
    # and normalizes the differences 0.2 and 0.1. Row 2 has only two positive weights, and row 3 has
    # only one distinct weight. Therefore, rows 2 and 3 stay the same.
    expected = [[2 / 3, 0, 1 / 3, 0], [0.7, 0.3, 0, 0], [0.25, 0.25, 0.25, 0.25]]
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_harden_counts_equal_weights_once():
    got = attention.harden(tf.constant([[0.3, 0.3, 0.2, 0.1, 0.1]]), 3)
    np.testing.assert_allclose(got, [[0.4, 0.4, 0.2, 0, 0]], atol=1e-6)


def test_harden_keeps_all_of_few_weights():
    got = attention.harden(tf.constant(WEIGHTS[:2]), 5)
    np.testing.assert_allclose(got, WEIGHTS[:2], atol=1e-12)


def test_harden_with_k_1_returns_zeros():
    np.testing.assert_array_equal(attention.harden(tf.constant(WEIGHTS), 1), 0 * WEIGHTS)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_harden_threshold_has_no_gradient(jit_compile):
    @tf.function(jit_compile=jit_compile)
    def gradient(weights):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            first = attention.harden(weights, 3)[0, 0]
        return tape.gradient(first, weights)

    # This is the gradient of a / (a + c). The numbers a = 0.2 and c = 0.1 are the parts of the
    # weights above the threshold.
    expected = np.zeros_like(WEIGHTS)
    expected[0, [0, 2]] = [0.1 / 0.09, -0.2 / 0.09]
    np.testing.assert_allclose(gradient(tf.constant(WEIGHTS)), expected, atol=1e-9)
