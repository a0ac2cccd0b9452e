"""Drawing symbols instead of taking the best."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def sampler(temperature: Any, top_k: Any, top_p: Any, seed: tf.Tensor) -> Callable[[Any, Any], Any]:
    """A `choose` for `greedy_search`.

    Args:
        temperature: float > 0. Log probabilities are divided by it: below 1 makes the likely
            likelier.
        top_k: int. Only so many of the likeliest are drawn from; 0: all.
        top_p: float in (0, 1]. Only the likeliest are drawn from, as few as have this probability
            together (Holtzman et al. 2020).
        seed: int32 [2]. The same seed draws the same symbols from the same batch.
    """

    def choose(log_probs, position):
        logits = log_probs / temperature
        ordered = tf.sort(logits, axis=-1, direction="DESCENDING")
        vocab_size = tf.shape(logits)[-1]
        kept = tf.where(top_k > 0, tf.minimum(top_k, vocab_size), vocab_size)
        ordered = tf.where(tf.range(vocab_size) < kept, ordered, -float("inf"))
        probs = tf.nn.softmax(ordered)
        before = tf.cumsum(probs, axis=-1, exclusive=True)
        ordered = tf.where(before < top_p, ordered, float("inf"))
        least = tf.reduce_min(
            tf.where(tf.math.is_finite(ordered), ordered, float("inf")), axis=-1, keepdims=True
        )
        logits = tf.where(logits >= least, logits, -float("inf"))
        # The Gumbel-max trick, whose noise may be drawn without state.
        noise = tf.random.stateless_uniform(
            tf.shape(logits), seed + tf.stack([0, position]), minval=1e-20, maxval=1.0
        )
        return tf.argmax(logits - tf.math.log(-tf.math.log(noise)), -1, output_type=tf.int32)

    return choose
