"""From an encoded sequence to one class."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers import dense
from ut_keras.layers.signature import Config, Initializer, Shape


@keras.saving.register_keras_serializable(package="ut_keras")
class ClassLabelHead(keras.layers.Layer):
    """Means over all positions, padding included as in T2T, and scores the classes.

    Args:
        num_classes: int C.
        kernel_initializer: Keras initializer.
    Call arguments:
        x: float tensor [B, S, D].
    Returns:
        float32 tensor [B, C].
    References: T2T `modalities.class_label_top`.
    """

    def __init__(
        self, num_classes: int, kernel_initializer: Initializer = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, x_shape: Shape) -> None:
        self.dense = dense.Dense(
            self.num_classes,
            kernel_initializer=self.kernel_initializer,
            name="dense",
            dtype=self.dtype_policy,
        )
        self.dense.build((x_shape[0], x_shape[2]))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.cast(self.dense(tf.reduce_mean(x, axis=1)), tf.float32)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (x_shape[0], self.num_classes)
