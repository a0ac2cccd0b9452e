"""Recurrences whose gates mix what the block makes with what was there before."""

from typing import Any

import keras

from ut_keras import parts
from ut_keras.layers.basic import from_hparams, prepostprocess
from ut_keras.layers.basic.layer import build_all
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.depth import gate as gate_lib
from ut_keras.layers.depth import recurrence
from ut_keras.layers.depth.recurrence import Constants, RecurrenceState, StepOutput

GATES_INPUTS = "sti"  # state before the step, output of the block, input of the first step


class GatedRecurrence(recurrence.Recurrence, prepostprocess.Processing):
    """A step mixes the block's result with something older, by two gates.

        x = H_{t-1} + P_t;   C = Block(x);   H_t = kept · K + C · T
        T = sigmoid(map_T(g)),   K = 1 - T or sigmoid(map_K(g))

    What is kept, a subclass says by its letter; g is made of the states named by `gates_inputs`,
    each behind `preprocess_sequence`. As in T2T, a carry gate of its own sees g preprocessed twice.
    With the pad remover T2T fails there; such gates should not be 0 at padding, for the state would
    be.

    Args:
        block, timing, num_steps: as in `Recurrence`.
        transform_gate: a `Gate`, T.
        carry_gate: a `Gate`, K; None couples it to T.
        gates_inputs: str out of "s" (state before the step), "t" (transformed state) and "i"
            (inputs of the first step); their order does not matter.
        preprocess_sequence: str, see `PrePostProcess`.
        **kwargs: those of `Recurrence` and `Processing`.
    Call arguments and returns: as in `Recurrence`.
    Raises:
        ValueError: if `gates_inputs` holds another letter or none.
    """

    keeps = ""  # the letter, out of GATES_INPUTS, of the state that the carry gate keeps

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
        self.preprocesses = self.processes(preprocess_sequence, count)

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
    """Keeps the state before the step (`recurrence_type="highway"`).

        H_t = H_{t-1} · K + C · T             (Srivastava et al. 2015, eq. 2)

    Arguments, call arguments and returns: as `GatedRecurrence`.
    References: T2T `universal_transformer_util.universal_transformer_highway`.
    """

    keeps = "s"


@keras.saving.register_keras_serializable(package="ut_keras")
class SkipRecurrence(GatedRecurrence):
    """Keeps the inputs of the first step (`recurrence_type="skip"`).

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
        **recurrence.arguments(hp, side),
        num_steps=hp.num_rec_steps,
        transform_gate=gate_lib.make(hp, side, "transform", bias),
        carry_gate=None if coupled else gate_lib.make(hp, side, "carry", -bias),
        gates_inputs=hp.gates_inputs,
        preprocess_sequence=hp.layer_preprocess_sequence,
        **from_hparams.processing(hp),
    )
