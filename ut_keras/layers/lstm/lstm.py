"""Stacked and bidirectional LSTMs over a sequence."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.layers.basic import dense, dropout, empty_safe_scan
from ut_keras.layers.basic.signature import Shape
from ut_keras.ops import bias as bias_lib


class LSTMState(NamedTuple):
    """The state that an LSTM passes from a position to the next position."""

    output: tf.Tensor  # [B, S, D]
    cell: tf.Tensor  # [B, S, D]


class LSTMOutput(NamedTuple):
    """The result of stacked LSTMs over a sequence."""

    output: tf.Tensor  # [B, S, D], the output of the last layer, which is 0 at padding
    states: tuple  # for each layer, the `LSTMState` [B, D] after the last real position


@keras.saving.register_keras_serializable(package="ut_keras")
class LSTMCell(dense.WithKernels):
    """Computes one LSTM layer at one position.

        i, j, f, o = [x; h] W + b
        c' = sigmoid(f + forget_bias) · c + sigmoid(i) · tanh(j)
        h' = sigmoid(o) · tanh(c')

    The product of x and W does not depend on the state. Therefore `project` computes it for all
    positions at once, and `step` computes the rest for one position.

    Args:
        hidden_size: int D.
        forget_bias: float. A constant that is added to the forget gate f before the sigmoid. The
            learned bias b contributes to f as well.
        kernel_initializer: Keras initializer.

    Call arguments:
        x: float tensor [B, C].
        state: `LSTMState` [B, D] of h and c.

    Returns:
        `LSTMState` [B, D] of h' and c'.

    References: Hochreiter & Schmidhuber 1997; TensorFlow 1's `LSTMCell`. This layer can load
        checkpoints of TensorFlow 1's `LSTMCell`.
    """

    def __init__(self, hidden_size: int, forget_bias: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.forget_bias = forget_bias

    def build(self, x_shape: Shape) -> None:
        self.kernel = self.add_weight(
            name="kernel",
            shape=(x_shape[-1] + self.hidden_size, 4 * self.hidden_size),
            initializer=self.kernel_initializer.clone(),
        )
        self.bias = self.add_weight(name="bias", shape=(4 * self.hidden_size,), initializer="zeros")

    def call(self, x: tf.Tensor, state: LSTMState) -> LSTMState:
        return self.step(self.project(x), state)

    def project(self, x: tf.Tensor) -> tf.Tensor:
        """Multiply the input with the kernel: [..., C'] -> [..., 4 D].

        `x` may contain only the first C' of the C features. The method then uses only the
        corresponding part of the kernel.
        """
        num_features = x.shape[-1]
        kernel = tf.cast(tf.convert_to_tensor(self.kernel)[:num_features], x.dtype)
        flat = bias_lib.add(tf.matmul(tf.reshape(x, [-1, num_features]), kernel), self.bias)
        return tf.reshape(flat, tf.concat([tf.shape(x)[:-1], [4 * self.hidden_size]], axis=0))

    def step(
        self, projected: tf.Tensor, state: LSTMState, rest: tf.Tensor | None = None
    ) -> LSTMState:
        """Compute one position.

        Args:
            projected: float tensor [B, 4 D], from `project`.
            state: `LSTMState` [B, D].
            rest: float tensor [B, C - C'], the features that `project` did not read. None if
                `project` read all features.
        """
        recurrent = state.output if rest is None else tf.concat([rest, state.output], axis=-1)
        kernel = tf.convert_to_tensor(self.kernel)[-recurrent.shape[-1] :]
        gates = projected + tf.matmul(recurrent, tf.cast(kernel, projected.dtype))
        i, j, f, o = tf.split(gates, 4, axis=-1)
        kept = tf.sigmoid(f + tf.cast(self.forget_bias, f.dtype)) * state.cell
        cell = kept + tf.sigmoid(i) * tf.tanh(j)
        return LSTMState(tf.sigmoid(o) * tf.tanh(cell), cell)

    def zero_state(self, batch_size: tf.Tensor) -> LSTMState:
        """Return an `LSTMState` of zeros, [B, D]."""
        zeros = tf.zeros([batch_size, self.hidden_size], self.compute_dtype)
        return LSTMState(zeros, zeros)

    def compute_output_shape(self, x_shape: Shape, *_: Any) -> LSTMState:
        shape = (x_shape[0], self.hidden_size)
        return LSTMState(shape, shape)


class StackedCells(dense.WithKernels):
    """Base class of stacked LSTMs.

    Args:
        num_layers: int.
        hidden_size: int D.
        dropout_rate: float in [0, 1). Dropout of the input of each layer, not of its state.
        kernel_initializer: Keras initializer.
    """

    def __init__(
        self, num_layers: int, hidden_size: int, dropout_rate: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.hidden_size = hidden_size
        self.dropout_rate = dropout_rate

    def _make_cells(self, width):
        """Return tuples of cells and of dropout layers, one for each layer of the stack.

        Args:
            width: int, the size of the input.
        """
        cells, dropouts = [], []
        for number in range(self.num_layers):
            cell = LSTMCell(
                self.hidden_size,
                kernel_initializer=self.kernel_initializer,
                name=f"cell_{number}",
                dtype=self.dtype_policy,
            )
            cell.build((None, self.hidden_size if number else width))
            cells.append(cell)
            dropouts.append(dropout.Dropout(self.dropout_rate, dtype=self.dtype_policy))
        return tuple(cells), tuple(dropouts)


@keras.saving.register_keras_serializable(package="ut_keras")
class LSTMStack(StackedCells):
    """Stacked LSTMs over a sequence.

    Args:
        num_layers, hidden_size, dropout_rate, kernel_initializer: as `StackedCells`.
        backward: bool. Whether to process the positions from the last to the first.

    Call arguments:
        x: float tensor [B, S, C].
        padding_mask: bool tensor [B, S], True at real tokens. Optional. The states do not change
            at padding.
        initial_states: tuple of `LSTMState`, one per layer. Default: zeros.

    Returns:
        `LSTMOutput`.

    References: T2T `models/lstm.py`, `lstm`.
    """

    def __init__(
        self,
        num_layers: int,
        hidden_size: int,
        dropout_rate: float = 0.0,
        backward: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, hidden_size, dropout_rate, **kwargs)
        self.backward = backward

    def build(self, x_shape: Shape) -> None:
        self.cells, self.dropouts = self._make_cells(x_shape[-1])

    def call(
        self,
        x: tf.Tensor,
        padding_mask: tf.Tensor | None = None,
        initial_states: Sequence[LSTMState] | None = None,
        training: bool | None = None,
    ) -> LSTMOutput:
        x = tf.transpose(tf.cast(x, self.compute_dtype), [1, 0, 2])
        real = tf.ones(tf.shape(x)[:2], tf.bool)
        if padding_mask is not None:
            real = tf.transpose(tf.convert_to_tensor(padding_mask))
        if self.backward:
            x, real = tf.reverse(x, [0]), tf.reverse(real, [0])
        states = []
        for number, cell in enumerate(self.cells):
            initial = cell.zero_state(tf.shape(x)[1])
            if initial_states is not None:
                initial = initial_states[number]
            projected = cell.project(self.dropouts[number](x, training=training))
            after = _scan_positions(cell, projected, real, initial)
            x = tf.where(real[..., tf.newaxis], after.output, 0)
            states.append(empty_safe_scan.last_state(after, initial))
        if self.backward:
            x = tf.reverse(x, [0])
        return LSTMOutput(tf.transpose(x, [1, 0, 2]), tuple(states))

    def compute_output_shape(self, x_shape: Shape, *_: Any) -> LSTMOutput:
        state = LSTMState(*2 * ((x_shape[0], self.hidden_size),))
        return LSTMOutput((*x_shape[:-1], self.hidden_size), (state,) * self.num_layers)


@keras.saving.register_keras_serializable(package="ut_keras")
class BidirectionalLSTM(StackedCells):
    """Concatenates the outputs of two `LSTMStack`s, one forward and one backward.

    Arguments: as `StackedCells`, for each stack.

    Call arguments:
        x, padding_mask, training: as in `LSTMStack`.

    Returns:
        `LSTMOutput` with output [B, S, 2 D] and states [B, 2 D].

    References: Schuster & Paliwal 1997; T2T `models/lstm.py`, `lstm_bid_encoder`.
    """

    def build(self, x_shape: Shape) -> None:
        self.stacks = tuple(
            LSTMStack(
                self.num_layers,
                self.hidden_size,
                self.dropout_rate,
                backward=name == "bw",
                kernel_initializer=self.kernel_initializer,
                name=name,
                dtype=self.dtype_policy,
            )
            for name in ("fw", "bw")
        )
        for stack in self.stacks:
            stack.build(x_shape)

    def call(
        self, x: tf.Tensor, padding_mask: tf.Tensor | None = None, training: bool | None = None
    ) -> LSTMOutput:
        outputs = [stack(x, padding_mask=padding_mask, training=training) for stack in self.stacks]
        return tf.nest.map_structure(lambda *both: tf.concat(both, axis=-1), *outputs)

    def compute_output_shape(self, x_shape: Shape, *_: Any) -> LSTMOutput:
        state = LSTMState(*2 * ((x_shape[0], 2 * self.hidden_size),))
        return LSTMOutput((*x_shape[:-1], 2 * self.hidden_size), (state,) * self.num_layers)


def _scan_positions(cell, projected, real, initial):
    """Return the `LSTMState` after each position, [S, B, D]."""

    def take_step(state, now):
        projected, real = now
        new = cell.step(projected, state)
        return LSTMState(*(tf.where(real, n, o) for n, o in zip(new, state, strict=True)))

    return empty_safe_scan.scan(take_step, (projected, real[..., tf.newaxis]), initial)
