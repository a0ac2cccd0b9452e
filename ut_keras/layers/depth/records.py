"""What a loop collects of its steps, if it is asked to; else it carries (), which costs nothing.

Their states, for a loss of all of them, and the attention weights, for looking at them.
"""

from typing import Any, NamedTuple

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


def start_steps(enabled: bool | None, state: tf.Tensor, max_steps: int) -> StepRecord | tuple[()]:
    """An empty record of states like this one, [B, S, D]; () if it is not `enabled`."""
    if not enabled:
        return ()
    # An array nobody writes to has no shape: entry 0 is there if the loop takes no step.
    no_weight = tf.zeros(tf.shape(state)[:2])
    return StepRecord(_array(tf.zeros_like(state), max_steps), _array(no_weight, max_steps))


def add_steps(
    record: StepRecord | tuple[()], step: tf.Tensor, state: tf.Tensor, weights: tf.Tensor
) -> StepRecord | tuple[()]:
    """The record with one step, an int32 scalar from 0: its state [B, S, D], weights [B, S]."""
    if not record:
        return record
    return StepRecord(record.states.write(step + 1, state), record.weights.write(step + 1, weights))


def stack_steps(record: StepRecord | tuple[()]) -> Steps | None:
    """`Steps`; None if not recorded."""
    return Steps(record.states.stack()[1:], record.weights.stack()[1:]) if record else None


def _array(first, max_steps):
    return tf.TensorArray(
        first.dtype, size=max_steps + 1, element_shape=first.shape, clear_after_read=False
    ).write(0, first)


# Attention weights so far, one entry per step and layer, of [B, H, S, S] float32; in a decoder also
# those to the memory, [B, H, T, S]. A loop carries it in its state; () if nothing is recorded.
AttentionRecord = tuple[tf.TensorArray, ...]


def start_attention(enabled: bool | None, memory: Any) -> AttentionRecord:
    """An empty record; () if it is not `enabled`. In an encoder the memory is None."""
    if not enabled:
        return ()
    return (_weights_array(), _weights_array()) if memory else (_weights_array(),)


def add_attention(record: AttentionRecord, step: tf.Tensor, block_output: Any) -> AttentionRecord:
    """The record with the weights of one step, an int32 scalar, from its `BlockOutput`."""
    weights = (block_output.attention_weights, block_output.memory_attention_weights)
    return tuple(
        _write(array, step, of_layers) for array, of_layers in zip(record, weights, strict=False)
    )


def stack_attention(record: AttentionRecord) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """(attention [N, B, H, S, S], memory attention [N, B, H, T, S]); each None if not recorded."""
    attention, memory_attention, *_ = (*(array.stack() for array in record), None, None)
    return attention, memory_attention


def _weights_array():
    return tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)


def _write(array, step, weights):
    for layer, weight in enumerate(weights):
        array = array.write(step * len(weights) + layer, weight)
    return array
