"""The Transformer layer: self-attention, attention to the encoder, transition."""

import warnings
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import TransformerHParams
from ut_keras.layers.attention import attention, rotary_attention
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.attention.attention import KeyValue
from ut_keras.layers.basic import (
    from_hparams,
    plugged_in,
    position_probe,
    prepostprocess,
    renamed,
)
from ut_keras.layers.basic.layer import build_all
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs, Widths
from ut_keras.layers.depth import state_layer
from ut_keras.layers.transition import copy_gate as copy_gate_lib
from ut_keras.ops.loss_term import LossTerm


class LayerOutput(NamedTuple):
    """The result of a `TransformerLayer`."""

    output: tf.Tensor  # [B, S, D]
    # [B, H, S, S] float32. None if `record_attention` is False.
    attention_weights: tf.Tensor | None
    # [B, H, S, M] float32, where M is the length of the memory. None in an encoder.
    memory_attention_weights: tf.Tensor | None
    # float32 [B, W]. Empty at inference, and if the transition has no auxiliary loss.
    auxiliary_loss_stats: Any = ()


class Memory(NamedTuple):
    """The encoder's output, prepared for the attention of a decoder."""

    key_value: KeyValue  # projected keys and values
    attention_mask: Any  # the argument `attention_mask` of a call of `MultiHeadAttention`


@keras.saving.register_keras_serializable(package="ut_keras")
class TransformerLayer(state_layer.StateLayer, prepostprocess.Processing):
    """A layer of self-attention, attention to the encoder and a transition.

    Only decoders attend to the encoder.

        A = LayerNorm(H + MultiHeadSelfAttention(H))
        H' = LayerNorm(A + Transition(A))               (Dehghani et al. 2019, eq. 4 and 5)

    The pre- and postprocess sequences determine where the layer applies norm, dropout and residual
    connection. With T2T's default ("n", "da"), the norm comes before each sublayer. The Transformer
    stacks several of these layers. The Universal Transformer applies the same layer at every step.

    Args:
        self_attention: a `MultiHeadAttention`.
        transition: a `FeedForward` or another layer [B, S, D] -> [B, S, D]. The call passes
            `padding_mask`, `cache` and `training` to it, if its `call` has these arguments. A layer
            that has the argument `mask` instead of `padding_mask`, such as `keras.layers.LSTM`,
            gets the padding mask as `mask`. With None, the layer consists only of attention. A
            transition may have an auxiliary loss, as `SigmaMoE` does. Such a transition returns a
            NamedTuple with `output` and, in training, `auxiliary_loss_stats`,
            float32 [B, auxiliary_loss_width]. The recurrence sums these stats over all steps. The
            transition's method `auxiliary_loss` computes the loss, float32 [B], from the sum.
        memory_attention: a `MultiHeadAttention` to the encoder's output. Only for decoders.
        preprocess_sequence, postprocess_sequence: str. See `PrePostProcess`.
        copy_gate: a `CopyGate`, which lets positions keep their states. Optional.
        transition_postprocess_sequence: str, the postprocess sequence of the transition. None: the
            transition also uses `postprocess_sequence`. The Neural Data Router uses a copy gate and
            "n", which means LayerNorm(Transition(A)).
        residual_scale: float. Factor of the output of each sublayer in the residual connection, as
            in H + residual_scale · Sublayer(H).
        **kwargs: the arguments of `Processing`.

    Call arguments and returns: as `StateLayer`.

    Raises:
        ValueError: if the call has a memory and the layer has no `memory_attention`. Also if the
            layer has a `memory_attention` and the call has no memory. Also if an attention or the
            transition cannot be called with the arguments that this layer passes.

    References: T2T `universal_transformer_util.transformer_{encoder,decoder}_{attention,ffn}_unit`.
    """

    def __init__(
        self,
        self_attention: attention.MultiHeadAttention,
        transition: keras.layers.Layer,
        memory_attention: attention.MultiHeadAttention | None = None,
        preprocess_sequence: str = "n",
        postprocess_sequence: str = "da",
        *,
        copy_gate: copy_gate_lib.CopyGate | None = None,
        transition_postprocess_sequence: str | None = None,
        residual_scale: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _check_attention("self_attention", self_attention)
        _check_attention("memory_attention", memory_attention)
        needs_cache = ("cache",) if hasattr(transition, "cache_widths") else ()
        plugged_in.check_call("transition", transition, 1, *needs_cache)
        self.self_attention = self_attention
        self.copy_gate = copy_gate
        self.transition = transition
        self.memory_attention = memory_attention
        self.preprocess_sequence = preprocess_sequence
        self.postprocess_sequence = postprocess_sequence
        self.transition_postprocess_sequence = transition_postprocess_sequence
        self.residual_scale = residual_scale
        self.self_attention_block = self._wrap(self_attention, "self_attention")
        self.memory_attention_block = self._wrap(memory_attention, "encdec_attention")
        self.transition_block = self._wrap(transition, "ffn", transition_postprocess_sequence)
        self.copy_gate_block = self._wrap(copy_gate, "copy_gate", postprocess_sequence="none")

    def build(self, state_shape: Shape) -> None:
        attentions = (self.self_attention_block, self.memory_attention_block)
        build_all((*attentions, self.transition_block, self.copy_gate_block), state_shape)

    def project_memory(self, memory: tf.Tensor, attention_mask: tf.Tensor | None) -> Memory:
        """Project the encoder's output to keys and values. See `StateLayer`.

        Raises:
            ValueError: if the layer has no `memory_attention`.
        """
        self._check_memory(True)
        assert self.memory_attention is not None
        return Memory(self.memory_attention.project_key_value(memory), attention_mask)

    def cache_widths(self) -> Widths:
        """Return the widths of a position's tensors in a cache. See `cache.start`."""
        return {**self.self_attention.cache_widths(), **self._transition_cache_widths()}

    @property
    def mixes_by_attention_alone(self) -> bool:
        """Whether attention is the only operation that mixes positions.

        The property is False if the attention output of a query depends on the other queries, or if
        the transition reads other positions.
        """
        mixes = self._transition_cache_widths() or self.transition_reads.other_positions
        return not mixes and self.self_attention.queries_are_independent

    @property
    def transition_reads(self) -> position_probe.Reads:
        """Which positions the transition reads, see `position_probe`.

        Positions that a transition declares with `cache_widths` do not count, because the decoding
        cache contains them.
        """
        if self.transition_block is None or hasattr(self.transition, "cache_widths"):
            return position_probe.ONLY_ITS_POSITION
        return self.transition_block.probe_positions()

    @property
    def cache_order_matters(self) -> bool:
        """Whether the result of reading the cache depends on the order of its columns."""
        return self.self_attention.cache_order_matters or bool(self._transition_cache_widths())

    def write_cache(self, state: tf.Tensor, cache: cache_lib.LayerCache) -> None:
        """Write the keys and values of halted states for this and deeper steps."""
        x = self.self_attention_block.preprocess(state)
        self.self_attention.write_cache(x, cache, deeper=True)

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> LayerOutput:
        """Apply the sublayers, and return a `LayerOutput`. See `StateLayer.forward`."""
        memory, cache, training = inputs.memory, inputs.cache, inputs.training
        running = inputs.running
        self._check_memory(memory is not None)
        before = state
        attended = self.self_attention_block(
            state,
            cache=cache,
            training=training,
            **_attention_arguments(self.self_attention, inputs.attention_mask, inputs),
        )
        state, memory_weights = _where_running(running, attended.output, state), None
        if self.memory_attention_block is not None:
            memory_attended = self.memory_attention_block(
                state,
                key_value=memory.key_value,
                cache=cache,
                training=training,
                **_attention_arguments(self.memory_attention, memory.attention_mask, inputs),
            )
            state = _where_running(running, memory_attended.output, state)
            memory_weights = memory_attended.inner.weights
        gate, auxiliary_loss_stats = None, ()
        if self.copy_gate_block is not None:
            gate = self.copy_gate_block(state, training=training).output
        if self.transition_block is not None:
            transformed = self.transition_block(
                state, padding_mask=inputs.padding_mask, cache=cache, training=training
            )
            state = _where_running(running, transformed.output, state)
            if training and self._auxiliary_loss is not None:
                auxiliary_loss_stats = renamed.get(
                    transformed.inner, "auxiliary_loss_stats", "tally"
                )
        if gate is not None:
            state = before + gate * (state - before)
        return LayerOutput(state, attended.inner.weights, memory_weights, auxiliary_loss_stats)

    def start_auxiliary_loss_stats(self, state: tf.Tensor) -> Any:
        """Return zeros [B, W], or () if the transition has no auxiliary loss.

        See `StateLayer.start_auxiliary_loss_stats`.
        """
        if self._auxiliary_loss is None:
            return ()
        width = renamed.get(self.transition, "auxiliary_loss_width", "tally_width")
        return tf.zeros([tf.shape(state)[0], width])

    def auxiliary_losses(
        self, auxiliary_loss_stats: Any, example_weights: tf.Tensor | None = None
    ) -> list[LossTerm]:
        if self._auxiliary_loss is None:
            return []
        loss = self._auxiliary_loss(auxiliary_loss_stats)
        return [state_layer.ponder_term(loss, 1.0, example_weights=example_weights)]

    @property
    def _auxiliary_loss(self):
        """The method `auxiliary_loss` of the transition, or None if it has no such method."""
        return renamed.get(self.transition, "auxiliary_loss", "cost")

    def _check_memory(self, is_given):
        attends = self.memory_attention is not None
        if is_given != attends:
            raise ValueError(
                f"A layer {'with' if attends else 'without'} memory_attention needs "
                f"{'a' if attends else 'no'} memory, the encoder's output. "
                f"Received: {'one' if is_given else 'none'}."
            )

    def _transition_cache_widths(self):
        return getattr(self.transition, "cache_widths", dict)()

    def _wrap(self, sublayer, name, postprocess_sequence=None):
        if sublayer is None:
            return None
        if postprocess_sequence is None:
            postprocess_sequence = self.postprocess_sequence
        sequences = (self.preprocess_sequence, postprocess_sequence)
        scale = self.residual_scale
        return Sublayer(sublayer, *sequences, scale, name=name, **self.settings)


class SublayerOutput(NamedTuple):
    """The result of a `Sublayer`."""

    output: tf.Tensor  # [B, S, D]
    inner: object  # the result of the wrapped layer


@keras.saving.register_keras_serializable(package="ut_keras")
class Sublayer(prepostprocess.Processing):
    """A layer with pre- and postprocessing: post(x, sublayer(pre(x))).

    Args:
        sublayer: a layer that returns a tensor [B, S, D], or a NamedTuple with such an `output`.
        preprocess_sequence, postprocess_sequence: str. See `PrePostProcess`.
        residual_scale: float. See `PrePostProcess`.
        **kwargs: the arguments of `Processing`.

    Call arguments:
        x: float tensor [B, S, D].
        cache, training: arguments for the wrapped layer, if it accepts them.
        attention_mask, return_weights: arguments for the wrapped layer, if they are not None. They
            are not part of `**arguments`, because Keras does not allow a mix of tensors and other
            objects in `**arguments`.
        arguments: further tensors for the wrapped layer. If the wrapped layer does not accept
            `padding_mask`, the call passes it as `mask`, or omits it if the layer has no `mask`.

    Returns:
        `SublayerOutput`.
    """

    def __init__(
        self,
        sublayer: keras.layers.Layer,
        preprocess_sequence: str = "n",
        postprocess_sequence: str = "da",
        residual_scale: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sublayer = sublayer
        self.preprocess_sequence = preprocess_sequence
        self.postprocess_sequence = postprocess_sequence
        self.preprocess = self.make_prepostprocess(preprocess_sequence)
        self.residual_scale = residual_scale
        self.postprocess = self.make_prepostprocess(
            postprocess_sequence, "layer_postprocess", residual_scale=residual_scale
        )
        optional = ("cache", "padding_mask", "training")
        self.not_accepted = frozenset(optional) - plugged_in.accepts(sublayer, *optional)
        # Keras' own layers call a padding mask `mask`.
        self.takes_mask = plugged_in.takes_mask(sublayer)

    def build(self, x_shape: Shape) -> None:
        self._width = x_shape[-1]
        build_all((self.preprocess, self.sublayer, self.postprocess), x_shape)

    def probe_positions(self) -> position_probe.Reads:
        """Return which positions the wrapped layer reads. See `position_probe`."""

        def call(x, mask):
            arguments = {"cache": None, "training": False, "padding_mask": mask}
            return self._call_sublayer(x, **arguments)[0]

        return position_probe.probe(self.sublayer, call, self._width)

    def call(
        self,
        x: tf.Tensor,
        cache: cache_lib.LayerCache | None = None,
        training: bool | None = None,
        attention_mask: Any = None,
        return_weights: bool | None = None,
        **arguments: Any,
    ) -> SublayerOutput:
        named = {"attention_mask": attention_mask, "return_weights": return_weights}
        arguments.update({name: value for name, value in named.items() if value is not None})
        processed = self.preprocess(x, training=training)
        result, inner = self._call_sublayer(processed, cache=cache, training=training, **arguments)
        return SublayerOutput(self.postprocess(result, residual=x, training=training), inner)

    def _call_sublayer(self, x, **arguments):
        """Return (output tensor [B, S, D] of the wrapped layer, its complete result)."""
        accepted = {
            name: value for name, value in arguments.items() if name not in self.not_accepted
        }
        mask = arguments.get("padding_mask") if self.takes_mask else None
        if mask is None:
            inner = self.sublayer(x, **accepted)
        else:
            inner = _call_with_mask(self.sublayer, x, mask, accepted)
        result = inner.output if isinstance(inner, tuple) else inner  # type: ignore[attr-defined]
        return result, inner


def _call_with_mask(layer, x, mask, arguments):
    """Call a layer with Keras' argument `mask`.

    Keras attaches the mask to the input and to the output. `tf.identity` returns tensors without
    the mask, because other layers get masks as explicit arguments.
    """
    with warnings.catch_warnings():
        # Keras warns that `keras.Sequential` removes the mask, although its layers use the mask.
        warnings.filterwarnings("ignore", ".*input with a mask attached to it")
        result = layer(tf.identity(x), mask=mask, **arguments)
    return result if isinstance(result, tuple) else tf.identity(result)


def _attention_arguments(layer, attention_mask, inputs):
    """Return further arguments of an attention layer.

    If the class of a layer overrides `MultiHeadAttention.call`, the layer gets the mask as a
    tensor. This layer need not have the argument `return_weights`.
    """
    if getattr(type(layer), "call", None) is attention.MultiHeadAttention.call:
        return_weights = inputs.record_attention is not False
        return {"attention_mask": attention_mask, "return_weights": return_weights}
    return {"attention_mask": attention.dense_mask(attention_mask)}


def _check_attention(name, layer):
    """Check that a layer has the interface of `MultiHeadAttention`.

    Raises:
        ValueError: if `call` has other arguments, or if a method is missing.
    """
    plugged_in.check_call(name, layer, 1, "attention_mask", "cache", "training")
    methods = ("cache_widths", "project_key_value", "queries_are_independent", "write_cache")
    missing = [method for method in methods if layer is not None and not hasattr(layer, method)]
    if missing:
        raise ValueError(
            f"{name} must have the interface of MultiHeadAttention. "
            f"Received: {type(layer).__name__} without {', '.join(missing)}."
        )


def _where_running(running, new, old):
    """Return `new` where `running` [B, S] is True, and `old` elsewhere."""
    return new if running is None else tf.where(tf.expand_dims(running, axis=-1), new, old)


def make(
    hp: TransformerHParams,
    side: str,
    transition: keras.layers.Layer,
    residual_scale: float = 1.0,
) -> TransformerLayer:
    """Return one layer. If `transition` is None, the layer consists only of attention."""
    if hp.pos == "rotary":
        self_attention = attention.make(hp, side, rotary_attention.RotaryAttention)
    else:
        self_attention = parts.self_attentions.get(hp.self_attention_type)(hp, side)
    return TransformerLayer(
        self_attention,
        transition,
        attention.make(hp, side) if side == "decoder" else None,
        hp.layer_preprocess_sequence,
        hp.layer_postprocess_sequence,
        **from_hparams.processing(hp),
        copy_gate=copy_gate_lib.make(hp),
        transition_postprocess_sequence=hp.ffn_postprocess_sequence,
        residual_scale=residual_scale,
        dtype=from_hparams.dtype_policy(hp),
    )
