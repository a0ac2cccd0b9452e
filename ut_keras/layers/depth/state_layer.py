"""Base class of layers that map states to states, and the ponder cost as a loss."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.layers.attention import attention, block_attention, float_masks
from ut_keras.layers.attention.attention_mask import AttentionMask
from ut_keras.layers.basic import plugged_in
from ut_keras.layers.basic.layer import Layer
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs
from ut_keras.ops import private_api
from ut_keras.ops.loss_term import LossTerm


class StateLayer(Layer):
    """Base class of layers, blocks, recurrences and stacks.

    An instance maps a state [B, S, D] to a state of the same shape, in one of two ways:

    - A call works as for any Keras layer, in Sequential and functional models. It uses the masks
      that Keras propagates, adds the ponder cost and the auxiliary losses with `add_loss`, and
      returns only the output.
    - `forward` returns all results in a NamedTuple. The models of `ut_keras.models` use this
      method. Each subclass implements it.

    Call arguments:
        state: float tensor [B, S, D].
        memory: float tensor [B, M, D], the sequence that a decoder attends to. Only for decoders.
        mask: bool [B, S], True at real positions. Attention ignores all other positions. The
            default is the mask that `Masking` or `Embedding(mask_zero=True)` has attached to
            `state`.
        state_mask: another name of `mask`. Keras uses this name if the call has two tensors.
        memory_mask: bool [B, M], the mask of `memory`.
        attention_mask: bool [B, H, S, S], where B and H may be 1. True means that the query may
            attend to the key. Optional.
        use_causal_mask: bool. Whether a position attends only to itself and to earlier positions.

    Returns:
        float tensor [B, S, D], with the mask of `state`.

    Raises:
        ValueError: in these cases.

            - `state` or `memory` does not have rank 3, or does not have the width of the sublayers.
            - `attention_mask` does not have rank 4.
            - The call is in training, and the loss uses the states of several steps. A call does
              not support this loss, because a call returns only the output.
            - The call is in training, and a recurrence has several segments.
        tf.errors.InvalidArgumentError: if a mask has negative numbers. If XLA compiles the call,
            the output is NaN instead.
    """

    supports_masking = True
    trains_by_steps: Any = False  # whether the training loss uses the states of several steps

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # The check is here because Keras builds a functional model with `compute_output_shape`,
        # without running `call`.
        arguments = {**dict(zip(("state", "memory"), args, strict=False)), **kwargs}
        for name in ("state", "memory"):
            if arguments.get(name) is not None:
                self._check_shape(name, arguments[name])
        return super().__call__(*args, **kwargs)

    def _check_shape(self, name, x):
        shape = tf.TensorShape(x.shape if hasattr(x, "shape") else np.shape(x))
        widths: list[Any] = [
            layer.hidden_size
            for layer in private_api.flatten_layers(self)
            if isinstance(layer, attention.MultiHeadAttention)
        ]
        for width in widths or [None]:
            if not shape.is_compatible_with([None, None, width]):
                raise ValueError(
                    f"{name} must be [batch, length, {width or 'width'}]. Received: {shape}."
                )

    def call(
        self,
        state: tf.Tensor,
        memory: tf.Tensor | None = None,
        mask: tf.Tensor | None = None,
        state_mask: tf.Tensor | None = None,
        memory_mask: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        use_causal_mask: bool = False,
        training: bool | None = None,
    ) -> tf.Tensor:
        padding_mask = _padding_mask("mask", state_mask if mask is None else mask)
        given_memory_mask = memory_mask
        memory_mask = _padding_mask("memory_mask", memory_mask)
        attention.check_mask(attention_mask)
        if training:
            self._check_training()
        combined_mask = _combined_mask(state, padding_mask, attention_mask, use_causal_mask)
        state = float_masks.nan_if_negative(
            state, (mask, state_mask, given_memory_mask, attention_mask)
        )
        if memory is not None:
            memory = self.project_memory(tf.identity(memory), _key_mask(memory_mask))
        inputs = StepInputs(
            combined_mask, padding_mask, memory, record_attention=False, training=training
        )
        # `tf.identity` removes the mask that Keras attached to the state, because `forward` has
        # explicit arguments for masks.
        result = self.forward(tf.identity(state), inputs)
        for terms in self.cost_terms(result, padding_mask).values():
            for term in terms:
                # Keras adds it to the loss of `compile`, whose dtype is `keras.config.floatx()`.
                self.add_loss(tf.cast(term.value(), keras.config.floatx()))
        return result.output

    def _check_training(self):
        """Raise `ValueError` if a call cannot compute the training loss of this layer."""
        sublayers = private_api.flatten_layers(self)
        state_layers = [layer for layer in sublayers if isinstance(layer, StateLayer)]
        num_segments = max(getattr(layer, "num_segments", 1) for layer in state_layers)
        if num_segments > 1:
            raise ValueError(
                "A call does not support training with several segments, because it would train "
                "only the first segment. Use `forward`, or a model of ut_keras.models. "
                f"Received: num_segments={num_segments} of {self.name}."
            )
        if any(layer.trains_by_steps for layer in state_layers):
            raise ValueError(
                "A call does not support training with losses of several steps (supervised_every, "
                "QHalting, PonderNetHalting with expected_loss=True), because it returns only the "
                "output. Use `forward`, or a model of ut_keras.models. "
                f"Received: a call of {self.name}."
            )

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> Any:
        """Apply the layer to a state [B, S, D] and return all results.

        Returns:
            NamedTuple with `output`, [B, S, D].
        """
        raise NotImplementedError

    def project_memory(self, memory: tf.Tensor, attention_mask: tf.Tensor | None) -> Any:
        """Project the sequence that a decoder attends to, once for all steps.

        Args:
            memory: float tensor [B, M, D].
            attention_mask: bool, broadcastable to [B, H, S, M]. With None, all positions may attend
                to the complete memory.

        Returns:
            The `memory` of `StepInputs`.
        """
        raise NotImplementedError

    def cost_terms(
        self,
        result: Any,
        padding_mask: tf.Tensor | None,
        example_weights: tf.Tensor | None = None,
    ) -> dict[str, list[LossTerm]]:
        """Return the losses that this layer adds to the loss of the targets.

        Args:
            result: the result of `forward`.
            padding_mask: as in `forward`.
            example_weights: float32 [B], the weight of each example. Optional.

        Returns:
            dict from T2T's name of a loss to a list of `LossTerm`. "act_loss" is the ponder cost.
            In training, "extra" contains the auxiliary losses of sublayers, and "fixed_point_loss"
            is the fixed-point loss, which T2T does not have. The dict has no key for a loss without
            terms.
        """
        ponder_terms = self.ponder_terms(result, padding_mask, example_weights)
        auxiliary_losses = []
        if tf.nest.flatten(result.auxiliary_loss_stats):
            auxiliary_losses = self.auxiliary_losses(result.auxiliary_loss_stats, example_weights)
        fixed_point_terms = self.fixed_point_terms(result, padding_mask, example_weights)
        terms = {
            "act_loss": ponder_terms,
            "extra": auxiliary_losses,
            "fixed_point_loss": fixed_point_terms,
        }
        return {name: terms[name] for name in terms if terms[name]}

    def ponder_terms(
        self,
        result: Any,
        padding_mask: tf.Tensor | None,
        example_weights: tf.Tensor | None = None,
    ) -> list[LossTerm]:
        """Return the ponder cost as a list of loss terms. See `ponder_term`.

        Args: as `cost_terms`.
        """
        return []

    def fixed_point_terms(
        self,
        result: Any,
        padding_mask: tf.Tensor | None,
        example_weights: tf.Tensor | None = None,
    ) -> list[LossTerm]:
        """Return the fixed-point loss as a list of loss terms. See `fixed_point`.

        Args: as `cost_terms`.
        """
        return []

    def start_auxiliary_loss_stats(self, state: tf.Tensor) -> Any:
        """Return zeros, to which a loop adds the `auxiliary_loss_stats` of every step.

        Returns:
            Nest of float32 tensors [B, W].
        """
        raise NotImplementedError

    def auxiliary_losses(
        self, auxiliary_loss_stats: Any, example_weights: tf.Tensor | None = None
    ) -> list[LossTerm]:
        """Return the auxiliary losses of sublayers, such as the loss of `SigmaMoE`.

        Args:
            auxiliary_loss_stats: nest of float32 tensors [B, W], summed over all steps.
            example_weights: as in `cost_terms`.
        """
        raise NotImplementedError

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return the symbolic output of a call. Keras uses it to make a functional model.

        Because of `compute_output_shape`, Keras does not run `call` here. A user's part without
        `build` would then get its weights only at the first call of the model. When Keras loads the
        model, it would skip the weights of such a part without an error.
        """
        if any(plugged_in.unbuilt_layers([self])):
            keras.Operation.compute_output_spec(self, *args, **kwargs)  # runs `call`
        return super().compute_output_spec(*args, **kwargs)

    def compute_output_shape(self, state_shape: Shape) -> Shape:
        return state_shape


def _padding_mask(name, mask):
    """Check that a mask is [B, S], and convert it to bool.

    The conversion is necessary because Keras allows masks of any dtype.
    """
    mask = float_masks.as_bool(mask)
    if mask is not None and mask.shape.rank != 2:
        raise ValueError(f"{name} must be [batch, length]. Received: {mask.shape}.")
    return mask


def _combined_mask(state, padding_mask, attention_mask, use_causal_mask):
    """Return one attention mask for all masks of a call.

    A key is hidden if at least one of the masks hides it. The arguments are those of
    `StateLayer.call`. The result is an `AttentionMask`, a bool tensor that broadcasts to
    [B, H, S, S], or None.
    """
    combined_mask = _key_mask(padding_mask)
    if use_causal_mask:
        length = tf.shape(state)[1] if state.shape[1] is None else state.shape[1]
        combined_mask = block_attention.prepare_mask(
            AttentionMask(length, length, causal=True, key_mask=padding_mask)
        )
    if attention_mask is None:
        return combined_mask
    attention_mask = float_masks.as_bool(attention_mask)
    if combined_mask is not None:
        attention_mask &= attention.dense_mask(combined_mask)
    return attention_mask


def _key_mask(padding_mask):
    """Return the attention mask that hides padding: bool [B, 1, 1, S], or None."""
    return None if padding_mask is None else attention.padding_attention_mask(padding_mask)


def ponder_term(
    cost: tf.Tensor,
    weight: float,
    mask: tf.Tensor | None = None,
    example_weights: tf.Tensor | None = None,
) -> LossTerm:
    """Return `weight` times the mean of a cost as a loss term.

    Args:
        cost: float32 tensor [B, S] or [B], such as steps + remainder.
        weight: float, such as `act_loss_weight`.
        mask: bool tensor with the shape of `cost`. The mean does not include entries where the mask
            is False, such as padding. With None, the mean includes all entries, as in T2T.
        example_weights: float32 [B], the weight of each example. Optional.

    References: Dehghani et al. 2019, appendix C; T2T `UniversalTransformer.body`.
    """
    weights = tf.ones_like(cost) if mask is None else tf.cast(mask, tf.float32)
    if mask is not None:
        cost = tf.where(mask, cost, 0.0)
    if example_weights is not None:
        if len(cost.shape) == 2:
            example_weights = example_weights[:, tf.newaxis]
        cost, weights = cost * example_weights, weights * example_weights
    return LossTerm(weight * tf.reduce_sum(cost), tf.reduce_sum(weights))
