"""A whole encoder or decoder: depth by layers or by recurrence, and the last norm."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import prepostprocess
from ut_keras.layers.basic.signature import PLAIN, Shape, StepInputs
from ut_keras.layers.depth import depth, transformer_block
from ut_keras.layers.depth.depth import StackOutput


@keras.saving.register_keras_serializable(package="ut_keras")
class LayeredDepth(depth.Depth):
    """Depth as the Transformer has it: each layer has weights of its own.

    Args:
        block: a `TransformerBlock`.
    Call arguments and returns: as `StateLayer`.
    References: T2T `transformer_encoder`, `transformer_decoder`.
    """

    def __init__(self, block: transformer_block.TransformerBlock, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.block = block

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        self.check_steps(inputs.num_steps)
        result = self.block.forward(state, inputs)
        weights = memory_weights = None
        if inputs.record_attention:
            weights = keras.ops.stack(result.attention_weights)
            if inputs.memory:
                memory_weights = keras.ops.stack(result.memory_attention_weights)
        tally = result.tally
        return StackOutput(result.output, None, None, weights, memory_weights, tally=tally)

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
class Stack(depth.Around, prepostprocess.Processing):
    """An encoder or a decoder.

    Args:
        depth: a `LayeredDepth`, `BasicRecurrence` or `AdaptiveComputationTime`.
        preprocess_sequence: str, of the last `PrePostProcess`, which is the missing norm of a
            pre-norm stack.
        **kwargs: those of `Processing`, for it.
    Call arguments and returns: as `StateLayer`.
    References: T2T `universal_transformer_{encoder,decoder}`.
    """

    layer_arguments = ("depth",)

    def __init__(self, depth: depth.Depth, preprocess_sequence: str = "n", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.depth = depth
        self.preprocess_sequence = preprocess_sequence
        self.postprocess = self.process(preprocess_sequence)

    def build(self, state_shape: Shape) -> None:
        super().build(state_shape)
        self.postprocess.build(state_shape)

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
