"""Perplexity per word for any vocabulary, such as subwords or bytes.

    exp(sum of -log p over all ids / number of words)

Words are separated by spaces. EOS counts as one word, as in the published numbers of PTB,
WikiText-2 and the One Billion Word benchmark. T2T reports only the mean loss over subwords. To get
the perplexity per word, users of T2T must multiply this mean by the ratio of subwords to words. For
lm1b with 32k subwords, the ratio is 1.108137.
"""

import math
from collections.abc import Iterable

import numpy as np

from ut_keras.data import features
from ut_keras.text import text_encoder


def per_word(encoder: text_encoder.TextEncoder) -> features.FeatureMetric:
    """Return the `FeatureMetric` of the perplexity per word of encoded targets."""
    words_of = _Words(encoder)

    def function(logits, targets, features):
        import tensorflow as tf

        from ut_keras.ops.weak_call import weak_call

        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=targets, logits=tf.cast(logits, tf.float32)
        )
        total = tf.reduce_sum(losses * tf.cast(targets != text_encoder.PAD, tf.float32))
        words = tf.numpy_function(weak_call(words_of.count), [targets], tf.float32, stateful=False)
        words.set_shape([])
        return total, words

    return features.FeatureMetric(function, exp)


class _Words:
    """Counts words in the ids of an encoder."""

    def __init__(self, encoder: text_encoder.TextEncoder) -> None:
        self._encoder = encoder

    def count(self, rows: np.ndarray) -> np.float32:
        """Return the number of words in ids [examples, length]."""
        return np.float32(sum(count_words(self._encoder, row) for row in rows.tolist()))


def count_words(encoder: text_encoder.TextEncoder, ids: Iterable[int]) -> int:
    """Return the number of words in the ids of one example. Each EOS counts as a word.

    The ids may contain padding and several sentences.
    """
    words = 0
    sentence: list[int] = []
    for i in ids:
        if i == text_encoder.EOS:
            words += len(encoder.decode(sentence).split()) + 1
            sentence = []
        elif i != text_encoder.PAD:
            sentence.append(i)
    return words + len(encoder.decode(sentence).split())


def exp(mean: float) -> float:
    """Return e to the power of a mean loss, or infinity if the loss is too large."""
    try:
        return math.exp(mean)
    except OverflowError:
        return math.inf
