"""A classification head that pools an encoded sequence and computes class logits."""

from typing import Any, Literal, get_args

import keras
import tensorflow as tf

from ut_keras.layers.basic import dense
from ut_keras.layers.basic.layer import check_choice
from ut_keras.layers.basic.signature import Shape

Pooling = Literal["mean", "masked_mean", "last"]


@keras.saving.register_keras_serializable(package="ut_keras")
class ClassLabelHead(dense.WithKernels):
    """Pools the vectors of all positions, and computes the logits of the classes.

    Args:
        num_classes: int C.
        pooling: "mean", "masked_mean" or "last". See the function `pool`.
        kernel_initializer: Keras initializer.

    Call arguments:
        x: float tensor [B, S, D].
        padding_mask: bool tensor [B, S], True at real tokens. Default: no padding.
        mask: another name of `padding_mask`. Keras fills it with the mask that `Masking` or
            `Embedding(mask_zero=True)` attached to `x`.

    Returns:
        float32 tensor [B, C].

    Raises:
        ValueError: for an unknown pooling.

    References: T2T `modalities.class_label_top` for "mean". "masked_mean" and "last" follow
        `softmax_average_pooling_class_label_top` and `softmax_last_timestep_class_label_top`.
        T2T's `softmax_last_timestep_class_label_top` reads the last position even if it is padding.
    """

    def __init__(self, num_classes: int, pooling: Pooling = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_choice("pooling", pooling, get_args(Pooling))
        self.num_classes = num_classes
        self.pooling = pooling

    def build(self, x_shape: Shape) -> None:
        self.dense = self._dense(self.num_classes, "dense", x_shape[-1])

    def call(
        self, x: tf.Tensor, padding_mask: tf.Tensor | None = None, mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        padding_mask = mask if padding_mask is None else padding_mask
        return tf.cast(self.dense(self.pool(x, padding_mask)), tf.float32)

    def compute_mask(self, x: tf.Tensor, previous_mask: tf.Tensor | None = None) -> None:
        """Return None, because the output has no positions."""

    def pool(self, x: tf.Tensor, padding_mask: tf.Tensor | None = None) -> tf.Tensor:
        """Pool `x` [B, S, D] to [B, D]. See the function `pool`."""
        return pool(x, self.pooling, padding_mask)

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (x_shape[0], self.num_classes)


def pool(x: tf.Tensor, pooling: Pooling, padding_mask: tf.Tensor | None = None) -> tf.Tensor:
    """Pool the vectors of all positions to one vector per example.

    Args:
        x: float tensor [B, S, D].
        pooling: "mean": the mean over all positions, including padding, as in T2T. "masked_mean":
            the mean over real positions. "last": the last real position.
        padding_mask: bool tensor [B, S], True at real tokens. Default: no padding.

    Returns:
        float tensor [B, D], of the dtype of `x`. With "masked_mean" and "last", the vector of an
        example without real positions is 0.
    """
    # In float16 on a CPU, a sum over positions would stop at 2048 or become infinite.
    x = tf.convert_to_tensor(x)
    exact = tf.cast(x, tf.float32) if x.dtype.size < 4 else x
    return tf.cast(_pool(exact, pooling, padding_mask), x.dtype)


def _pool(x, pooling, padding_mask):
    if pooling == "mean" or (pooling == "masked_mean" and padding_mask is None):
        return tf.reduce_mean(x, axis=1)
    if padding_mask is None:
        return x[:, -1]
    selected = padding_mask
    if pooling == "last":
        selected = tf.logical_and(
            selected, tf.cumsum(tf.cast(selected, tf.int32), 1, reverse=True) == 1
        )
    selected = tf.cast(selected, x.dtype)[:, :, tf.newaxis]
    return tf.math.divide_no_nan(
        tf.reduce_sum(x * selected, axis=1), tf.reduce_sum(selected, axis=1)
    )
