"""Record the attention weights of every step and layer, for inspection.

    record = attention_recording.start(inputs, block, max_steps)          before the loop
    record = attention_recording.add(record, step, block_output)          after every step
    weights = attention_recording.stack(record, block, num_steps)         after the loop

The state of the loop contains the record. If `StepInputs.record_attention` is False, the record is
(), and recording adds no operations to the loop.
"""

from typing import Any

import tensorflow as tf

from ut_keras.layers.basic.signature import StepInputs
from ut_keras.ops import step_loop

# An encoder has one array, with one float32 entry [B, H, S, S] per step and layer. A decoder has a
# second array for the attention to the memory, with entries [B, H, T, S]. If nothing is recorded,
# the tuple is empty.
AttentionRecord = tuple[tf.TensorArray, ...]


def start(inputs: StepInputs, block: Any, max_steps: int) -> AttentionRecord:
    """Return an empty record, or () if `inputs.record_attention` is False.

    Args:
        block: the `TransformerBlock` that each step applies.
        max_steps: int, the largest possible number of steps.
    """
    if not inputs.record_attention:
        return ()
    num_arrays = 2 if inputs.memory else 1
    max_size = max_steps * len(block.layers)
    return tuple(step_loop.empty_array(max_size) for _ in range(num_arrays))


def add(record: AttentionRecord, step: Any, block_output: Any) -> AttentionRecord:
    """Return the record with the weights of one more step.

    Args:
        step: int32 scalar, the number of earlier steps.
        block_output: the `BlockOutput` of the step.
    """
    weights = (block_output.attention_weights, block_output.memory_attention_weights)
    return tuple(
        _write_layers(array, step, layer_weights)
        for array, layer_weights in zip(record, weights, strict=False)
    )


def stack(
    record: AttentionRecord, block: Any, num_steps: Any
) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """Return (attention [N, B, H, S, S], memory attention [N, B, H, T, S]).

    An element is None if the record does not contain these weights.

    Args:
        block: as for `start`.
        num_steps: int, or int32 scalar: the number of steps taken. N is this number times the
            number of layers.
    """
    if not record:
        return None, None
    size = num_steps * len(block.layers)
    attention = step_loop.stack_array(record[0], size)
    memory_attention = step_loop.stack_array(record[1], size) if len(record) > 1 else None
    return attention, memory_attention


def _write_layers(array, step, layer_weights):
    """Write the weights of each layer of a step."""
    num_layers = len(layer_weights)
    for layer, weights in enumerate(layer_weights):
        array = array.write(step * num_layers + layer, weights)
    return array
