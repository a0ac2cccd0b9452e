"""What takes a state and gives a state: how Keras calls it, how the models do, what it costs."""

import functools
import operator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ut_keras.layers.attention import attention
from ut_keras.layers.basic.layer import Layer
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs
from ut_keras.ops import private_api


class PonderTerm(NamedTuple):
    """A part of a loss: numerator / denominator, or 0 where nothing weighs anything."""

    numerator: tf.Tensor  # float32 scalar
    denominator: tf.Tensor  # float32 scalar


class StateLayer(Layer):
    """A layer, a block of them, a recurrence or a whole stack.

    Called, it is a Keras layer like any: for Sequential and functional models, with the masks that
    Keras carries along, and with what it costs to ponder as a loss. The models here want all that
    it computes, and use `forward`, which a subclass has.

    Call arguments:
        state: float tensor [B, S, D].
        memory: float tensor [B, M, D], what a decoder attends to besides. Only in a decoder.
        mask: bool [B, S], True at real positions; nothing attends to the others. By default that
            of `Masking` or `Embedding(mask_zero=True)`, which Keras finds on `state`.
        state_mask: the same; what Keras calls it where there is a second tensor.
        memory_mask: bool [B, M], as `mask`, of `memory`.
        attention_mask: bool [B, H, S, S], of which B and H may be 1; True = may attend. Optional.
        use_causal_mask: bool. Whether a position sees only itself and those before it.
    Returns:
        float tensor [B, S, D], with the mask of `state`.
    Raises:
        ValueError: if `state` or `memory` is not of rank 3 or as wide as the layers inside, if
            `attention_mask` is not of rank 4, or if training is by losses of several steps, of
            which a call has none.
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
            for layer in self._flatten_layers()
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
        memory_mask = _padding_mask("memory_mask", memory_mask)
        attention.check_mask(attention_mask)
        state_layers = (layer for layer in self._flatten_layers() if isinstance(layer, StateLayer))
        if training and any(layer.trains_by_steps for layer in state_layers):
            raise ValueError(
                "Losses of several steps (supervised_every, QHalting, PonderNetHalting with "
                "expected_loss=True) need somebody who takes `forward`, such as the models of "
                f"ut_keras.models; a call gives the output alone. Received: a call of {self.name}."
            )
        masks = [_as_bool(attention_mask), _key_mask(padding_mask)]
        if use_causal_mask:
            masks.append(attention.causal_attention_mask(tf.shape(state)[1]))
        masks = [mask for mask in masks if mask is not None]
        combined_mask = functools.reduce(operator.and_, masks) if masks else None
        if memory is not None:
            memory = self.project_memory(tf.identity(memory), _key_mask(memory_mask))
        inputs = StepInputs(combined_mask, padding_mask, memory, training=training)
        # `tf.identity` removes the mask that Keras attached to the state: in `forward`, masks are
        # explicit arguments.
        result = self.forward(tf.identity(state), inputs)
        for terms in self.cost_terms(result, padding_mask).values():
            for term in terms:
                self.add_loss(tf.math.divide_no_nan(term.numerator, term.denominator))
        return result.output

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> Any:
        """The pass over a state [B, S, D] with all that it computes.

        Returns:
            NamedTuple with `output`, [B, S, D].
        """
        raise NotImplementedError

    def project_memory(self, memory: tf.Tensor, attention_mask: tf.Tensor | None) -> Any:
        """What a decoder attends to, projected once for all steps, as `forward` takes it.

        Args:
            memory: float tensor [B, M, D].
            attention_mask: bool, broadcastable to [B, H, S, M]; None: all may be attended to.
        """
        raise NotImplementedError

    def cost_terms(
        self,
        result: Any,
        padding_mask: tf.Tensor | None,
        example_weights: tf.Tensor | None = None,
    ) -> dict[str, list[PonderTerm]]:
        """What the pass costs: of a call and of the models here a part of the loss.

        Args:
            result: what `forward` returned.
            padding_mask: as in `forward`.
            rows: float32 [B], what each row weighs. Optional.
        Returns:
            dict of lists of `PonderTerm`, none of them empty: "act_loss" where positions ponder,
            "extra" of what parts of a block cost in training.
        """
        ponder_terms = self.ponder_terms(result, padding_mask, example_weights)
        auxiliary_losses = []
        if tf.nest.flatten(result.auxiliary_loss_stats):
            auxiliary_losses = self.auxiliary_losses(result.auxiliary_loss_stats, example_weights)
        terms = {"act_loss": ponder_terms, "extra": auxiliary_losses}
        return {name: terms[name] for name in terms if terms[name]}

    def ponder_terms(
        self,
        result: Any,
        padding_mask: tf.Tensor | None,
        example_weights: tf.Tensor | None = None,
    ) -> list[PonderTerm]:
        """What it costs to ponder, as `ponder_term` makes it; arguments as of `cost_terms`."""
        return []

    def start_auxiliary_loss_stats(self, state: tf.Tensor) -> Any:
        """What the tallies of all steps are added to: a nest of float32 zeros [B, W]."""
        raise NotImplementedError

    def auxiliary_losses(
        self, auxiliary_loss_stats: Any, example_weights: tf.Tensor | None = None
    ) -> list[PonderTerm]:
        """What parts of a block cost: of a tally of all steps; rows as of `cost_terms`."""
        raise NotImplementedError

    def compute_output_shape(self, state_shape: Shape) -> Shape:
        return state_shape


def _padding_mask(name, mask):
    """bool [B, S] of a mask of any type, such as Keras takes."""
    mask = _as_bool(mask)
    if mask is not None and mask.shape.rank != 2:
        raise ValueError(f"{name} must be [batch, length]. Received: {mask.shape}.")
    return mask


def _as_bool(mask):
    return None if mask is None else tf.cast(mask, tf.bool)


def _key_mask(padding_mask):
    """bool [B, 1, 1, S]: keys that may be attended to."""
    return None if padding_mask is None else attention.padding_attention_mask(padding_mask)


def ponder_term(
    cost: tf.Tensor,
    weight: float,
    mask: tf.Tensor | None = None,
    example_weights: tf.Tensor | None = None,
) -> PonderTerm:
    """The price of thinking: `weight` times the mean of the cost.

    Args:
        cost: float32 tensor [B, S] (or [B]), such as steps + remainder.
        weight: float, `act_loss_weight`.
        counted: bool, like the cost, where padding is not to be counted. T2T counts it: leave it
            out.
        rows: float32 [B], what each row weighs. Optional.
    References: Dehghani et al. 2019, appendix C; T2T `UniversalTransformer.body`.
    """
    weights = tf.ones_like(cost) if mask is None else tf.cast(mask, tf.float32)
    if mask is not None:
        cost = tf.where(mask, cost, 0.0)
    if example_weights is not None:
        if len(cost.shape) == 2:
            example_weights = example_weights[:, tf.newaxis]
        cost, weights = cost * example_weights, weights * example_weights
    return PonderTerm(weight * tf.reduce_sum(cost), tf.reduce_sum(weights))
