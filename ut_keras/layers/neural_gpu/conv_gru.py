"""The gated convolutional unit of the Neural GPU."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.layers.basic import dense
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.neural_gpu import convolution


class UnitOutput(NamedTuple):
    """The result of a gated convolutional unit."""

    state: tf.Tensor  # [B, S, D]
    # float32 [B], the saturation of the gates, averaged over positions and channels. None if the
    # unit does not penalize saturation.
    saturation: tf.Tensor | None = None


class GatedConvolution(dense.WithKernels):
    """Base class of gated units with convolutions "reset", "gate" and "candidate".

    A subclass computes the new state in `_update`, and sets the initial biases of the convolutions.

    Args:
        hidden_size: int D, channels of the state.
        kernel_height, kernel_width: int. Size of the kernels. See `Convolution`.
        mask_padding: bool. Whether the state stays 0 at padding, so that padding does not affect
            real positions. As in T2T, the default is False.
        kernel_initializer: Keras initializer.

    Call arguments:
        x: float tensor [B, S, D].
        padding_mask: bool tensor [B, S], True at real tokens. It has an effect only if
            `mask_padding` is True.

    Returns:
        `UnitOutput`.
    """

    biases = (0.0, 0.0, 0.0)  # the initial biases of reset, gate and candidate

    def __init__(
        self,
        hidden_size: int,
        kernel_height: int = 3,
        kernel_width: int = 1,
        mask_padding: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.kernel_height = kernel_height
        self.kernel_width = kernel_width
        self.mask_padding = mask_padding

    def build(self, x_shape: Shape) -> None:
        self.reset, self.gate, self.candidate = (
            convolution.Convolution(
                self.hidden_size,
                self.kernel_height,
                self.kernel_width,
                keras.initializers.Constant(bias),
                kernel_initializer=self.kernel_initializer,
                name=name,
                dtype=self.dtype_policy,
            )
            for name, bias in zip(("reset", "gate", "candidate"), self.biases, strict=True)
        )
        for part in (self.reset, self.gate, self.candidate):
            part.build((None, None, self.hidden_size))

    def call(
        self,
        x: tf.Tensor,
        padding_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> UnitOutput:
        mask = None
        if self.mask_padding and padding_mask is not None:
            mask = tf.expand_dims(tf.convert_to_tensor(padding_mask), -1)
        result = self._update(tf.cast(x, self.compute_dtype), mask, training)
        return result if mask is None else result._replace(state=tf.where(mask, result.state, 0))

    def _update(self, x, mask, training):
        """Return the `UnitOutput`.

        `mask` is bool [B, S, 1], or None if the unit does not mask padding.
        """
        raise NotImplementedError

    def compute_output_shape(self, x_shape: Shape, *_: Any) -> UnitOutput:
        return UnitOutput((*x_shape[:-1], self.hidden_size))


@keras.saving.register_keras_serializable(package="ut_keras")
class ConvGRU(GatedConvolution):
    """A GRU whose matrix products are convolutions over positions.

        r = sigma(W_r * x + b_r),   u = sigma(W_u * x + b_u)
        c = tanh(W_c * (r · x) + b_c)
        x' = u · x + (1 - u) · c
        sigma(z) = min(1, max(0, 1.2 sigmoid(z) - 0.1))

    Unlike the sigmoid, sigma reaches the values 0 and 1.

    Arguments, call arguments and returns: as `GatedConvolution`. The saturation is None.

    References: Kaiser & Sutskever 2016, Neural GPUs Learn Algorithms; T2T `common_layers.conv_gru`.
    """

    biases = (1.0, 1.0, 0.0)

    def _update(self, x, mask, training):
        reset, gate = _saturating_sigmoid(self.reset(x)), _saturating_sigmoid(self.gate(x))
        candidate = tf.tanh(self.candidate(reset * x))
        return UnitOutput(gate * x + (1 - gate) * candidate)


def _saturating_sigmoid(x):
    return tf.minimum(tf.maximum(1.2 * tf.sigmoid(x) - 0.1, 0.0), 1.0)
