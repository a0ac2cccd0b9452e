"""A dense layer, and the base class of layers that contain dense layers."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic.layer import Layer, PositionWise, check_choice
from ut_keras.layers.basic.signature import Initializer, Shape
from ut_keras.ops import bias as bias_lib
from ut_keras.ops import custom_gradient, private_api

# For examples with at most this number of rows, as in decoding, `Dense` uses a code path that is
# faster for few rows.
FEW_ROWS = 8


class WithKernels(Layer):
    """Base class of layers that have kernels or dense sublayers with kernels.

    Args:
        kernel_initializer: Keras initializer of all kernels.
    """

    def __init__(self, kernel_initializer: Initializer = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def _dense(self, units, name, input_size, **arguments):
        """Make and build a dense sublayer."""
        made = sublayer(self, units, name, **arguments)
        made.build((None, input_size))
        return made


@keras.saving.register_keras_serializable(package="ut_keras")
class Dense(WithKernels, PositionWise):
    """Dense layer over the last axis, `y = activation(x W + b)`.

    `keras.layers.Dense` computes the same result. This layer is faster on a CPU for inputs of rank
    3. It folds all axes except the last into one axis, so the forward pass and each gradient
    compute a single matrix product.

    Args:
        units: int. Size of the last axis of the output.
        use_bias: bool. T2T's attention projections have no bias.
        activation: None or "relu".
        bias_initializer: Keras initializer.
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
            # A Keras initializer returns the same numbers at each call. The q, k and v kernels of
            # an attention layer share one initializer. Without `clone`, these kernels would be
            # equal.
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
        """Apply the layer with `kernel` instead of its own kernel."""
        return self._apply(x, kernel, self.activation)

    def without_activation(self, x: tf.Tensor) -> tf.Tensor:
        """Return x W + b."""
        return self._apply(x, self.kernel, None)

    def _apply(self, x, kernel, activation):
        y = _product(x, kernel)
        rows = x.shape[1:-1].num_elements() or 0  # the rows per example, or 0 if unknown
        few_rows = 0 < rows <= FEW_ROWS
        if few_rows:  # separate operations for product and bias are faster
            y = tf.reshape(y, [-1, *x.shape[1:-1], self.units])
        if self.use_bias:
            y = y + self.bias if few_rows else bias_lib.add(y, self.bias)
        if activation == "relu":
            y = tf.nn.relu(y)
        if not few_rows:
            y = tf.reshape(y, tf.concat([tf.shape(x)[:-1], [self.units]], axis=0))
        y.set_shape(x.shape[:-1] + [self.units])
        return y

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)


def _product(x, kernel):
    """Return the product of `x` [..., C] and a kernel [C, units], as [rows, units].

    TensorFlow's own gradient reads the reshaped `x`. A loop over recurrence steps would store it
    for each step, in addition to `x`. Under XLA, the gradient reads `x` and reshapes it again.
    """
    if not private_api.is_compiled_by_xla():
        return tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), kernel)

    @custom_gradient.wrap
    def product(x, kernel):
        def gradient(upstream):
            rows = tf.reshape(x, [-1, x.shape[-1]])
            rows_gradient = tf.matmul(upstream, kernel, transpose_b=True)
            kernel_gradient = tf.matmul(rows, upstream, transpose_a=True)
            return tf.reshape(rows_gradient, tf.shape(x)), kernel_gradient

        return tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), kernel), gradient

    return product(x, tf.convert_to_tensor(kernel))


def sublayer(layer: Any, units: int, name: str, **arguments: Any) -> Dense:
    """Return a `Dense` with the dtype policy of the layer that will contain it.

    Args:
        layer: layer with a `dtype_policy`. If `arguments` has no `kernel_initializer`, the layer
            must also have a `kernel_initializer`.
        units, name, arguments: as for `Dense`.
    """
    arguments.setdefault("kernel_initializer", layer.kernel_initializer)
    return Dense(units, name=name, dtype=layer.dtype_policy, **arguments)
