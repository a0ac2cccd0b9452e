"""Recurrences in depth whose transition is a GRU or LSTM, unrolled over steps."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema.field import HParamError
from ut_keras.layers.basic import dense, from_hparams, prepostprocess
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.depth import gate, recurrence, recurrence_arguments, stack, transformer_layer
from ut_keras.layers.depth.recurrence import Constants, RecurrenceState, StepOutput
from ut_keras.layers.lstm.lstm import LSTMState


class _GatedUnit(dense.WithKernels):
    """Base class of units with gates. Each gate has one matrix over [x; h] and a bias."""

    def __init__(self, zero_at_padding=False, **kwargs):
        super().__init__(**kwargs)
        self.zero_at_padding = zero_at_padding

    def _make_gate(self, name, x_shape, activation="sigmoid", bias=0.0):
        initializer = keras.initializers.Constant(bias)
        weighted = dense.sublayer(self, x_shape[-1], "map", bias_initializer=initializer)
        made = gate.Gate(
            weighted, activation, self.zero_at_padding, name=name, dtype=self.dtype_policy
        )
        made.build([x_shape, x_shape])
        return made


@keras.saving.register_keras_serializable(package="ut_keras")
class GRUUnit(_GatedUnit):
    """A step of a GRU, with T2T's output equation.

        z = sigmoid(W_z [x; h] + b_z)            (Cho et al. 2014)
        r = sigmoid(W_r [x; h] + b_r)
        c = tanh(W [x; r·h] + b)
        h' = (1 - z) · x + z · c                 (T2T)

    T2T mixes the candidate c with the input x. Cho et al. mix it with the state h. The biases of
    both gates start at 1.

    Args:
        zero_at_padding: bool. Whether gates and candidate are 0 at padding (see `Gate`). If True,
            the output at padding is x.
        kernel_initializer: Keras initializer.

    Call arguments:
        x: float tensor [B, S, D].
        state: float tensor [B, S, D], the state h.
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


@keras.saving.register_keras_serializable(package="ut_keras")
class LSTMUnit(_GatedUnit):
    """A step of an LSTM.

        i, o = sigmoid(W [x; h] + b)                       (Gers et al. 2000)
        f = sigmoid(W_f [x; h] + b_f + forget_bias)
        c' = f · c + i · tanh(W_m [x; h] + b_m)
        h' = o · tanh(c')

    Args:
        forget_bias: float. A constant that is added to the learned bias b_f.
        zero_at_padding: bool. Whether the gates are 0 at padding (see `Gate`). In the forget gate,
            W_f [x; h] + b_f is 0 at padding, so f = sigmoid(forget_bias).
        kernel_initializer: Keras initializer.

    Call arguments:
        x: float tensor [B, S, D].
        state: `LSTMState` of h and c.
        padding_mask: bool tensor [B, S], True at real tokens. Optional.

    Returns:
        `LSTMState` of h' and c'.
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
        input_gate = self.input_gate(inputs, padding_mask=padding_mask)
        forget_gate = self.forget_gate(inputs, padding_mask=padding_mask)
        forget_gate = tf.sigmoid(forget_gate + self.forget_bias)
        output_gate = self.output_gate(inputs, padding_mask=padding_mask)
        candidate = self.modulation(inputs, padding_mask=padding_mask)
        cell = forget_gate * state.cell + input_gate * candidate
        return LSTMState(output_gate * tf.tanh(cell), cell)


class GatedUnitRecurrence(recurrence.Recurrence, prepostprocess.Processing):
    """Base class of recurrences in which a recurrent unit follows the attention.

        x = Norm(Block(H_{t-1} + P_t))
        H_t = Norm(Unit(x, H_{t-1}))         input x, state H_{t-1}

    P_t should not contain a step signal, because the unit can count steps itself. T2T raises an
    error for a step signal.

    Args:
        block: a `TransformerBlock` with one layer. By default, the layer has no transition. With
            T2T's `add_ffn_unit_to_the_transition_function`, the layer has a transition, and the
            unit reads the transition's output.
        timing, num_steps: as in `Recurrence`.
        unit: a `GRUUnit` or `LSTMUnit`.
        preprocess_sequence: str, the sequence of both norms. See `PrePostProcess`.
        **kwargs: the arguments of `Recurrence` and `Processing`.

    Call arguments and returns: as in `Recurrence`.
    """

    layer_attributes = (
        *recurrence.Recurrence.layer_attributes,
        "unit",
        "before_unit",
        "after_unit",
    )

    def __init__(
        self, *args: Any, unit: keras.layers.Layer, preprocess_sequence: str = "n", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.unit = unit
        self.preprocess_sequence = preprocess_sequence
        self.before_unit, self.after_unit = self.make_prepostprocesses(preprocess_sequence, 2)

    def take_step(self, loop: RecurrenceState, constants: Constants) -> StepOutput:
        result = constants.transform(loop.state, loop.step)
        x = self.before_unit(result.output, training=constants.training)
        y, carried = self.apply_unit(x, loop, constants.padding_mask)
        y = self.after_unit(y, training=constants.training)
        return StepOutput(y, carried, result)

    def apply_unit(
        self, x: tf.Tensor, loop: RecurrenceState, padding_mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, tuple]:
        """Apply the unit.

        Returns:
            (output [B, S, D], tuple of the tensors that the loop carries in addition to the state).
            In this class the tuple is empty.
        """
        return self.unit(x, loop.state, padding_mask=padding_mask), ()


@keras.saving.register_keras_serializable(package="ut_keras")
class GRURecurrence(GatedUnitRecurrence):
    """A `GatedUnitRecurrence` with a `GRUUnit` (`recurrence_type="gru"`).

    Arguments, call arguments and returns: as `GatedUnitRecurrence`.

    References: T2T `universal_transformer_with_gru_as_transition_function`.
    """


@keras.saving.register_keras_serializable(package="ut_keras")
class LSTMRecurrence(GatedUnitRecurrence):
    """A `GatedUnitRecurrence` with an `LSTMUnit` (`recurrence_type="lstm"`).

    The cell starts at 0.

    Args:
        cell_as_output: bool. Whether the output is the cell after the last step instead of the
            state (T2T's `use_memory_as_final_state`).
        others: as `GatedUnitRecurrence`.

    Call arguments and returns: as `GatedUnitRecurrence`.

    References: T2T `universal_transformer_with_lstm_as_transition_function`.
    """

    def __init__(self, *args: Any, cell_as_output: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cell_as_output = cell_as_output

    def start(self, state: tf.Tensor, num_steps: int) -> tuple:
        return (tf.zeros_like(state),)

    def apply_unit(
        self, x: tf.Tensor, loop: RecurrenceState, padding_mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, tuple]:
        (cell,) = loop.carried
        result = self.unit(x, LSTMState(loop.state, cell), padding_mask=padding_mask)
        return result.output, (result.cell,)

    def finish(self, last: RecurrenceState) -> tf.Tensor:
        return last.carried[0] if self.cell_as_output else last.state


@parts.recurrences.register("gru")
def _make_gru(hp, side):
    unit = GRUUnit(**_unit_arguments(hp, side), name="gru")
    return GRURecurrence(**_arguments(hp, side), unit=unit)


@parts.recurrences.register("lstm")
def _make_lstm(hp, side):
    unit = LSTMUnit(hp.lstm_forget_bias, **_unit_arguments(hp, side), name="lstm")
    return LSTMRecurrence(
        **_arguments(hp, side), unit=unit, cell_as_output=hp.use_memory_as_final_state
    )


def _arguments(hp, side):
    """Return the arguments that `GRURecurrence` and `LSTMRecurrence` share."""
    if hp.add_step_timing_signal:
        raise HParamError(
            f"recurrence_type={hp.recurrence_type!r} requires add_step_timing_signal=False, "
            "as in T2T: the unit can count steps itself. Received: add_step_timing_signal=True."
        )
    with_transition = hp.add_ffn_unit_to_the_transition_function
    transition = stack.make_transition(hp, side) if with_transition else None
    layer = transformer_layer.make(hp, side, transition)
    arguments = recurrence_arguments.arguments(hp, side)
    # This block replaces the block of `arguments`, whose layers have a transition. The layers of
    # the replaced block have already sampled random seeds with Python's generator. If they
    # had sampled none, all later layers would get other initial weights than in earlier versions.
    arguments["block"] = stack.TransformerBlock(
        [layer], "unit_layer", name="block", dtype=from_hparams.dtype_policy(hp)
    )
    return {
        **arguments,
        "num_steps": hp.num_rec_steps,
        "preprocess_sequence": hp.layer_preprocess_sequence,
        **from_hparams.processing(hp),
    }


def _unit_arguments(hp, side):
    zero_at_padding = from_hparams.removes_padding(hp, side)
    return {"zero_at_padding": zero_at_padding, **from_hparams.common(hp)}
