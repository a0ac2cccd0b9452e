"""Layer normalization as T2T computes it, and the root of the mean square alone."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic.layer import PositionWise
from ut_keras.layers.basic.signature import Shape
from ut_keras.ops import written_gradient


@keras.saving.register_keras_serializable(package="ut_keras")
class LayerNormalization(PositionWise):
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


@keras.saving.register_keras_serializable(package="ut_keras")
class RMSNormalization(PositionWise):
    """Divides the last axis by the root of its mean square, then scales it; no mean, no bias.

        y = scale · x / sqrt(mean(x²) + epsilon)                 (Zhang & Sennrich 2019, eq. 4)

    The mean square is float32 under any dtype policy.

    Args:
        epsilon: float. Added to the mean square.
    Call arguments:
        x: float tensor [..., D].
    Returns:
        Tensor like `x`.
    References: Zhang & Sennrich 2019, Root Mean Square Layer Normalization. T2T has none.
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape: Shape) -> None:
        self.scale = self.add_weight(
            name="rms_norm_scale", shape=(input_shape[-1],), initializer="ones"
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        exact = tf.cast(x, tf.float32)
        mean_square = tf.reduce_mean(tf.square(exact), axis=-1, keepdims=True)
        scaled = exact * tf.math.rsqrt(mean_square + self.epsilon)
        return tf.cast(scaled * tf.cast(self.scale, tf.float32), x.dtype)
