"""Depthwise attention: a step reads a weighted sum of earlier states."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.basic import dense, from_hparams
from ut_keras.layers.basic.signature import Config, Shape
from ut_keras.layers.depth import recurrence, recurrence_arguments
from ut_keras.layers.depth.recurrence import Constants, RecurrenceState, StepOutput


@keras.saving.register_keras_serializable(package="ut_keras")
class DepthwiseAttentionRecurrence(recurrence.Recurrence, dense.WithKernels):
    """Applies the block to a weighted sum of earlier states (`recurrence_type="dwa"`).

        M_0 = H_0, M_t = H_t;   x_t = sum over j < t - 1 of softmax(W (M_j + E_j) + b) · (M_j + E_j)
        H_t = Block(x_t + P_t),   t = 1 .. N

    These equations follow T2T, and have two surprising properties. First, the softmax is over the
    channels instead of over the steps. With `per_element=False`, there is a single channel, so each
    weight is 1. Second, step t does not read the preceding state H_{t-1}. The first step starts
    from zeros, the second step reads only the input H_0, and no step reads H_{N-1} or H_N.

    Args:
        block, timing, num_steps: as in `Recurrence`.
        depth_embedding: bool. Whether the layer adds E, which is a learned vector per step.
        per_element: bool. True: one weight per channel. False: one weight for all channels. T2T's
            name of this option is `dwa_elements`.
        kernel_initializer: Keras initializer of W.

    Call arguments and returns: as in `Recurrence`.

    References: T2T `universal_transformer_util.universal_transformer_depthwise_attention`.
    """

    def __init__(
        self, *args: Any, depth_embedding: bool = True, per_element: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.uses_depth_embedding = depth_embedding
        self.per_element = per_element

    def build(self, state_shape: Shape) -> None:
        super().build(state_shape)
        size = state_shape[-1]
        self.depth_embedding = None
        if self.uses_depth_embedding:
            self.depth_embedding = self.add_weight(
                name="depth_embedding",
                shape=(self.num_steps + 1, 1, 1, size),
                initializer=keras.initializers.RandomNormal(stddev=size**-0.5),
            )
        self.weighting = self._dense(size if self.per_element else 1, "dense", size)

    def check_steps(self, num_steps: int | None) -> None:
        if self.uses_depth_embedding and num_steps not in (None, self.num_steps):
            raise ValueError(
                f"num_steps must be {self.num_steps}: each step has a learned embedding "
                f"(depth_embedding). Received: {num_steps}."
            )
        super().check_steps(num_steps)

    def start(self, state: tf.Tensor, num_steps: int) -> tuple:
        return (tf.zeros_like(state, tf.float32),)

    def take_step(self, loop: RecurrenceState, constants: Constants) -> StepOutput:
        # The sum that a step reads is the sum of the previous step plus one weighted state.
        (total,) = loop.carried  # float32 [B, S, D], the sum over M_0 .. M_{t-2}
        result = constants.transform(tf.cast(total, loop.state.dtype), loop.step)
        total += tf.cast(self._weighted(loop.state, loop.step), tf.float32)
        return StepOutput(result.output, (total,), result)

    def _weighted(self, state, step):
        """Return the weighted state [B, S, D] before step `step`. The first step is 0."""
        if self.uses_depth_embedding:
            embedding = tf.convert_to_tensor(self.depth_embedding)[step, 0]
            state += tf.cast(embedding, state.dtype) * state.shape[-1] ** 0.5
        weights = tf.nn.softmax(tf.cast(self.weighting(state), tf.float32))
        return state * tf.cast(weights, state.dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "depth_embedding": self.uses_depth_embedding}


@parts.recurrences.register("dwa")
def _make(hp, side):
    return DepthwiseAttentionRecurrence(
        **recurrence_arguments.arguments(hp, side),
        num_steps=hp.num_rec_steps,
        depth_embedding=hp.depth_embedding,
        per_element=hp.dwa_elements,
        kernel_initializer=from_hparams.kernel_initializer(hp),
    )
