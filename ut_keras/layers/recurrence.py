"""Recurrence in depth with a fixed number of steps."""

from typing import NamedTuple

import keras
import tensorflow as tf

from ut_keras.layers import attention_record
from ut_keras.layers.stack_output import StackOutput


class RecurrenceState(NamedTuple):
    """What the loop carries from step to step."""

    step: tf.Tensor  # int32 scalar t
    state: tf.Tensor  # [B, S, D], H_t in the paper
    record: tuple  # `AttentionRecord`, or () when nothing is recorded


@keras.saving.register_keras_serializable(package="ut_keras")
class BasicRecurrence(keras.layers.Layer):
    """Applies one block `num_steps` times, to all positions in parallel.

        H_t = Block(H_{t-1} + P_t),   t = 1 .. N       (Dehghani et al. 2019, section 2.1)

    Args:
        block: a `TransformerBlock`, the same at every step.
        timing: a `StepTimingSignal`, P_t.
        num_steps: int N.
    Call arguments:
        state: float tensor [B, S, D].
        attention_mask, padding_mask, memory: as in `TransformerBlock`.
        record_attention: bool. Whether to keep the attention weights of every step.
        training: bool.
    Returns:
        `StackOutput`; no ponder times and no remainders.
    Raises:
        ValueError: if num_steps < 1.
    References: T2T `universal_transformer_util.universal_transformer_basic`.
    """

    def __init__(self, block, timing, num_steps, **kwargs):
        super().__init__(**kwargs)
        if num_steps < 1:
            raise ValueError(f"num_steps must be at least 1. Received: {num_steps}.")
        self.block = block
        self.timing = timing
        self.num_steps = num_steps

    def build(self, state_shape):
        for layer in (self.timing, self.block):
            if not layer.built:
                layer.build(state_shape)

    def project_memory(self, memory, attention_mask):
        """See `TransformerBlock.project_memory`: once for all steps."""
        return self.block.project_memory(memory, attention_mask)

    def call(
        self,
        state,
        attention_mask=None,
        padding_mask=None,
        memory=None,
        record_attention=False,
        training=None,
    ):
        signals = self.timing.prepare(tf.shape(state)[1])

        def take_step(loop):
            x = self.timing(loop.state, loop.step, signals)
            result = self.block(x, attention_mask, padding_mask, memory, training=training)
            result.state.set_shape(loop.state.shape)
            record = attention_record.add(loop.record, loop.step, result)
            return (RecurrenceState(loop.step + 1, result.state, record),)

        record = attention_record.start(record_attention, memory)
        (last,) = tf.while_loop(
            lambda loop: loop.step < self.num_steps,
            take_step,
            (RecurrenceState(tf.constant(0), state, record),),
            maximum_iterations=self.num_steps,
        )
        return StackOutput(last.state, None, None, *attention_record.stack(last.record))

    def get_config(self):
        return {
            **super().get_config(),
            "block": keras.saving.serialize_keras_object(self.block),
            "timing": keras.saving.serialize_keras_object(self.timing),
            "num_steps": self.num_steps,
        }

    @classmethod
    def from_config(cls, config):
        made = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("block", "timing")
        }
        return cls(**{**config, **made})

    def compute_output_shape(self, state_shape):
        return StackOutput(state_shape, None, None, None, None)
