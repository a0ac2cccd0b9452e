"""Layer normalization as T2T computes it."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic.signature import Config, Shape
from ut_keras.ops import written_gradient


@keras.saving.register_keras_serializable(package="ut_keras")
class LayerNormalization(keras.layers.Layer):
    """Normalizes the last axis to mean 0 and variance 1, then scales and shifts it.

    Statistics are float32 under any dtype policy; the variance is the biased one.

        y = scale · (x - mean) / sqrt(variance + epsilon) + bias         (Ba et al. 2016)

    Args:
        epsilon: float. Added to the variance.
    Call arguments:
        x: float tensor [..., D].
    Returns:
        Tensor like `x`.
    References: T2T `common_layers.layer_norm`.
    """

    supports_masking = True  # positions are apart: Keras hands the mask on

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape: Shape) -> None:
        size = input_shape[-1]
        self.scale = self.add_weight(name="layer_norm_scale", shape=(size,), initializer="ones")
        self.bias = self.add_weight(name="layer_norm_bias", shape=(size,), initializer="zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        scale, bias = (tf.cast(part, tf.float32) for part in (self.scale, self.bias))
        return tf.cast(_normalize(tf.cast(x, tf.float32), scale, bias, self.epsilon), x.dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "epsilon": self.epsilon}

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


def _normalize(x, scale, bias, epsilon):
    """The formula above, with its gradient written out: half as many passes over x.

    dx = (dz - mean(dz) - z mean(dz z)) / sqrt(variance + epsilon),   z = normalized x,
    dz = scale dy,   d scale = sum(dy z),   d bias = sum(dy)
    """

    @written_gradient.of
    def normalize(x, scale, bias):
        centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
        inverse = tf.math.rsqrt(variance + epsilon)
        z = centered * inverse

        def gradient(dy):
            rows = list(range(x.shape.rank - 1))
            dy_z = dy * z
            dz = dy * scale
            mean_dz_z = tf.reduce_mean(dz * z, axis=-1, keepdims=True)
            dx = (dz - tf.reduce_mean(dz, axis=-1, keepdims=True) - z * mean_dz_z) * inverse
            return dx, tf.reduce_sum(dy_z, axis=rows), tf.reduce_sum(dy, axis=rows)

        return z * scale + bias, gradient

    return normalize(x, scale, bias)
