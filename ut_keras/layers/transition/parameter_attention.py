"""A transition function that attends to learned keys and values."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.attention import attention
from ut_keras.layers.basic import dropout, from_hparams
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.transition.transition import Transition


@keras.saving.register_keras_serializable(package="ut_keras")
class ParameterAttention(Transition):
    """Attention to learned keys and values (`ffn_layer="parameter_attention"`).

        q = x W_Q
        y = Concat_h(softmax(q_h K_h^T) V_h) W_O

    K and V are weights: each head has `memory_rows` key and value vectors. Unlike
    `MultiHeadAttention`, this layer does not divide the logits by sqrt(d).

    Args:
        num_heads: int H.
        memory_rows: int M. T2T uses `filter_size`.
        hidden_size: int D, width of the output.
        key_channels, value_channels: int. Width over all heads. If None, the width is D.
        **kwargs: the arguments of `Transition`. Dropout sets complete rows of V to 0. These rows
            are the same for all positions.

    Call arguments and returns: as `Transition`. As in T2T, the layer does not set the output at
    padding to 0.

    Raises:
        ValueError: if the channels cannot be split over the heads.

    References: T2T `common_attention.parameter_attention`.
    """

    def __init__(
        self,
        num_heads: int,
        memory_rows: int,
        hidden_size: int,
        key_channels: int | None = None,
        value_channels: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(hidden_size, **kwargs)
        self.num_heads = num_heads
        self.memory_rows = memory_rows
        self.key_channels = key_channels or hidden_size
        self.value_channels = value_channels or hidden_size
        attention.check_heads(self)

    def build(self, x_shape: Shape) -> None:
        self.query_projection = self._dense(
            self.key_channels, "q_transform", x_shape[-1], use_bias=False
        )
        self.output_projection = self._dense(
            self.hidden_size, "output_transform", self.value_channels, use_bias=False
        )
        self.key = self._memory("k", self.key_channels, (self.num_heads / self.hidden_size) ** 0.5)
        self.value = self._memory("v", self.value_channels, 1.0)
        self.row_dropout = dropout.sublayer(self, broadcast_dims=(2,))

    def _transform(self, x, padding_mask, cache, training):
        key, value = tf.convert_to_tensor(self.key), tf.convert_to_tensor(self.value)
        shape = tf.shape(x)
        q = tf.reshape(self.query_projection(x), [shape[0], shape[1], self.num_heads, -1])
        logits = tf.einsum("bshd,hmd->bhsm", q, key)
        weights = tf.cast(tf.nn.softmax(tf.cast(logits, tf.float32)), q.dtype)
        kept = self.row_dropout(value, training=training)
        mixed = tf.einsum("bhsm,hmd->bshd", weights, kept)
        return self.output_projection(tf.reshape(mixed, [shape[0], shape[1], self.value_channels]))

    def _memory(self, name, channels, stddev):
        return self.add_weight(
            name=name,
            shape=(self.num_heads, self.memory_rows, channels // self.num_heads),
            initializer=keras.initializers.RandomNormal(stddev=stddev),
        )


@parts.transitions.register("parameter_attention")
def _make(hp, side):
    return ParameterAttention(
        hp.num_heads,
        hp.filter_size,
        hp.hidden_size,
        hp.parameter_attention_key_channels or None,
        hp.parameter_attention_value_channels or None,
        dropout_rate=hp.attention_dropout,
        name="parameter_attention",
        **from_hparams.common(hp),
    )
