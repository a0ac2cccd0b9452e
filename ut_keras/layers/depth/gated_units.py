"""The recurrent units GRU and LSTM, as one step of them; in T2T's form."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.layers.basic import dense
from ut_keras.layers.basic.layer import Layer
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.depth import gate


class LSTMState(NamedTuple):
    """What an LSTM hands on."""

    output: tf.Tensor  # [B, S, D]
    cell: tf.Tensor  # [B, S, D]


class _GatedUnit(Layer):
    """What both have: gates over input and state, each with one matrix and a bias."""

    def __init__(self, zero_at_padding=False, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.zero_at_padding = zero_at_padding
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def _make_gate(self, name, x_shape, activation="sigmoid", bias=0.0):
        made = gate.Gate(
            dense.inside(
                self, x_shape[-1], "map", bias_initializer=keras.initializers.Constant(bias)
            ),
            activation,
            self.zero_at_padding,
            name=name,
            dtype=self.dtype_policy,
        )
        made.build([x_shape, x_shape])
        return made


@keras.saving.register_keras_serializable(package="ut_keras")
class GRUUnit(_GatedUnit):
    """A step of a GRU.

        z = sigmoid(W_z [x; h] + b_z);  r = sigmoid(W_r [x; h] + b_r);  c = tanh(W [x; r·h] + b)
        h' = (1 - z) · x + z · c                         (Cho et al. 2014, but for this line)

    T2T mixes the candidate with the input x, not with the state h. Both gates start with bias 1.

    Args:
        zero_at_padding: bool. Whether gates and candidate are 0 at padding (see `Gate`), so that
            x passes through.
        kernel_initializer: Keras initializer.
    Call arguments:
        x: float tensor [B, S, D].
        state: float tensor [B, S, D], h.
        padding_mask: bool tensor [B, S], True at real tokens. Optional.
    Returns:
        float tensor [B, S, D].
    """

    def build(self, x_shape: Shape) -> None:
        self.update = self._make_gate("update", x_shape, bias=1.0)
        self.reset = self._make_gate("reset", x_shape, bias=1.0)
        self.candidate = self._make_gate("candidate", x_shape, "tanh")

    def call(
        self, x: tf.Tensor, state: tf.Tensor, padding_mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        update = self.update([x, state], padding_mask=padding_mask)
        reset = self.reset([x, state], padding_mask=padding_mask)
        candidate = self.candidate([x, reset * state], padding_mask=padding_mask)
        return (1 - update) * x + update * candidate

    def compute_output_shape(self, x_shape: Shape, *_: Any) -> Shape:
        return x_shape


@keras.saving.register_keras_serializable(package="ut_keras")
class LSTMUnit(_GatedUnit):
    """A step of an LSTM.

        i, o = sigmoid(W [x; h] + b);   f = sigmoid(W_f [x; h] + b_f + forget_bias)
        c' = f · c + i · tanh(W_m [x; h] + b_m);   h' = o · tanh(c')
                                                                     (Gers et al. 2000)

    Args:
        forget_bias: float.
        zero_at_padding: bool. Whether gates are 0 at padding (see `Gate`); f without its sigmoid
            and `forget_bias`.
        kernel_initializer: Keras initializer.
    Call arguments:
        x: float tensor [B, S, D].
        state: `LSTMState`, h and c.
        padding_mask: bool tensor [B, S], True at real tokens. Optional.
    Returns:
        `LSTMState`.
    """

    def __init__(self, forget_bias: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.forget_bias = forget_bias

    def build(self, x_shape: Shape) -> None:
        self.input_gate = self._make_gate("input", x_shape)
        self.forget_gate = self._make_gate("forget", x_shape, None)
        self.output_gate = self._make_gate("output", x_shape)
        self.modulation = self._make_gate("input_modulation", x_shape, "tanh")

    def call(
        self, x: tf.Tensor, state: LSTMState, padding_mask: tf.Tensor | None = None
    ) -> LSTMState:
        inputs = [x, state.output]
        admitted = self.input_gate(inputs, padding_mask=padding_mask)
        kept = tf.sigmoid(self.forget_gate(inputs, padding_mask=padding_mask) + self.forget_bias)
        shown = self.output_gate(inputs, padding_mask=padding_mask)
        news = self.modulation(inputs, padding_mask=padding_mask)
        cell = kept * state.cell + admitted * news
        return LSTMState(shown * tf.tanh(cell), cell)

    def compute_output_shape(self, x_shape: Shape, *_: Any) -> LSTMState:
        return LSTMState(x_shape, x_shape)
