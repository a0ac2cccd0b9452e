"""Metrics on the last word of a row: that before EOS, or the class label.

Each is a `FeatureMetric.function`, or makes one: (logits, targets, features) -> (sum, count).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ut_keras.text import text_encoder

if TYPE_CHECKING:
    import tensorflow as tf


def predictions(
    logits: "tf.Tensor", targets: "tf.Tensor"
) -> "tuple[tf.Tensor, tf.Tensor, tf.Tensor]":
    """What is predicted at the last word of each row, and what stands there.

    Args:
        logits: float tensor [B, T, V] with symbols, [B, V] with class labels.
        targets: int tensor [B, T], [B, 1].

    Returns:
        (logits [B, V] float32, word ids [B] int32, weights [B] float32). The weight is 0 in a row
        without EOS or without a word before it.
    """
    import tensorflow as tf

    targets = tf.cast(targets, tf.int32)
    if len(logits.shape) == 2:
        return tf.cast(logits, tf.float32), targets[:, 0], tf.ones(tf.shape(targets)[:1])
    is_end = tf.cast(targets == text_encoder.EOS, tf.int32)
    ends = tf.argmax(is_end, axis=1, output_type=tf.int32)  # 0 where there is none.
    places = tf.maximum(ends - 1, 0)
    words = tf.gather(targets, places, batch_dims=1)
    return (
        tf.cast(tf.gather(logits, places, batch_dims=1), tf.float32),
        words,
        tf.cast(ends > 0, tf.float32),
    )


def accuracy(unknown_id: int) -> Callable:
    """Share of rows whose last word has the largest logit; an unknown word is never right."""

    def function(logits, targets, features):
        import tensorflow as tf

        del features
        logits, words, weights = predictions(logits, targets)
        right = tf.argmax(logits, axis=-1, output_type=tf.int32) == words
        right = tf.logical_and(right, words != unknown_id)
        return tf.reduce_sum(tf.cast(right, tf.float32) * weights), tf.reduce_sum(weights)

    return function


def accuracy_from_context(unknown_id: int) -> Callable:
    """The same, if only the words of the inputs may be chosen (Chu et al. 2017)."""

    def function(logits, targets, features):
        import tensorflow as tf

        logits, words, weights = predictions(logits, targets)
        inputs = tf.cast(features["inputs"], tf.int32)
        no_words = (text_encoder.PAD, text_encoder.EOS, unknown_id)
        is_word = tf.reduce_all([inputs != i for i in no_words], axis=0)
        scores = tf.gather(logits, inputs, batch_dims=1)
        best = tf.argmax(tf.where(is_word, scores, scores.dtype.min), axis=1)
        right = tf.gather(inputs, best, batch_dims=1) == words
        right = tf.logical_and(right, words != unknown_id)
        return tf.reduce_sum(tf.cast(right, tf.float32) * weights), tf.reduce_sum(weights)

    return function


def cross_entropy(
    logits: "tf.Tensor", targets: "tf.Tensor", features: "dict[str, tf.Tensor]"
) -> "tuple[tf.Tensor, tf.Tensor]":
    """Nats at the last word."""
    import tensorflow as tf

    del features
    logits, words, weights = predictions(logits, targets)
    nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=words, logits=logits)
    return tf.reduce_sum(nats * weights), tf.reduce_sum(weights)
