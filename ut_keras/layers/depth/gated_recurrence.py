"""Recurrences whose gates mix the output of the block with an earlier state."""

from typing import Any

import keras

from ut_keras import parts
from ut_keras.layers.basic import from_hparams, prepostprocess
from ut_keras.layers.basic.layer import build_all
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.depth import gate as gate_lib
from ut_keras.layers.depth import recurrence, recurrence_arguments
from ut_keras.layers.depth.recurrence import Constants, RecurrenceState, StepOutput

# "s": state before the step. "t": output of the block. "i": input of the first step.
GATES_INPUTS = "sti"


class GatedRecurrence(recurrence.Recurrence, prepostprocess.Processing):
    """Base class of recurrences that mix the block's output with an earlier state.

        x = H_{t-1} + P_t
        C = Block(x)
        H_t = kept · K + C · T
        T = sigmoid(map_T(g))           the transform gate
        K = 1 - T  or  sigmoid(map_K(g))         the carry gate

    A subclass selects the state `kept` with its attribute `keeps`. The gates read g, which is the
    concatenation of the states in `gates_inputs`. A `PrePostProcess` processes each of these states
    first.

    With a separate carry gate (`carry_gate` is not None):

    - The carry gate reads states that were preprocessed twice, as in T2T.
    - The gates should not be 0 at padding, because the state at padding would become 0. T2T fails
      if a model combines a separate carry gate with the pad remover.

    Args:
        block, timing, num_steps: as in `Recurrence`.
        transform_gate: a `Gate` that computes T.
        carry_gate: a `Gate` that computes K. If None, K = 1 - T.
        gates_inputs: str of one or more of these letters, in any order: "s" (state before the
            step), "t" (output of the block) and "i" (input of the first step).
        preprocess_sequence: str, the sequence of each `PrePostProcess`.
        **kwargs: the arguments of `Recurrence` and `Processing`.

    Call arguments and returns: as in `Recurrence`.

    Raises:
        ValueError: if `gates_inputs` is empty or contains a letter that is not listed above.
    """

    keeps = ""  # the letter in GATES_INPUTS that selects the state `kept`

    def __init__(
        self,
        *args: Any,
        transform_gate: gate_lib.Gate,
        carry_gate: gate_lib.Gate | None = None,
        gates_inputs: str = "i",
        preprocess_sequence: str = "n",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if not gates_inputs or set(gates_inputs) - set(GATES_INPUTS):
            raise ValueError(
                f"gates_inputs must be letters out of {GATES_INPUTS!r}. Received: {gates_inputs!r}."
            )
        self.transform_gate = transform_gate
        self.carry_gate = carry_gate
        self.gates_inputs = gates_inputs
        self.preprocess_sequence = preprocess_sequence
        count = len(set(gates_inputs)) * (1 if carry_gate is None else 2)
        self.preprocesses = self.make_prepostprocesses(preprocess_sequence, count)

    def build(self, state_shape: Shape) -> None:
        super().build(state_shape)
        build_all(self.preprocesses, state_shape)
        shapes = [state_shape] * len(set(self.gates_inputs))
        build_all((self.transform_gate, self.carry_gate), shapes)

    def take_step(self, loop: RecurrenceState, constants: Constants) -> StepOutput:
        result = constants.transform(loop.state, loop.step)
        sources = {"s": loop.state, "t": result.output, "i": constants.inputs}
        g = [sources[letter] for letter in GATES_INPUTS if letter in self.gates_inputs]
        g = self._preprocess(g, self.preprocesses[: len(g)], constants)
        transform = self._gate(self.transform_gate, g, constants)
        if self.carry_gate is None:
            carry = 1 - transform
        else:
            g = self._preprocess(g, self.preprocesses[len(g) :], constants)
            carry = self._gate(self.carry_gate, g, constants)
        state = sources[self.keeps] * carry + result.output * transform
        return StepOutput(state, (), result)

    def _preprocess(self, tensors, preprocesses, constants):
        return [
            preprocess(x, training=constants.training)
            for x, preprocess in zip(tensors, preprocesses, strict=True)
        ]

    def _gate(self, gate, inputs, constants):
        return gate(inputs, padding_mask=constants.padding_mask, training=constants.training)


@keras.saving.register_keras_serializable(package="ut_keras")
class HighwayRecurrence(GatedRecurrence):
    """Mixes the output of the block with the state before the step ("highway").

        H_t = H_{t-1} · K + C · T             (Srivastava et al. 2015, eq. 2)

    Arguments, call arguments and returns: as `GatedRecurrence`.

    References: T2T `universal_transformer_util.universal_transformer_highway`.
    """

    keeps = "s"


@keras.saving.register_keras_serializable(package="ut_keras")
class SkipRecurrence(GatedRecurrence):
    """Mixes the output of the block with the input of the first step ("skip").

        H_t = H_0 · K + C · T

    Arguments, call arguments and returns: as `GatedRecurrence`.

    References: T2T `universal_transformer_util.universal_transformer_skip`.
    """

    keeps = "i"


@parts.recurrences.register("highway")
@parts.recurrences.register("skip")
def _make(hp, side):
    layer_class = {"highway": HighwayRecurrence, "skip": SkipRecurrence}[hp.recurrence_type]
    bias = hp.transform_bias_init
    coupled = hp.couple_carry_transform_gates
    return layer_class(
        **recurrence_arguments.arguments(hp, side),
        num_steps=hp.num_rec_steps,
        transform_gate=gate_lib.make(hp, side, "transform", bias),
        carry_gate=None if coupled else gate_lib.make(hp, side, "carry", -bias),
        gates_inputs=hp.gates_inputs,
        preprocess_sequence=hp.layer_preprocess_sequence,
        **from_hparams.processing(hp),
    )
