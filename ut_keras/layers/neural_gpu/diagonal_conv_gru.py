"""The gated convolutional unit of the improved Neural GPU."""

from typing import Any, Literal

import keras
import tensorflow as tf

from ut_keras.layers.basic import dropout
from ut_keras.layers.basic.layer import check_choice
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.neural_gpu import conv_gru

SHIFT_AXES = ("width", "length")
_SATURATION_LIMIT = 0.9


@keras.saving.register_keras_serializable(package="ut_keras")
class DiagonalConvGRU(conv_gru.GatedConvolution):
    """A convolutional GRU with hard gates, which shifts two thirds of its channels.

        r = hard(W_r * x + b_r),   u = hard(W_u * x + b_u),   hard(z) = min(1, max(0, (z + 1) / 2))
        c = dropout(tanh(W_c * (r · x) + b_c))
        x' = u · shift(x) + (1 - u) · c

    The first D - 2 (D // 3) channels of shift(x) come from the position itself. The next D // 3
    channels come from the previous position, and the last D // 3 channels from the next position.
    The saturation is

        mean over positions and channels of max(0, |z| - 0.9), averaged over the two gates

    T2T shifts along the width of the state instead of along the positions. Because the width is 1,
    the shifted channels are 0. `shift_axis="length"` shifts along the positions, as in the paper.

    Args:
        hidden_size, kernel_height, kernel_width, mask_padding: as for `GatedConvolution`. With
            `mask_padding`, the saturation does not include padding.
        shift_axis: "width", as in T2T, or "length".
        dropout_rate: float in [0, 1). Dropout of the candidate c.
        **kwargs: the arguments of `GatedConvolution`.

    Call arguments and returns: as `GatedConvolution`.

    Raises:
        ValueError: if `shift_axis` is neither "width" nor "length".

    References: Freivalds & Liepins 2017, Improving the Neural GPU Architecture for Algorithm
        Learning; T2T `common_layers.diagonal_conv_gru`.
    """

    biases = (0.5, 0.7, 0.0)

    def __init__(
        self,
        hidden_size: int,
        kernel_height: int = 3,
        kernel_width: int = 1,
        mask_padding: bool = False,
        shift_axis: Literal["width", "length"] = "width",
        dropout_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(hidden_size, kernel_height, kernel_width, mask_padding, **kwargs)
        check_choice("shift_axis", shift_axis, SHIFT_AXES)
        self.shift_axis = shift_axis
        self.dropout_rate = dropout_rate

    def build(self, x_shape: Shape) -> None:
        super().build(x_shape)
        self.candidate_dropout = dropout.sublayer(self)

    def _update(self, x, mask, training):
        reset, gate = self.reset(x), self.gate(x)
        saturation = 0.5 * (_saturation(reset, mask) + _saturation(gate, mask))
        reset, gate = _hard_sigmoid(reset), _hard_sigmoid(gate)
        candidate = tf.tanh(self.candidate(reset * x))
        candidate = self.candidate_dropout(candidate, training=training)
        state = gate * self._shift(x) + (1 - gate) * candidate
        return conv_gru.UnitOutput(state, saturation)

    def _shift(self, x):
        """Return shift(x), [B, S, D]. See the class."""
        shifted = self.hidden_size // 3
        kept = self.hidden_size - 2 * shifted
        if self.shift_axis == "width":
            return tf.pad(x[..., :kept], [[0, 0], [0, 0], [0, 2 * shifted]])
        before = tf.pad(x[..., kept : kept + shifted], [[0, 0], [1, 0], [0, 0]])[:, :-1]
        after = tf.pad(x[..., kept + shifted :], [[0, 0], [0, 1], [0, 0]])[:, 1:]
        return tf.concat([x[..., :kept], before, after], axis=-1)


def _hard_sigmoid(x):
    return tf.minimum(tf.nn.relu(0.5 * x + 0.5), 1.0)


def _saturation(x, mask):
    """Return the saturation of gate values, averaged over real positions: float32 [B]."""
    excess = tf.reduce_mean(tf.nn.relu(tf.abs(tf.cast(x, tf.float32)) - _SATURATION_LIMIT), axis=2)
    if mask is None:
        return tf.reduce_mean(excess, axis=1)
    real = tf.cast(mask[..., 0], tf.float32)
    return tf.math.divide_no_nan(tf.reduce_sum(excess * real, axis=1), tf.reduce_sum(real, axis=1))
