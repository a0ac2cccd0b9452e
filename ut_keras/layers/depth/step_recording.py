"""Record the state after every step of a recurrence, and replace states.

    record = step_recording.start(inputs, first, output, max_steps)       before the loop
    state = step_recording.patch(state, number, inputs.patches)           in every step
    record = step_recording.add(record, number, state, output)            after every step
    recorded = step_recording.stack(record, num_steps)                    after the loop

A loop carries the record in its state. Without `StepInputs.record_steps`, the record is (), and
recording adds no operations to the loop.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.halting.halting import HaltingState


class StatePatch(NamedTuple):
    """New values of a state after one step."""

    where: tf.Tensor  # bool [B, S], True at the positions that get a new state
    state: tf.Tensor  # float [B, S, D]


class RecordedSteps(NamedTuple):
    """The states of a recurrence that has taken N steps. Entry 0 is the first state."""

    states: tf.Tensor  # [N + 1, B, S, D], H_0 .. H_N
    # [N, B, S, D], the outputs that the stack would return if it stopped after 1 .. N steps.
    outputs: tf.Tensor
    # `HaltingState` with fields [N + 1, *U]. None for a fixed number of steps.
    halting: HaltingState | None = None


def start(
    inputs: StepInputs,
    state: tf.Tensor,
    output: tf.Tensor,
    max_steps: int,
    halting: HaltingState | None = None,
) -> tuple:
    """Return a record with the values before the first step.

    If nothing is recorded, the result is ().
    """
    if not inputs.record_steps:
        return ()
    values = (state, output, *(halting or ()))
    arrays = [
        tf.TensorArray(x.dtype, max_steps + 1, element_shape=x.shape, clear_after_read=False)
        for x in values
    ]
    return tuple(array.write(0, x) for array, x in zip(arrays, values, strict=True))


def add(
    record: tuple,
    number: tf.Tensor,
    state: tf.Tensor,
    output: tf.Tensor,
    halting: HaltingState | None = None,
) -> tuple:
    """Return the record with one more step.

    Args:
        record: the result of `start` or `add`.
        number: int32 scalar, the number of the step. The first step is 1.
        state: float [B, S, D], the state after the step.
        output: float [B, S, D], the output that the recurrence would return after this step.
        halting: `HaltingState` after the step, as in `start`.
    """
    if not record:
        return ()
    values = (state, output, *(halting or ()))
    return tuple(array.write(number, x) for array, x in zip(record, values, strict=True))


def stack(record: tuple, num_steps: tf.Tensor) -> RecordedSteps | None:
    """Return the recorded steps, or None if `record` is ().

    Args:
        record: the result of `add`.
        num_steps: int32 scalar, the number of steps that the loop has taken.
    """
    if not record:
        return None
    states, outputs, *halting = (array.stack()[: num_steps + 1] for array in record)
    return RecordedSteps(states, outputs[1:], HaltingState(*halting) if halting else None)


def patch(
    state: tf.Tensor, number: tf.Tensor, patches: Mapping[int, StatePatch] | None
) -> tf.Tensor:
    """Return the state after a step, with the values that `patches` replaces.

    Args:
        state: float [B, S, D], the state that the step has computed.
        number: int32 scalar, the number of the step. The first step is 1.
        patches: dict from the number of a step to its `StatePatch`. Optional.
    """
    for step, new in (patches or {}).items():
        where = (number == step) & new.where[..., tf.newaxis]
        state = tf.where(where, tf.cast(new.state, state.dtype), state)
    return state


def map_outputs(recorded: RecordedSteps | None, function: Any) -> RecordedSteps | None:
    """Apply a function [B, S, D] -> [B, S, D] to the output after each step."""
    if recorded is None:
        return None
    outputs = recorded.outputs
    mapped = tf.map_fn(function, outputs, fn_output_signature=outputs.dtype)
    return recorded._replace(outputs=mapped)
