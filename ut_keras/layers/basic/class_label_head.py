"""From an encoded sequence to one class."""

from typing import Any, get_args

import keras
import tensorflow as tf

from ut_keras.layers.basic import dense
from ut_keras.layers.basic import pooling as pooling_lib
from ut_keras.layers.basic.pooling import Pooling
from ut_keras.layers.basic.signature import Config, Initializer, Shape


@keras.saving.register_keras_serializable(package="ut_keras")
class ClassLabelHead(keras.layers.Layer):
    """Reads one vector from all positions, and scores the classes.

    Args:
        num_classes: int C.
        kernel_initializer: Keras initializer.
        pooling: what is read, see `pooling.pool`.
    Call arguments:
        x: float tensor [B, S, D].
        padding_mask: bool tensor [B, S], True where there is no padding. Optional: all are real.
        mask: the same; Keras finds that of `Masking` or `Embedding(mask_zero=True)` on `x`.
    Returns:
        float32 tensor [B, C].
    Raises:
        ValueError: if there is no such pooling.
    References: T2T `modalities.class_label_top`; the others after its
        `softmax_average_pooling_class_label_top` and `softmax_last_timestep_class_label_top`,
        whose last one may be padding.
    """

    def __init__(
        self,
        num_classes: int,
        kernel_initializer: Initializer = "glorot_uniform",
        pooling: Pooling = "mean",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if pooling not in get_args(Pooling):
            raise ValueError(f"pooling must be one of {get_args(Pooling)}. Received: {pooling!r}.")
        self.num_classes = num_classes
        self.pooling = pooling
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, x_shape: Shape) -> None:
        self.dense = dense.Dense(
            self.num_classes,
            kernel_initializer=self.kernel_initializer,
            name="dense",
            dtype=self.dtype_policy,
        )
        self.dense.build((x_shape[0], x_shape[2]))

    def call(
        self,
        x: tf.Tensor,
        padding_mask: tf.Tensor | None = None,
        mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        padding_mask = mask if padding_mask is None else padding_mask
        return tf.cast(self.dense(self.pool(x, padding_mask)), tf.float32)

    def compute_mask(self, x: tf.Tensor, previous_mask: tf.Tensor | None = None) -> None:
        """None: there are no positions any more."""

    def pool(self, x: tf.Tensor, padding_mask: tf.Tensor | None = None) -> tf.Tensor:
        """What is read: [B, S, D] to [B, D]; zeros of a row that is all padding, but for "mean"."""
        return pooling_lib.pool(x, self.pooling, padding_mask)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "pooling": self.pooling,
        }

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (x_shape[0], self.num_classes)
