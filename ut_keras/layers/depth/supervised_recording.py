"""Record the states that have a loss in training.

    record = supervised_recording.start(state, max_steps)                 before the loop
    record = supervised_recording.add(record, step, state, weights)       after every step
    steps = supervised_recording.stack(record)                            after the loop

The state of the loop contains the record. If the loss uses only the output of the last step, the
state contains () instead.
"""

from typing import NamedTuple

import tensorflow as tf


class SupervisedSteps(NamedTuple):
    """The steps of a recurrence that have a loss, at most N steps."""

    states: tf.Tensor  # [N, B, S, D]. A step that was not taken has the state 0.
    # float32 [N, B, S], the weight w^n of the loss after each step. The N weights of a position sum
    # to 1. A step that was not taken has the weight 0.
    weights: tf.Tensor
    # float32 [N, B, S], or [N, B] if all positions of an example halt together. Logits of the
    # probability that the prediction after this step is correct. None if the halting rule does not
    # predict this probability.
    confidence: tf.Tensor | None = None


class SupervisedRecord(NamedTuple):
    """The states and weights of the steps that have a loss. Entry 0 is not used."""

    states: tf.TensorArray
    weights: tf.TensorArray


def start(state: tf.Tensor, max_steps: int) -> SupervisedRecord:
    """Return an empty record for states like `state` [B, S, D]."""
    # TensorFlow cannot stack a TensorArray that was never written, so this function writes entry 0.
    no_weight = tf.zeros(tf.shape(state)[:2])
    return SupervisedRecord(
        _array_starting_with(tf.zeros_like(state), max_steps),
        _array_starting_with(no_weight, max_steps),
    )


def add(
    record: SupervisedRecord, step: tf.Tensor, state: tf.Tensor, weights: tf.Tensor
) -> SupervisedRecord:
    """Return the record with one more step.

    Args:
        step: int32 scalar, the number of earlier steps.
        state: float tensor [B, S, D].
        weights: float32 tensor [B, S].
    """
    return SupervisedRecord(
        record.states.write(step + 1, state), record.weights.write(step + 1, weights)
    )


def stack(record: SupervisedRecord | tuple[()]) -> SupervisedSteps | None:
    """Return the steps that have a loss, or None if `record` is ()."""
    if not record:
        return None
    return SupervisedSteps(record.states.stack()[1:], record.weights.stack()[1:])


def _array_starting_with(first, max_steps):
    """Return a TensorArray with space for `max_steps` more entries after `first`."""
    return tf.TensorArray(
        first.dtype, size=max_steps + 1, element_shape=first.shape, clear_after_read=False
    ).write(0, first)
