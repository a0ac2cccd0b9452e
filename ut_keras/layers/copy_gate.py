"""A gate by which a position keeps its state until it has something to do with it."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers import cache as cache_lib
from ut_keras.layers import dense, from_hparams
from ut_keras.layers.signature import Config, Initializer, Shape


@keras.saving.register_keras_serializable(package="ut_keras")
class CopyGate(keras.layers.Layer):
    """How much of a step a position takes over, channel by channel (`copy_gate`).

        g = sigmoid(W_2 gelu(W_1 a + b_1) + b_2);   H_t = g U + (1 - g) H_{t-1}

    a is what attention made of the state, U what the transition makes of a. b_2 begins at -3, so
    that positions first keep their states.

    Args:
        dropout_rate: float. Share of positions that training has keep their states.
        bias_init: float, of b_2.
        kernel_initializer: Keras initializer, of W.
    Call arguments:
        x: float tensor [B, S, D], a.
        training: bool.
        cache: not used; there for `Sublayer`.
    Returns:
        float tensor [B, S, D], g.
    References: Csordás et al. 2022, The Neural Data Router; its code, `NDRResidualCoreInitGelu`
        (the paper itself could not be read).
    """

    def __init__(
        self,
        dropout_rate: float = 0.0,
        bias_init: float = -3.0,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dropout_rate = dropout_rate
        self.bias_init = bias_init
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed_generator = keras.random.SeedGenerator() if dropout_rate else None

    def build(self, x_shape: Shape) -> None:
        common = {"kernel_initializer": self.kernel_initializer, "dtype": self.dtype_policy}
        bias = keras.initializers.Constant(self.bias_init)
        self.hidden = dense.Dense(x_shape[-1], name="hidden", **common)
        self.gate = dense.Dense(x_shape[-1], bias_initializer=bias, name="gate", **common)
        for layer in (self.hidden, self.gate):
            layer.build(x_shape)

    def call(
        self, x: tf.Tensor, training: bool | None = None, cache: cache_lib.LayerCache | None = None
    ) -> tf.Tensor:
        del cache
        gate = tf.sigmoid(self.gate(tf.nn.gelu(self.hidden(x))))
        if not training or not self.dropout_rate:
            return gate
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        drawn = tf.random.stateless_uniform(tf.shape(x)[:2], seed)
        return gate * tf.cast(drawn >= self.dropout_rate, gate.dtype)[..., tf.newaxis]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "dropout_rate": self.dropout_rate,
            "bias_init": self.bias_init,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return x_shape


def make(hp: Any) -> CopyGate | None:
    """The gate of a layer; None without `copy_gate`."""
    if not getattr(hp, "copy_gate", False):  # a Transformer has none
        return None
    return CopyGate(hp.copy_gate_dropout, name="copy_gate", **from_hparams.common(hp))
