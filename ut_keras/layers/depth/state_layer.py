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
    trains_by_steps: Any = False  # whether training is by losses of several steps

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Here, for Keras makes a functional model by `compute_output_shape`, without a `call`.
        given = {**dict(zip(("state", "memory"), args, strict=False)), **kwargs}
        for name in ("state", "memory"):
            if given.get(name) is not None:
                self._check_shape(name, given[name])
        return super().__call__(*args, **kwargs)

    def _check_shape(self, name, x):
        shape = tf.TensorShape(x.shape if hasattr(x, "shape") else np.shape(x))
        inside = private_api.flatten_layers(self)
        widths: list[Any] = [
            at.hidden_size for at in inside if isinstance(at, attention.MultiHeadAttention)
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
        padding_mask = _mask("mask", state_mask if mask is None else mask)
        memory_mask = _mask("memory_mask", memory_mask)
        attention.check_mask(attention_mask)
        inside = private_api.flatten_layers(self)
        inside = (layer for layer in inside if isinstance(layer, StateLayer))
        if training and any(layer.trains_by_steps for layer in inside):
            raise ValueError(
                "Losses of several steps (supervised_every, QHalting, PonderNetHalting with "
                "expected_loss=True) need somebody who takes `forward`, such as the models of "
                f"ut_keras.models; a call gives the output alone. Received: a call of {self.name}."
            )
        masks = [_bool(attention_mask), _keys(padding_mask)]
        if use_causal_mask:
            masks.append(attention.causal_attention_mask(tf.shape(state)[1]))
        masks = [mask for mask in masks if mask is not None]
        may_attend = functools.reduce(operator.and_, masks) if masks else None
        if memory is not None:
            memory = self.project_memory(tf.identity(memory), _keys(memory_mask))
        inputs = StepInputs(may_attend, padding_mask, memory, training=training)
        # Without what Keras hangs on a state: inside, masks are arguments.
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
        self, result: Any, padding_mask: tf.Tensor | None, rows: tf.Tensor | None = None
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
        pondered = self.ponder_terms(result, padding_mask, rows)
        extra = self.extra_terms(result.tally, rows) if tf.nest.flatten(result.tally) else []
        terms = {"act_loss": pondered, "extra": extra}
        return {name: terms[name] for name in terms if terms[name]}

    def ponder_terms(
        self, result: Any, padding_mask: tf.Tensor | None, rows: tf.Tensor | None = None
    ) -> list[PonderTerm]:
        """What it costs to ponder, as `ponder_term` makes it; arguments as of `cost_terms`."""
        return []

    def start_tally(self, state: tf.Tensor) -> Any:
        """What the tallies of all steps are added to: a nest of float32 zeros [B, W]."""
        raise NotImplementedError

    def extra_terms(self, tally: Any, rows: tf.Tensor | None = None) -> list[PonderTerm]:
        """What parts of a block cost: of a tally of all steps; rows as of `cost_terms`."""
        raise NotImplementedError

    def compute_output_shape(self, state_shape: Shape) -> Shape:
        return state_shape


def _mask(name, mask):
    """bool [B, S] of a mask of any type, such as Keras takes."""
    mask = _bool(mask)
    if mask is not None and mask.shape.rank != 2:
        raise ValueError(f"{name} must be [batch, length]. Received: {mask.shape}.")
    return mask


def _bool(mask):
    return None if mask is None else tf.cast(mask, tf.bool)


def _keys(padding_mask):
    """bool [B, 1, 1, S]: keys that may be attended to."""
    return None if padding_mask is None else attention.padding_attention_mask(padding_mask)


def ponder_term(
    cost: tf.Tensor, weight: float, counted: tf.Tensor | None = None, rows: tf.Tensor | None = None
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
    weights = tf.ones_like(cost) if counted is None else tf.cast(counted, tf.float32)
    if counted is not None:
        cost = tf.where(counted, cost, 0.0)
    if rows is not None:
        rows = rows[:, tf.newaxis] if len(cost.shape) == 2 else rows
        cost, weights = cost * rows, weights * rows
    return PonderTerm(weight * tf.reduce_sum(cost), tf.reduce_sum(weights))
