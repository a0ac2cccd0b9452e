"""A convolution over positions, with the kernel shape of T2T's checkpoints."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic import dense
from ut_keras.layers.basic.layer import check_least
from ut_keras.layers.basic.signature import Initializer, Shape
from ut_keras.ops import bias as bias_lib


@keras.saving.register_keras_serializable(package="ut_keras")
class Convolution(dense.WithKernels):
    """A convolution over positions, `y = W * x + b`.

    Input and output have the same length.

    As in T2T, the layer treats `x` as an image of height S and width 1, so the kernel has a height
    and a width. If the kernel is wider than 1, only its middle column reads the sequence. The other
    columns read the zeros outside of the image.

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
            initializer=self.kernel_initializer.clone(),  # `Dense.build` gives the reason
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.units,), initializer=self.bias_initializer
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        kernel = tf.cast(tf.convert_to_tensor(self.kernel), x.dtype)
        y = tf.nn.conv2d(tf.expand_dims(x, 2), kernel, strides=1, padding="SAME")
        return bias_lib.add(tf.squeeze(y, 2), self.bias)

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape[:-1], self.units)
