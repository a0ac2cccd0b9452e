"""Rotary attention: queries and keys are rotated by their positions."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError
from ut_keras.layers.attention import attention
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.position.timing_signal import MAX_TIMESCALE


@keras.saving.register_keras_serializable(package="ut_keras")
class RotaryAttention(attention.MultiHeadAttention):
    """Self-attention with rotary position embeddings (`pos="rotary"`).

    The attention weights depend on positions only through the distance between query and key.

        e_ij = (R_i q_i) (R_j k_j) / sqrt(d) = q_i R_{j-i} k_j / sqrt(d)    (Su et al. 2021)

    R_p rotates the plane of the channels c and c + d/2 by the angle p / 10000^(2c / d). The paper
    pairs the channels 2c and 2c + 1 instead. This difference affects only the order of the
    channels. A cache stores rotated keys, so the order of the cache's columns does not matter.

    Arguments, call arguments and returns: as `MultiHeadAttention`, for self-attention only.

    Raises:
        ValueError: if key_channels / num_heads is odd.

    References: Su et al. 2021, RoFormer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.key_channels // self.num_heads % 2:
            raise ValueError(
                "key_channels / num_heads must be even in rotary attention. "
                f"Received: key_channels={self.key_channels}, num_heads={self.num_heads}."
            )

    def encode_positions(
        self, projected: tf.Tensor, cache: cache_lib.LayerCache | None = None
    ) -> tf.Tensor:
        shape = tf.shape(projected)
        half = self.key_channels // self.num_heads // 2
        positions = tf.range(shape[1])
        if cache is not None:
            positions, active = cache.window.positions, cache.layout.active
            if active is not None:
                positions = tf.gather(positions, active.index[:, 1])
        exponents = tf.range(half, dtype=tf.float32) / half
        angles = tf.cast(positions, tf.float32)[:, tf.newaxis] * MAX_TIMESCALE**-exponents
        cos, sin = (
            tf.cast(function(angles), projected.dtype)[:, tf.newaxis]
            for function in (tf.cos, tf.sin)
        )
        heads = tf.reshape(projected, [shape[0], shape[1], self.num_heads, 2 * half])
        first, second = tf.split(heads, 2, axis=-1)  # its gradient is faster than a slice's
        rotated = tf.concat([first * cos - second * sin, second * cos + first * sin], axis=-1)
        rotated = tf.reshape(rotated, shape)
        rotated.set_shape(projected.shape)
        return rotated


@parts.position_signals.register("rotary")
def _make_signal(hp, side):
    """Return None, because the model adds no position signal to the embeddings.

    `RotaryAttention` encodes the positions. The module `transformer_layer` creates this layer.
    """
    if hp.self_attention_type != "dot_product":
        raise HParamError(
            "pos='rotary' requires self_attention_type='dot_product'. "
            f"Received: self_attention_type={hp.self_attention_type!r}."
        )
