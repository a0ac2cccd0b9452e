"""Layers in a row, as the baseline has them or a recurrence repeats them; and a whole encoder."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam import TransformerHParams
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import from_hparams, prepostprocess
from ut_keras.layers.basic.layer import build_all
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs, Widths
from ut_keras.layers.depth import depth, state_layer, transformer_layer
from ut_keras.layers.depth.depth import Depth, StackOutput
from ut_keras.layers.depth.state_layer import PonderTerm


class BlockOutput(NamedTuple):
    """What a block computes."""

    output: tf.Tensor  # [B, S, D]
    attention_weights: tuple  # per layer [B, H, S, S] float32
    memory_attention_weights: tuple  # per layer [B, H, T, S] float32; empty in an encoder
    auxiliary_loss_stats: tuple = ()  # per layer, as in `LayerOutput`; () except in training


def add_auxiliary_loss_stats(auxiliary_loss_stats: tuple, step: BlockOutput) -> tuple:
    """The tallies so far with those of a step; () stays."""
    if not auxiliary_loss_stats:
        return auxiliary_loss_stats
    added = tf.nest.map_structure(tf.add, auxiliary_loss_stats, step.auxiliary_loss_stats)
    pairs = zip(tf.nest.flatten(added), tf.nest.flatten(auxiliary_loss_stats), strict=True)
    for new, old in pairs:
        new.set_shape(old.shape)
    return added


@keras.saving.register_keras_serializable(package="ut_keras")
class TransformerBlock(state_layer.StateLayer):
    """Applies its layers one after the other.

    Args:
        layers: list of `TransformerLayer`.
        prefix: str. Layer i is called `<prefix>_<i>`, as in T2T's checkpoints.
    Call arguments and returns: as `StateLayer`.
    """

    def __init__(
        self,
        layers: Sequence[transformer_layer.TransformerLayer],
        prefix: str = "layer",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.layers = tuple(layers)  # TensorFlow's checkpoints would not save a list
        self.prefix = prefix
        for number, layer in enumerate(self.layers):
            layer.name = f"{prefix}_{number}"

    def build(self, state_shape: Shape) -> None:
        build_all(self.layers, state_shape)

    def project_memory(
        self, memory: tf.Tensor, attention_mask: tf.Tensor | None
    ) -> tuple[transformer_layer.Memory, ...]:
        """See `StateLayer.project_memory`: tuple of `Memory`, one per layer."""
        return tuple(layer.project_memory(memory, attention_mask) for layer in self.layers)

    def cache_widths(self) -> list[Widths]:
        """What a cache keeps of each position for each layer, see `cache.start`: a list."""
        return [layer.cache_widths() for layer in self.layers]

    @property
    def mixes_by_attention_alone(self) -> bool:
        """Whether nothing but attention brings positions together."""
        return all(layer.mixes_by_attention_alone for layer in self.layers)

    @property
    def cache_order_matters(self) -> bool:
        """Whether it depends on where columns lie in a cache what is read of them."""
        return any(layer.cache_order_matters for layer in self.layers)

    def write_cache(self, state: tf.Tensor, caches: Sequence[cache_lib.LayerCache]) -> None:
        """See `TransformerLayer.remember`: in all layers."""
        for layer, cache in zip(self.layers, caches, strict=True):
            layer.write_cache(state, cache)

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> BlockOutput:
        """See `StateLayer.forward`; `BlockOutput`."""
        weights, memory_weights, stats = [], [], []
        for number, layer in enumerate(self.layers):
            memory = inputs.memory[number] if inputs.memory else None
            cache = inputs.cache[number] if inputs.cache else None
            result = layer.forward(state, inputs._replace(memory=memory, cache=cache))
            state = result.output
            weights.append(result.attention_weights)
            stats.append(result.auxiliary_loss_stats)
            if memory:
                memory_weights.append(result.memory_attention_weights)
        auxiliary_loss_stats = tuple(stats) if inputs.training else ()
        return BlockOutput(state, tuple(weights), tuple(memory_weights), auxiliary_loss_stats)

    def start_auxiliary_loss_stats(self, state: tf.Tensor) -> tuple:
        """See `StateLayer.start_tally`: of each layer."""
        return tuple(layer.start_auxiliary_loss_stats(state) for layer in self.layers)

    def auxiliary_losses(
        self, auxiliary_loss_stats: Any, example_weights: tf.Tensor | None = None
    ) -> list[PonderTerm]:
        losses: list[PonderTerm] = []
        for layer, stats in zip(self.layers, auxiliary_loss_stats, strict=True):
            losses.extend(layer.auxiliary_losses(stats, example_weights))
        return losses


@keras.saving.register_keras_serializable(package="ut_keras")
class LayeredDepth(depth.Depth):
    """Depth as the Transformer has it: each layer has weights of its own.

    Call arguments and returns: as `StateLayer`.
    References: T2T `transformer_encoder`, `transformer_decoder`.
    """

    def __init__(self, block: TransformerBlock, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.block = block

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        self.check_steps(inputs.num_steps)
        result = self.block.forward(state, inputs)
        record = depth.start_attention_record(inputs.record_attention, inputs.memory)
        record = depth.add_to_attention_record(record, 0, result)
        weights = depth.stack_attention_record(record)
        stats = result.auxiliary_loss_stats
        return StackOutput(result.output, None, None, *weights, auxiliary_loss_stats=stats)

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        caches = [
            cache_lib.LayerCache(part, 0, cache_lib.Layout(widths, window))
            for part, widths in zip(cache, self._cache_widths(), strict=True)
        ]
        inputs = StepInputs(window.attention_mask, memory=memory, cache=caches, training=False)
        result = self.block.forward(state, inputs)
        return result.output, tuple(part.stores for part in caches)


@keras.saving.register_keras_serializable(package="ut_keras")
class Stack(depth.DepthWrapper, prepostprocess.Processing):
    """An encoder or a decoder.

    Args:
        depth: a `LayeredDepth`, `BasicRecurrence` or `AdaptiveComputationTime`.
        preprocess_sequence: str, of the last `PrePostProcess`, which is the missing norm of a
            pre-norm stack.
        **kwargs: those of `Processing`, for it.
    Call arguments and returns: as `StateLayer`.
    References: T2T `universal_transformer_{encoder,decoder}`.
    """

    layer_attributes = ("depth", "postprocess")

    def __init__(self, depth: Depth, preprocess_sequence: str = "n", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(depth, Depth):
            raise ValueError(
                "depth must be a recurrence, or LayeredDepth of a block. Received: "
                f"{type(depth).__name__}."
            )
        self.depth = depth
        self.preprocess_sequence = preprocess_sequence
        self.postprocess = self.process(preprocess_sequence)

    @property
    def inner(self) -> depth.Depth:
        """The depth."""
        return self.depth

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        result = self.depth.forward(state, inputs)
        steps, training = result.steps, inputs.training
        if steps is not None:
            shape = tf.shape(steps.states)
            states = tf.reshape(steps.states, tf.concat([[-1], shape[2:]], axis=0))
            states = self.postprocess(states, training=training)
            steps = steps._replace(states=tf.reshape(states, shape))
        output = self.postprocess(result.output, training=training)
        return result._replace(output=output, steps=steps)

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        output, cache = self.depth.extend(state, cache, window, memory)
        return self.postprocess(output, training=False), cache


def make_block(hp: TransformerHParams, side: str, num_layers: int, prefix: str) -> TransformerBlock:
    """Layers in a row; layer i is called `<prefix>_<i>`."""
    layers = [
        transformer_layer.make(hp, side, make_transition(hp, side)) for _ in range(num_layers)
    ]
    return TransformerBlock(layers, prefix, name="block", dtype=from_hparams.dtype_policy(hp))


def make_transition(hp: TransformerHParams, side: str) -> keras.layers.Layer:
    """The transition function of a layer, by `transformer_ffn_type` and `ffn_layer`."""
    kind = getattr(hp, "transformer_ffn_type", "fc")
    return parts.transitions.get(hp.ffn_layer if kind == "fc" else kind)(hp, side)
