"""What an encoder or decoder, or the recurrence inside one, gives back."""

from typing import NamedTuple

import tensorflow as tf

from ut_keras.layers.depth.step_record import Steps


class StackOutput(NamedTuple):
    """The state at the end of all depth, and how it came about. N counts steps times layers."""

    output: tf.Tensor  # [B, S, D]
    ponder_times: tf.Tensor | None  # [B, S] float32, in steps; [B] for a global halting
    remainders: tf.Tensor | None  # like ponder_times, in [0, 1]
    attention_weights: tf.Tensor | None  # [N, B, H, S, S] float32, if recorded
    memory_attention_weights: tf.Tensor | None  # [N, B, H, T, S] float32, if recorded
    ponder_cost: tf.Tensor | None = None  # like ponder_times, what pondering costs
    tally: tuple = ()  # of each layer float32 [B, W], or () where it costs nothing; in training
    steps: Steps | None = None  # in training, where the loss is a mean of those of several
