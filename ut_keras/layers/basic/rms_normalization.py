"""Normalization by the root of the mean square alone."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic.signature import Config, Shape


@keras.saving.register_keras_serializable(package="ut_keras")
class RMSNormalization(keras.layers.Layer):
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

    supports_masking = True  # positions are apart: Keras hands the mask on

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

    def get_config(self) -> Config:
        return {**super().get_config(), "epsilon": self.epsilon}

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape
