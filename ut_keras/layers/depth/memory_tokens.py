"""Positions of an encoder's recurrence that belong to no symbol."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.hparam import HParamError, UniversalTransformerHParams
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs
from ut_keras.layers.depth import depth, step_record, transformer_block
from ut_keras.layers.depth.depth import StackOutput


@keras.saving.register_keras_serializable(package="ut_keras")
class MemoryTokens(depth.Around):
    """A recurrence with K learned positions in front (`num_memory_tokens`).

        [M_t; H_t] = Step([M_{t-1}; H_{t-1}]),   M_0 = E;   output H_N

    All positions read and write them, at every step; nothing behind the recurrence sees them. They
    take the first K positions of the signals, halt as other positions do, and what they ponder
    costs nothing.

    Args:
        recurrence: a `Recurrence` or `AdaptiveComputationTime`, of an encoder.
        num_tokens: int K.
    Call arguments and returns: as `StateLayer`; of steps, ponder times and attention weights there
        are those of the other positions, so that the weights no longer sum to 1.
    Raises:
        ValueError: if num_tokens < 1, or an attention mask differs from position to position.
    References: Burtsev et al. 2020, Memory Transformer, whose decoder sees them, too (the paper
        itself could not be read).
    """

    layer_arguments = ("recurrence",)

    def __init__(self, recurrence: depth.Depth, num_tokens: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if num_tokens < 1:
            raise ValueError(f"num_tokens must be at least 1. Received: {num_tokens}.")
        self.recurrence = recurrence
        self.num_tokens = num_tokens

    def build(self, state_shape: Shape) -> None:
        super().build(state_shape)
        # As large as embeddings are.
        self.tokens = self.add_weight(
            shape=(self.num_tokens, state_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=1.0),
            name="memory_tokens",
        )

    @property
    def block(self) -> transformer_block.TransformerBlock:
        """The recurrence's."""
        return self.recurrence.block

    @property
    def inner(self) -> depth.Depth:
        """The recurrence."""
        return self.recurrence

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        """See `Depth.forward`."""
        tokens = tf.cast(self.tokens, state.dtype)
        tokens = tf.broadcast_to(tokens, tf.concat([tf.shape(state)[:1], tf.shape(tokens)], 0))
        may_attend = self._with_tokens(self._checked(inputs.attention_mask))
        real = self._with_tokens(inputs.padding_mask)
        inputs = inputs._replace(attention_mask=may_attend, padding_mask=real)
        return self._without_tokens(
            self.recurrence.forward(tf.concat([tokens, state], axis=1), inputs)
        )

    def _checked(self, attention_mask):
        if attention_mask is not None and attention_mask.shape[-2] != 1:
            raise ValueError(
                "attention_mask must be the same for all positions, [B, 1, 1, S]. "
                f"Received: {attention_mask.shape}."
            )
        return attention_mask

    def _with_tokens(self, mask):
        """bool [..., S] -> [..., K + S]: the tokens are real."""
        if mask is None:
            return None
        front = [[0, 0]] * (len(mask.shape) - 1) + [[self.num_tokens, 0]]
        return tf.pad(mask, front, constant_values=True)

    def _without_tokens(self, result):
        k = self.num_tokens

        def positions(values):
            """[B, K + S] -> [B, S]; [B], of whole examples, and None stay."""
            return values if values is None or values.shape.rank < 2 else values[:, k:]

        weights, steps = result.attention_weights, result.steps
        return result._replace(
            output=result.output[:, k:],
            ponder_times=positions(result.ponder_times),
            remainders=positions(result.remainders),
            ponder_cost=positions(result.ponder_cost),
            attention_weights=None if weights is None else weights[..., k:, k:],
            steps=steps and step_record.without_first(steps, k),
        )


def make(hp: UniversalTransformerHParams, side: str, recurrence: depth.Depth) -> depth.Depth:
    """The recurrence, in an encoder with `num_memory_tokens` in front.

    Raises:
        HParamError: if there is no encoder all of whose positions see each other.
    """
    mixed = hp.mix_with_transformer or ""
    if side == "language_model" or mixed or hp.unidirectional_encoder:
        raise HParamError(
            "num_memory_tokens needs an encoder of one recurrence alone, whose positions see each "
            f"other. Received: num_memory_tokens={hp.num_memory_tokens} in a {side}, "
            f"mix_with_transformer={mixed!r}, unidirectional_encoder={hp.unidirectional_encoder}."
        )
    if side != "encoder":
        return recurrence
    recurrence.name = "recurrence"
    dtype = from_hparams.dtype_policy(hp)
    return MemoryTokens(recurrence, hp.num_memory_tokens, name="depth", dtype=dtype)
