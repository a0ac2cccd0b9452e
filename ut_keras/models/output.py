"""The results of a forward pass."""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.depth.supervised_recording import SupervisedSteps


class Encoded(NamedTuple):
    """The encoded source."""

    stack: StackOutput  # output [B, S, D] in the order of the source
    padding_mask: tf.Tensor  # bool [B, S], True at real tokens
    states: Any = ()  # the final `LSTMState` of each layer. Empty except in LSTM models.


class ModelOutput(NamedTuple):
    """Everything that a forward pass computes."""

    logits: tf.Tensor  # [B, T, V] float32; [B, C] for classes
    encoder: StackOutput | None
    decoder: StackOutput | None
    encoder_mask: tf.Tensor | None  # bool [B, S], True at real tokens
    # bool [B, T], True at real targets. None if the decoder does not use a mask.
    decoder_mask: tf.Tensor | None = None
    # (logits [B, L, V], ids [B, L]) of the prepended inputs, if the model also predicts the inputs.
    prepended: tuple[tf.Tensor, tf.Tensor] | None = None

    @property
    def steps(self) -> SupervisedSteps | None:
        """The `SupervisedSteps` of the last stack. None: only the last step has a loss."""
        return None if self._last_stack is None else self._last_stack.steps

    @property
    def carried(self) -> Any:
        """The `Carried` of the last stack, or None without several segments."""
        return None if self._last_stack is None else self._last_stack.carried

    @property
    def _last_stack(self) -> StackOutput | None:
        return self.encoder if self.decoder is None else self.decoder


class Inspection(NamedTuple):
    """A forward pass with its losses, for inspection."""

    logits: tf.Tensor
    losses: dict  # {"training": scalar, "act_loss" or "extra": scalar}, as T2T names them
    encoder: StackOutput | None
    decoder: StackOutput | None
