"""Attention to a few keys only."""

import tensorflow as tf


def harden(weights: tf.Tensor, k: int) -> tf.Tensor:
    """Keeps what the largest weights have above the k-th largest, and scales it to sum 1.

    So k - 1 weights remain, the smallest of them little; where fewer than k are above 0, all
    remain. Equal weights count as one. The k-th largest gets no gradient.

        w' = max(0, w - w_(k));   w'' = w' / sum w'

    Args:
        weights: float tensor [..., S], at least 0.
        k: int, at least 1.
    Returns:
        Tensor like `weights`. A row is 0 where all weights above 0 are equal and k is 1.
    References: T2T `common_attention.harden_attention_weights`.
    """
    remaining = tf.stop_gradient(weights)
    for _ in range(k - 1):
        largest = tf.reduce_max(remaining, axis=-1, keepdims=True)
        remaining = tf.where(remaining < largest, remaining, tf.zeros([], weights.dtype))
    above = tf.nn.relu(weights - tf.reduce_max(remaining, axis=-1, keepdims=True))
    return above / tf.maximum(tf.reduce_sum(above, axis=-1, keepdims=True), 1e-6)
