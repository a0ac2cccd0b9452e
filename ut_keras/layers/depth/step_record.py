"""Collects what the steps of a loop come to, for a loss of all of them; nothing if not asked to."""

from typing import NamedTuple

import tensorflow as tf


class Steps(NamedTuple):
    """The steps of a recurrence that have losses; N is the most that there could be."""

    states: tf.Tensor  # [N, B, S, D]; 0 where a step was not taken
    weights: tf.Tensor  # [N, B, S] float32, w^n; 0 there, the sum over N is 1
    # float32 [N, B, S], or [N, B] of whole rows: logits, whether the answer is right by now; None
    # where nobody says.
    confidence: tf.Tensor | None = None


class StepRecord(NamedTuple):
    """The steps so far; entry 0 is empty. A loop carries it in its state."""

    states: tf.TensorArray
    weights: tf.TensorArray


def start(enabled: bool | None, state: tf.Tensor, max_steps: int) -> StepRecord | tuple[()]:
    """An empty record; () if not `enabled`, which costs a loop nothing.

    Args:
        enabled: bool.
        state: float tensor [B, S, D].
        max_steps: int N.
    """
    if not enabled:
        return ()
    # An array nobody writes to has no shape: entry 0 is there if the loop takes no step.
    no_weight = tf.zeros(tf.shape(state)[:2])
    return StepRecord(_array(tf.zeros_like(state), max_steps), _array(no_weight, max_steps))


def add(
    record: StepRecord | tuple[()], step: tf.Tensor, state: tf.Tensor, weights: tf.Tensor
) -> StepRecord | tuple[()]:
    """The record with one step, in place of what it had there.

    Args:
        record: what `start` or `add` returned.
        step: int32 scalar, from 0.
        state: float tensor [B, S, D].
        weights: float32 [B, S].
    """
    if not record:
        return record
    return StepRecord(record.states.write(step + 1, state), record.weights.write(step + 1, weights))


def stack(record: StepRecord | tuple[()]) -> Steps | None:
    """`Steps`; None if not recorded."""
    return Steps(record.states.stack()[1:], record.weights.stack()[1:]) if record else None


def _array(first, max_steps):
    return tf.TensorArray(
        first.dtype, size=max_steps + 1, element_shape=first.shape, clear_after_read=False
    ).write(0, first)
