"""Collects attention weights from inside a loop, for looking at them; nothing if not asked to."""

from typing import Any, NamedTuple

import tensorflow as tf


class AttentionRecord(NamedTuple):
    """Attention weights so far, one entry per step and layer. A loop carries it in its state."""

    attention: tf.TensorArray  # of [B, H, S, S] float32
    memory_attention: tf.TensorArray  # of [B, H, T, S] float32; () in an encoder


def start(enabled: bool | None, memory: Any) -> AttentionRecord | tuple[()]:
    """An empty record; () if not `enabled`, which costs a loop nothing.

    Args:
        enabled: bool.
        memory: what the block attends to besides itself; None in an encoder.
    """
    if not enabled:
        return ()
    return AttentionRecord(_array(), _array() if memory else ())


def add(
    record: AttentionRecord | tuple[()], step: tf.Tensor, block_output: Any
) -> AttentionRecord | tuple[()]:
    """The record with the weights of one step.

    Args:
        record: what `start` or `add` returned.
        step: int32 scalar.
        block_output: `BlockOutput`.
    """
    if not record:
        return record
    return AttentionRecord(
        _write(record.attention, step, block_output.attention_weights),
        _write(record.memory_attention, step, block_output.memory_attention_weights),
    )


def stack(record: AttentionRecord | tuple[()]) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """(attention [N, B, H, S, S], memory attention [N, B, H, T, S]); each None if not recorded."""
    if not record:
        return None, None
    memory = record.memory_attention
    return record.attention.stack(), None if memory == () else memory.stack()


def _array():
    return tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)


def _write(array, step, weights):
    for layer, weight in enumerate(weights):
        array = array.write(step * len(weights) + layer, weight)
    return array
