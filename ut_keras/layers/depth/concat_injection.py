"""Input injection by a learned linear map of the state and the input."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.basic import dense, from_hparams
from ut_keras.layers.basic.signature import Shape


@keras.saving.register_keras_serializable(package="ut_keras")
class ConcatInjection(dense.WithKernels):
    """Maps the previous state and the input of the recurrence to the block's input.

        X_t = W [H_{t-1}; E]
        H_t = Block(X_t + P_t)

    E is the input of the recurrence, usually the embeddings. The learned kernel of W has the shape
    [2 D, D]. The map has no bias. `recurrence.InputInjection` is the fixed map
    W = sqrt(1/2) [I; I].

    We wrote this layer from memory. We could not verify it against the paper or its code.

    Args:
        kernel_initializer: Keras initializer of W.

    Call arguments:
        state: float tensor [B, S, D], the state H_{t-1}.
        inputs: float tensor [B, S, D], the input E.

    Returns:
        float tensor [B, S, D].

    References: Geiping et al. 2025, Scaling up Test-Time Compute with Latent Reasoning.
    """

    def __init__(self, kernel_initializer: Any = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(kernel_initializer, **kwargs)

    def build(self, state_shape: Shape) -> None:
        size = state_shape[-1]
        self.projection = self._dense(size, "projection", 2 * size, use_bias=False)

    def call(self, state: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        return self.projection(tf.concat([state, inputs], axis=-1))


@parts.injections.register("concat")
def _make(hp, side):
    return ConcatInjection(name="injection", **from_hparams.common(hp))
