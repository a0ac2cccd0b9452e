"""Samples tokens from the distribution that a model predicts."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_keras.ops import maximum, private_api


def sampler(temperature: Any, top_k: Any, top_p: Any, seed: tf.Tensor) -> Callable[[Any, Any], Any]:
    """Return a `choose` function for `greedy_search` that samples tokens.

    Args:
        temperature, top_k, top_p: scalars, see `Options`.
        seed: int32 [2].
    """

    def choose(log_probs, position):
        logits = _most_likely(log_probs / temperature, top_k, top_p)
        # The Gumbel-max trick, with noise from a stateless random generator.
        noise = _uniform(tf.shape(logits), seed + tf.stack([0, position]))
        return maximum.argmax(logits - tf.math.log(-tf.math.log(noise)))

    return choose


def _most_likely(logits, top_k, top_p):
    """Return logits [B, V] with -inf for the tokens that `top_k` or `top_p` excludes."""
    ordered = tf.sort(logits, axis=-1, direction="DESCENDING")
    vocab_size = tf.shape(logits)[-1]
    kept = tf.where(top_k > 0, tf.minimum(top_k, vocab_size), vocab_size)
    ordered = tf.where(tf.range(vocab_size) < kept, ordered, -float("inf"))
    probs = tf.nn.softmax(ordered)
    before = tf.cumsum(probs, axis=-1, exclusive=True)
    ordered = tf.where(before < top_p, ordered, float("inf"))
    smallest_kept = tf.reduce_min(
        tf.where(tf.math.is_finite(ordered), ordered, float("inf")), axis=-1, keepdims=True
    )
    return tf.where(logits >= smallest_kept, logits, -float("inf"))


def _uniform(shape, seed):
    """Return random numbers in [1e-20, 1), float32, equal with and without XLA.

    The generator is Philox, whose first numbers do not depend on the batch size. TensorFlow selects
    it on CPUs and GPUs. XLA has the same random bits, but makes a float from the upper bits of an
    integer. TensorFlow uses the lower bits.
    """
    least = 1e-20
    if not private_api.is_compiled_by_xla():
        return tf.random.stateless_uniform(shape, seed, minval=least, maxval=1.0)
    bits = tf.random.stateless_uniform(shape, seed, None, None, tf.uint32, alg="philox")
    fraction = tf.bitwise.bitwise_and(bits, tf.constant(0x7FFFFF, tf.uint32))
    one = tf.constant(0x3F800000, tf.uint32)  # the bits of 1.0
    return tf.bitcast(tf.bitwise.bitwise_or(fraction, one), tf.float32) - 1.0 + least
