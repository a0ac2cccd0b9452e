import itertools
from functools import partial, reduce

import numpy as np
import pytest
import tensorflow as tf

from ut_keras.decoding import beam_search, constraints

EOS = 1


def _query(ids, position):
    ids = tf.constant(ids, tf.int32)[tf.newaxis]  # the first axis has one example
    return beam_search.Query(tf.constant(position), ids, tf.zeros_like(ids))


def _log_probs(beams, vocab_size, seed=0):
    logits = np.random.RandomState(seed).normal(size=(1, beams, vocab_size)).astype(np.float32)
    return tf.nn.log_softmax(logits)


def test_min_length_forbids_earlier_eos():
    log_probs = _log_probs(2, 4)
    constrain = partial(constraints.min_length, length=2)
    for position in range(4):
        got = constrain(log_probs, _query(np.zeros([2, 4]), position)).numpy()
        expected = log_probs.numpy().copy()
        if position < 2:
            expected[..., EOS] = -np.inf
        np.testing.assert_array_equal(got, expected)


def test_eos_penalty_is_subtracted():
    log_probs = _log_probs(1, 4)
    got = constraints.eos_penalty(log_probs, _query(np.zeros([1, 4]), 0), 1.5)
    np.testing.assert_allclose(got - log_probs, [[[0.0, -1.5, 0.0, 0.0]]], atol=1e-6)


def test_forced_prefix_of_each_example():
    prefix = tf.constant([[3, 2], [2, 0]])
    log_probs = tf.tile(_log_probs(1, 4), [2, 1, 1])
    for position, allowed in ((0, [{3}, {2}]), (1, [{2}, {0, 1, 2, 3}]), (2, [{0, 1, 2, 3}] * 2)):
        ids = tf.zeros([2, 1, 4], tf.int32)
        query = beam_search.Query(tf.constant(position), ids, ids)
        got = constraints.forced_prefix(log_probs, query, prefix, log_probs).numpy()
        for row in range(2):
            assert set(np.flatnonzero(np.isfinite(got[row, 0]))) == allowed[row]
        finite = np.isfinite(got)
        np.testing.assert_array_equal(got[finite], log_probs.numpy()[finite])


def test_forced_prefix_overrides_other_constraints():
    """Other constraints do not affect a forced token. They still apply where no token is forced."""
    others = [
        partial(constraints.min_length, length=3),
        partial(constraints.eos_penalty, penalty=1.0),
        partial(constraints.no_repeated_ngrams, n=1),
    ]
    log_probs = _log_probs(1, 4)
    query = _query([[2, 3, 0, 0]], 2)
    free = reduce(lambda values, other: other(values, query), others, log_probs)
    for forced in (EOS, 2, 3):
        prefix = tf.constant([[2, 3, forced]])
        got = constraints.forced_prefix(log_probs, query, prefix, free)[0, 0].numpy()
        expected = np.full(4, -np.inf, np.float32)
        expected[forced] = log_probs[0, 0, forced]
        np.testing.assert_array_equal(got, expected)
    got = constraints.forced_prefix(log_probs, query, tf.constant([[2, 3]]), free)
    np.testing.assert_array_equal(np.isfinite(got[0, 0]), [True] + [False] * 3)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_repeated_ngrams_matches_reference(n):
    """The constraint forbids exactly the tokens that would repeat an n-gram."""
    vocab_size, length = 4, 6
    random = np.random.RandomState(n)
    constrain = partial(constraints.no_repeated_ngrams, n=n)
    seen = set()
    for position in range(length):
        ids = random.randint(2, vocab_size, size=(5, length))
        ids[:, position:] = 0
        log_probs = _log_probs(5, vocab_size)
        got = constrain(log_probs, _query(ids, position)).numpy()[0]
        for beam, symbol in itertools.product(range(5), range(vocab_size)):
            written = [*ids[beam, :position], symbol]
            ngrams = [tuple(written[i : i + n]) for i in range(len(written) - n + 1)]
            repeated = bool(ngrams) and ngrams[-1] in ngrams[:-1]
            assert np.isneginf(got[beam, symbol]) == repeated, (ids[beam], position, symbol)
            seen.add(repeated)
    assert seen == {True, False}
