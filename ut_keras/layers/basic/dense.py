"""A linear map over the last axis, and what is made of such maps."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic.layer import Layer, PositionWise, check_choice
from ut_keras.layers.basic.signature import Initializer, Shape

FEW_ROWS = 8  # of an example, as while decoding


class WithKernels(Layer):
    """A layer with kernels, its own or of dense layers inside it.

    Args:
        kernel_initializer: Keras initializer, of all of them.
    """

    def __init__(self, kernel_initializer: Initializer = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def _dense(self, units, name, input_size, **arguments):
        """A `Dense` inside, built."""
        made = sublayer(self, units, name, **arguments)
        made.build((None, input_size))
        return made


@keras.saving.register_keras_serializable(package="ut_keras")
class Dense(WithKernels, PositionWise):
    """Linear map over the last axis, `y = activation(x W + b)`.

    The batch axes are folded into one, so that it is a single matrix product in every pass.
    `keras.layers.Dense` computes the same; its contraction of a rank-3 tensor costs more on a CPU.

    Args:
        units: int. Size of the last axis of the output.
        use_bias: bool. T2T's attention projections have none.
        activation: None or "relu".
        kernel_initializer: Keras initializer. T2T's `uniform_unit_scaling` is "glorot_uniform".
    Call arguments:
        x: float tensor [..., C], rank >= 2.
    Returns:
        float tensor [..., units].
    References: T2T `common_layers.dense`.
    """

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        activation: str | None = None,
        bias_initializer: Initializer = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("activation", activation, (None, "relu"))
        self.units = units
        self.use_bias = use_bias
        self.activation = activation
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, input_shape: Shape) -> None:
        self.kernel = self.add_weight(
            name="kernel",
            shape=(input_shape[-1], self.units),
            # A Keras initializer draws the same numbers at each call: the q, k and v of an
            # attention, which are given one initializer, would begin alike.
            initializer=self.kernel_initializer.clone(),
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.units,), initializer=self.bias_initializer
            )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.apply_kernel(x, self.kernel)

    def apply_kernel(self, x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """The map with another kernel in place of the layer's."""
        y = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), kernel)
        rows = x.shape[1:-1].num_elements() or 0  # of an example; None if unknown
        few_rows = 0 < rows <= FEW_ROWS
        if few_rows:  # product and bias are faster one by one
            y = tf.reshape(y, [-1, *x.shape[1:-1], self.units])
        if self.use_bias:
            y = y + self.bias if few_rows else tf.nn.bias_add(y, self.bias)
        if self.activation == "relu":
            y = tf.nn.relu(y)
        if not few_rows:
            y = tf.reshape(y, tf.concat([tf.shape(x)[:-1], [self.units]], axis=0))
        y.set_shape(x.shape[:-1] + [self.units])
        return y

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)


def sublayer(layer: Any, units: int, name: str, **arguments: Any) -> Dense:
    """A `Dense` inside of another layer: by its initializer, if none is given, and dtype policy."""
    arguments.setdefault("kernel_initializer", layer.kernel_initializer)
    return Dense(units, name=name, dtype=layer.dtype_policy, **arguments)
