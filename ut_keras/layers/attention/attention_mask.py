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
    """Keys that are real tokens may be attended to.

    Args:
        padding_mask: bool [B, S], True at real tokens.
    Returns:
        bool [B, 1, 1, S].
    """
    return padding_mask[:, tf.newaxis, tf.newaxis, :]


def causal_attention_mask(length: tf.Tensor) -> tf.Tensor:
    """A position may attend to itself and to what came before.

    Args:
        length: int or int32 scalar T.
    Returns:
        bool [1, 1, T, T].
    """
    position = tf.range(length)
    return (position[:, tf.newaxis] >= position[tf.newaxis, :])[tf.newaxis, tf.newaxis]


def segment_attention_mask(query_segments: tf.Tensor, key_segments: tf.Tensor) -> tf.Tensor:
    """Packed examples: positions attend only within their own segment.

    Args:
        query_segments: int [B, T]; key_segments: int [B, S].
    Returns:
        bool [B, 1, T, S].
    References: T2T `common_attention.attention_bias_same_segment`.
    """
    return (query_segments[:, :, tf.newaxis] == key_segments[:, tf.newaxis, :])[:, tf.newaxis]
