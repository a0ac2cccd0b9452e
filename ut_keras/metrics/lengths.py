"""Logits and targets of different lengths.

Some models have outputs of the source's length instead of the targets'.
"""

from typing import Any

import tensorflow as tf


def pad_to_same_length(logits: tf.Tensor, targets: tf.Tensor, *weights: Any) -> tuple:
    """Pad logits or targets with zeros to the length of the longer of the two.

    Args:
        logits: [B, S, V].
        targets: int [B, T].
        weights: at most one argument, the weights of the targets. It is float [B], [B, 1] or
            [B, T], or None.

    Returns:
        (logits [B, L, V], targets [B, L], *weights). Weights [B, T] become [B, L].

    References: T2T `common_layers.pad_with_zeros`.
    """
    targets = tf.convert_to_tensor(targets)
    if logits.shape[1] is not None and logits.shape[1] == targets.shape[1]:
        return (logits, targets, *weights)
    written, wanted = tf.shape(logits)[1], tf.shape(targets)[1]
    length = tf.maximum(written, wanted)
    logits = tf.pad(logits, [[0, 0], [0, length - written], [0, 0]])
    padded = tf.pad(targets, [[0, 0], [0, length - wanted]])
    return (logits, padded, *(_padded_weights(each, wanted, length) for each in weights))


def _padded_weights(weights, wanted, length):
    if weights is None or len(weights.shape) < 2 or weights.shape[1] == 1:
        return weights
    # A single column is the weight of every target.
    missing = tf.where(tf.shape(weights)[1] == wanted, length - wanted, 0)
    missing = tf.where(wanted == 1, 0, missing)
    return tf.pad(weights, [[0, 0], [0, missing]])
