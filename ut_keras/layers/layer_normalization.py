"""Layer normalization as T2T computes it."""

import keras
import tensorflow as tf


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

    def __init__(self, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        size = input_shape[-1]
        self.scale = self.add_weight(name="layer_norm_scale", shape=(size,), initializer="ones")
        self.bias = self.add_weight(name="layer_norm_bias", shape=(size,), initializer="zeros")

    def call(self, x):
        wide = tf.cast(x, tf.float32)
        mean = tf.reduce_mean(wide, axis=-1, keepdims=True)
        centered = wide - mean
        variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
        normalized = tf.cast(centered * tf.math.rsqrt(variance + self.epsilon), x.dtype)
        return normalized * self.scale + self.bias

    def get_config(self):
        return {**super().get_config(), "epsilon": self.epsilon}

    def compute_output_shape(self, input_shape):
        return input_shape
