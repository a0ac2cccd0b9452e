"""Boolean attention masks: True where a query may attend to a key."""

import tensorflow as tf

# What a masked logit becomes; T2T adds it. A row without any True attends evenly to everything.
MASKED_LOGIT = -1e9


def check(attention_mask: tf.Tensor | None) -> None:
    """Refuses a mask that is to be broadcast to other axes than it was made for.

    Keras' [B, T, S] would become one of heads, [1, H, T, S], where B = H.

    Raises:
        ValueError: if the mask is not of rank 4.
    """
    if attention_mask is not None and len(attention_mask.shape) != 4:
        raise ValueError(
            "attention_mask must be [batch, heads, length, length], where batch and heads may be "
            "1; Keras' [batch, length, length] is passed as mask[:, None]. "
            f"Received: {attention_mask.shape}."
        )


def padding_attention_mask(padding_mask: tf.Tensor) -> tf.Tensor:
    """bool [B, S] -> [B, 1, 1, S]: keys that are real tokens may be attended to."""
    return padding_mask[:, tf.newaxis, tf.newaxis, :]


def causal_attention_mask(length: tf.Tensor) -> tf.Tensor:
    """bool [1, 1, T, T]: a position may attend to itself and to what came before."""
    position = tf.range(length)
    return (position[:, tf.newaxis] >= position[tf.newaxis, :])[tf.newaxis, tf.newaxis]


def segment_attention_mask(query_segments: tf.Tensor, key_segments: tf.Tensor) -> tf.Tensor:
    """int [B, T], [B, S] -> bool [B, 1, T, S]: packed examples attend within their own segments.

    References: T2T `common_attention.attention_bias_same_segment`.
    """
    return (query_segments[:, :, tf.newaxis] == key_segments[:, tf.newaxis, :])[:, tf.newaxis]
