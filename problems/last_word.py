"""Metrics of the last word of an example: the word before EOS, or the class label.

A metric is a function (logits, targets, features) -> (sum, count), as in `FeatureMetric.function`.
"""

from collections.abc import Callable

from ut_keras.text import text_encoder


def mean(value: Callable) -> Callable:
    """Return a metric that is the mean of a value over the examples that count.

    An example without EOS, or without a word before EOS, never counts.

    Args:
        value: function (logits, ids, features) -> (values, counts). `logits` are the logits at the
            last word, float32 [B, V]. `ids` are the ids of the last words, int32 [B]. `values` are
            bool or float32 [B]. `counts` is bool [B] and True for each example that counts, or it
            is a single True if all examples count.
    """

    def function(logits, targets, features):
        import tensorflow as tf

        targets = tf.cast(targets, tf.int32)
        if len(logits.shape) == 2:  # the logits are for classes, [B, V], and the targets are [B, 1]
            words, has_word = targets[:, 0], tf.fill(tf.shape(targets)[:1], True)
        else:
            is_end = tf.cast(targets == text_encoder.EOS, tf.int32)
            ends = tf.argmax(is_end, axis=1, output_type=tf.int32)  # `ends` is 0 without an EOS
            positions = tf.maximum(ends - 1, 0)
            words, has_word = tf.gather(targets, positions, batch_dims=1), ends > 0
            logits = tf.gather(logits, positions, batch_dims=1)
        values, counts = value(tf.cast(logits, tf.float32), words, features)
        weights = tf.cast(has_word & counts, tf.float32)
        return tf.reduce_sum(tf.cast(values, tf.float32) * weights), tf.reduce_sum(weights)

    return function


def is_right(unknown_id: int = -1) -> Callable:
    """Return a `value` for `mean` that is True if the last word has the largest logit.

    The value is False for the word with `unknown_id`.
    """

    def value(logits, words, features):
        from ut_keras.ops import maximum

        is_correct = maximum.is_argmax(logits, words)
        return is_correct & (words != unknown_id), True

    return value


def accuracy_from_context(unknown_id: int) -> Callable:
    """Return the accuracy of the last word if only words of the inputs are candidates.

    References: Chu et al. 2017.
    """

    def value(logits, words, features):
        import tensorflow as tf

        inputs = tf.cast(features["inputs"], tf.int32)
        no_words = (text_encoder.PAD, text_encoder.EOS, unknown_id)
        is_word = tf.reduce_all([inputs != i for i in no_words], axis=0)
        scores = tf.gather(logits, inputs, batch_dims=1)
        best = tf.argmax(tf.where(is_word, scores, scores.dtype.min), axis=1)
        is_correct = tf.gather(inputs, best, batch_dims=1) == words
        return is_correct & (words != unknown_id), True

    return mean(value)


def _nats(logits, words, features):
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=words, logits=logits), True


cross_entropy = mean(_nats)  # the cross-entropy of the last word
