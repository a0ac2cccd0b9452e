"""Tests of the distribution of the tokens that `sampling.sampler` samples."""

import numpy as np
import tensorflow as tf

from ut_keras.decoding import sampling

PROBABILITIES = np.float32([0.4, 0.3, 0.2, 0.1])
ROWS = 4000


def _shares(temperature=1.0, top_k=0, top_p=1.0, seed=1):
    """Return the relative frequency of each token."""
    choose = sampling.sampler(temperature, top_k, top_p, tf.constant([seed, 0]))
    log_probs = tf.tile(tf.math.log(PROBABILITIES)[tf.newaxis], [ROWS, 1])
    symbols = choose(log_probs, tf.constant(3)).numpy()
    return np.bincount(symbols, minlength=4) / ROWS


def test_sampler_follows_probabilities():
    np.testing.assert_allclose(_shares(), PROBABILITIES, atol=0.03)


def test_temperature_below_one_sharpens():
    expected = PROBABILITIES**2 / np.sum(PROBABILITIES**2)
    np.testing.assert_allclose(_shares(temperature=0.5), expected, atol=0.03)


def test_top_k_keeps_most_likely_tokens():
    np.testing.assert_allclose(_shares(top_k=2), [4 / 7, 3 / 7, 0, 0], atol=0.03)
    np.testing.assert_allclose(_shares(top_k=9), PROBABILITIES, atol=0.03)


def test_top_p_keeps_smallest_set():
    np.testing.assert_allclose(_shares(top_p=0.65), [4 / 7, 3 / 7, 0, 0], atol=0.03)
    np.testing.assert_allclose(_shares(top_p=0.1), [1, 0, 0, 0])


def test_sampler_never_chooses_forbidden_tokens():
    choose = sampling.sampler(5.0, 0, 1.0, tf.constant([0, 0]))
    log_probs = tf.tile([[0.0, -np.inf, -1.0]], [500, 1])
    assert set(choose(log_probs, tf.constant(0)).numpy()) == {0, 2}


def test_seed_determines_samples():
    log_probs = tf.zeros([50, 8])

    def draw(seed, position):
        choose = sampling.sampler(1.0, 0, 1.0, tf.constant([seed, 0]))
        return choose(log_probs, tf.constant(position)).numpy().tolist()

    assert draw(1, 2) == draw(1, 2)
    assert draw(1, 2) != draw(2, 2) and draw(1, 2) != draw(1, 3)
