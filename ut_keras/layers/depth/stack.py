"""Blocks of several layers, and the stack that is an encoder or a decoder."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError, TransformerHParams
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import from_hparams, prepostprocess
from ut_keras.layers.basic.layer import build_all
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs, Widths
from ut_keras.layers.depth import (
    attention_recording,
    depth,
    recompute,
    state_layer,
    step_recording,
    transformer_layer,
)
from ut_keras.layers.depth.depth import Depth, StackOutput
from ut_keras.ops.loss_term import LossTerm


class BlockOutput(NamedTuple):
    """The result of a `TransformerBlock`."""

    output: tf.Tensor  # [B, S, D]
    attention_weights: tuple  # one float32 tensor [B, H, S, S] per layer
    # One float32 tensor [B, H, T, S] per layer. Empty in an encoder.
    memory_attention_weights: tuple
    # In training, one entry per layer, as in `LayerOutput`. Empty at inference.
    auxiliary_loss_stats: tuple = ()


def add_auxiliary_loss_stats(auxiliary_loss_stats: tuple, step: BlockOutput) -> tuple:
    """Add the `auxiliary_loss_stats` of one step to the sum of the steps before it.

    Args:
        auxiliary_loss_stats: the sum over the steps before this one, with one entry per layer. At
            inference it is (), and the function returns () unchanged.
    """
    if not auxiliary_loss_stats:
        return auxiliary_loss_stats
    added = tf.nest.map_structure(tf.add, auxiliary_loss_stats, step.auxiliary_loss_stats)
    pairs = zip(tf.nest.flatten(added), tf.nest.flatten(auxiliary_loss_stats), strict=True)
    for new, old in pairs:
        new.set_shape(old.shape)
    return added


@keras.saving.register_keras_serializable(package="ut_keras")
class TransformerBlock(state_layer.StateLayer):
    """Applies several layers, one after the other.

    Args:
        layers: list of `TransformerLayer`.
        prefix: str. Layer i is named `<prefix>_<i>`, as in T2T's checkpoints.

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
        """Return one `Memory` per layer. See `StateLayer.project_memory`."""
        return tuple(layer.project_memory(memory, attention_mask) for layer in self.layers)

    def cache_widths(self) -> list[Widths]:
        """Return the widths of each layer's stores in a cache. See `cache.start`."""
        return [layer.cache_widths() for layer in self.layers]

    @property
    def mixes_by_attention_alone(self) -> bool:
        """Whether attention is the only operation that mixes positions."""
        return all(layer.mixes_by_attention_alone for layer in self.layers)

    @property
    def cache_order_matters(self) -> bool:
        """Whether the result of reading the cache depends on the order of its columns."""
        return any(layer.cache_order_matters for layer in self.layers)

    def write_cache(self, state: tf.Tensor, caches: Sequence[cache_lib.LayerCache]) -> None:
        """Write a halted state to all caches. See `TransformerLayer.write_cache`."""
        for layer, cache in zip(self.layers, caches, strict=True):
            layer.write_cache(state, cache)

    def forward(
        self, state: tf.Tensor, inputs: StepInputs = PLAIN, recompute_grad: bool = False
    ) -> BlockOutput:
        """Apply the layers. See `StateLayer.forward`.

        Args:
            recompute_grad: bool. Whether the gradient recomputes each layer. See `recompute`.

        Returns:
            `BlockOutput`. With `recompute_grad`, the `BlockOutput` contains attention weights only
            if `inputs.record_attention` is True.
        """
        weights, memory_weights, stats = [], [], []
        for number, layer in enumerate(self.layers):
            memory = inputs.memory[number] if inputs.memory else None
            cache = inputs.cache[number] if inputs.cache else None
            layer_inputs = inputs._replace(memory=memory, cache=cache)
            if recompute_grad:
                result = recompute.forward(layer, state, layer_inputs)
            else:
                result = layer.forward(state, layer_inputs)
            state = result.output
            weights.append(result.attention_weights)
            stats.append(result.auxiliary_loss_stats)
            if memory:
                memory_weights.append(result.memory_attention_weights)
        auxiliary_loss_stats = tuple(stats) if inputs.training else ()
        return BlockOutput(state, tuple(weights), tuple(memory_weights), auxiliary_loss_stats)

    def start_auxiliary_loss_stats(self, state: tf.Tensor) -> tuple:
        """Return one entry per layer. See `StateLayer.start_auxiliary_loss_stats`."""
        return tuple(layer.start_auxiliary_loss_stats(state) for layer in self.layers)

    def auxiliary_losses(
        self, auxiliary_loss_stats: Any, example_weights: tf.Tensor | None = None
    ) -> list[LossTerm]:
        losses: list[LossTerm] = []
        for layer, stats in zip(self.layers, auxiliary_loss_stats, strict=True):
            losses.extend(layer.auxiliary_losses(stats, example_weights))
        return losses


@keras.saving.register_keras_serializable(package="ut_keras")
class LayeredDepth(depth.Depth):
    """The depth of the Transformer: a block of layers that is applied once.

    Unlike the steps of a recurrence, each layer has its own weights.

    Args:
        block: a `TransformerBlock`.
        recompute_grad: bool. Whether training keeps only the state before each layer, and
            recomputes the layer in the gradient. See `recompute`.

    Call arguments and returns: as `StateLayer`.

    References: T2T `transformer_encoder`, `transformer_decoder`.
    """

    def __init__(
        self, block: TransformerBlock, recompute_grad: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.block = block
        self.recompute_grad = recompute_grad

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        self.check_steps(inputs.num_steps)
        result = self.block.forward(state, inputs, self.recompute_grad and bool(inputs.training))
        record = attention_recording.start(inputs, self.block, 1)
        record = attention_recording.add(record, 0, result)
        attention, memory_attention = attention_recording.stack(record, self.block, 1)
        return StackOutput(
            result.output,
            attention_weights=attention,
            memory_attention_weights=memory_attention,
            auxiliary_loss_stats=result.auxiliary_loss_stats,
        )

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        layouts = cache_lib.layouts(self._cache_widths(), window)
        caches = cache_lib.layer_caches(cache, 0, layouts)
        inputs = StepInputs(window.attention_mask, memory=memory, cache=caches, training=False)
        result = self.block.forward(state, inputs)
        return result.output, tuple(part.stores for part in caches)


@keras.saving.register_keras_serializable(package="ut_keras")
class Stack(depth.DepthWrapper, prepostprocess.Processing):
    """An encoder or a decoder: a depth layer, followed by the final norm.

    Args:
        depth: a `LayeredDepth`, `BasicRecurrence` or `AdaptiveComputationTime`.
        preprocess_sequence: str, the sequence of the final `PrePostProcess`. In a pre-norm stack,
            this `PrePostProcess` normalizes the output, because no layer has normalized it.
        **kwargs: the arguments of `Processing`, for the final `PrePostProcess`.

    Call arguments and returns: as `StateLayer`.

    References: T2T `universal_transformer_{encoder,decoder}`.
    """

    layer_attributes = ("depth", "postprocess")

    def __init__(self, depth: Depth, preprocess_sequence: str = "n", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(depth, Depth):
            raise ValueError(
                f"depth must be a recurrence or a LayeredDepth. Received: {type(depth).__name__}."
            )
        self.depth = depth
        self.preprocess_sequence = preprocess_sequence
        self.postprocess = self.make_prepostprocess(preprocess_sequence)

    @property
    def inner(self) -> depth.Depth:
        """The wrapped depth layer."""
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
        recorded = step_recording.map_outputs(
            result.recorded, lambda x: self.postprocess(x, training=training)
        )
        return result._replace(output=output, steps=steps, recorded=recorded)

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        output, cache = self.depth.extend(state, cache, window, memory)
        return self.postprocess(output, training=False), cache


def make_block(
    hp: TransformerHParams,
    side: str,
    num_layers: int,
    prefix: str,
    residual_scale: float = 1.0,
) -> TransformerBlock:
    """Return a block of `num_layers` layers, where layer i is named `<prefix>_<i>`."""
    layers = [
        transformer_layer.make(hp, side, make_transition(hp, side), residual_scale)
        for _ in range(num_layers)
    ]
    return TransformerBlock(layers, prefix, name="block", dtype=from_hparams.dtype_policy(hp))


def make_layered_depth(hp: TransformerHParams, block: TransformerBlock, name: str) -> LayeredDepth:
    """Return the layers of a Transformer, or the layers before or after a recurrence."""
    dtype = from_hparams.dtype_policy(hp)
    return LayeredDepth(block, recompute_grad=hp.recompute_grad, name=name, dtype=dtype)


def make_transition(hp: TransformerHParams, side: str) -> keras.layers.Layer:
    """Return the transition that `transformer_ffn_type` and `ffn_layer` select."""
    kind = getattr(hp, "transformer_ffn_type", "fc")
    transition = parts.transitions.get(hp.ffn_layer if kind == "fc" else kind)(hp, side)
    if transition is None:
        raise HParamError(
            f"ffn_layer={hp.ffn_layer} must name a function that returns a layer. Received: None."
        )
    return transition
