"""A convolution over positions, with the shape of kernel that T2T's checkpoints have."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic import dense
from ut_keras.layers.basic.layer import check_least
from ut_keras.layers.basic.signature import Initializer, Shape


@keras.saving.register_keras_serializable(package="ut_keras")
class Convolution(dense.WithKernels):
    """A convolution over positions, `y = W * x + b`, whose output has the length of the input.

    As in T2T, the kernel has a width, although the sequence has width 1: `x` is an image of shape
    [S, 1]. Only the column in the middle of a wide kernel reads the sequence. The others read zeros
    beyond its edges.

    Args:
        units: int. Channels of the output.
        kernel_height: int. Number of positions that the kernel reads.
        kernel_width: int. Width of the kernel.
        bias_initializer: Keras initializer.
        kernel_initializer: Keras initializer.

    Call arguments:
        x: float tensor [B, S, C].

    Returns:
        float tensor [B, S, units].

    Raises:
        ValueError: if a size of the kernel is less than 1.

    References: T2T `common_layers.conv` with padding "SAME".
    """

    def __init__(
        self,
        units: int,
        kernel_height: int = 3,
        kernel_width: int = 1,
        bias_initializer: Initializer = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_least("kernel_height", kernel_height, 1)
        check_least("kernel_width", kernel_width, 1)
        self.units = units
        self.kernel_height = kernel_height
        self.kernel_width = kernel_width
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, x_shape: Shape) -> None:
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.kernel_height, self.kernel_width, x_shape[-1], self.units),
            initializer=self.kernel_initializer.clone(),  # as in `Dense`
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.units,), initializer=self.bias_initializer
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        kernel = tf.cast(tf.convert_to_tensor(self.kernel), x.dtype)
        y = tf.nn.conv2d(tf.expand_dims(x, 2), kernel, strides=1, padding="SAME")
        return tf.nn.bias_add(tf.squeeze(y, 2), tf.cast(tf.convert_to_tensor(self.bias), x.dtype))

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape[:-1], self.units)
