"""Input injections: layers that combine the state with the input of a recurrence.

A recurrence calls its injection before every step.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.basic import dense, from_hparams
from ut_keras.layers.basic.layer import Layer
from ut_keras.layers.basic.signature import Shape


@keras.saving.register_keras_serializable(package="ut_keras")
class InputInjection(Layer):
    """Adds the input of the recurrence to the state before every step.

        X_t = g (H_{t-1} + E),   g = sqrt(1/2)
        H_t = Block(X_t + P_t)

    E is the input of the recurrence, usually the embeddings. By default, E is also the state H_0
    before the first step. A `NormalInitialState` computes another H_0.

    The block is residual, so it adds values to its input. Because g < 1, earlier additions fade. If
    the size of each addition is bounded, the state is bounded for any number of steps. If H_{t-1}
    and E are independent and have the same variance, X_t also has this variance. With g = 1, H_t
    would contain a copy of E from every step.

    Call arguments:
        state: float tensor [B, S, D], the state H_{t-1}.
        inputs: float tensor [B, S, D], the input E.

    Returns:
        float tensor [B, S, D].

    References: Geiping et al. 2025, Scaling up Test-Time Compute with Latent Reasoning. That paper
        instead combines H_{t-1} and E by a learned linear map. See `ConcatInjection`.
    """

    def call(self, state: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        return 0.5**0.5 * (state + inputs)


@keras.saving.register_keras_serializable(package="ut_keras")
class ConcatInjection(dense.WithKernels):
    """Maps the previous state and the input of the recurrence to the block's input.

        X_t = W [H_{t-1}; E]
        H_t = Block(X_t + P_t)

    E is the input of the recurrence, usually the embeddings. The learned kernel of W has the shape
    [2 D, D]. The map has no bias. `InputInjection` is the fixed map W = sqrt(1/2) [I; I].

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


@parts.injections.register("none")
def _make_none(hp, side):
    """Return None, because only the first step reads the input."""


@parts.injections.register("add")
def _make_add(hp, side):
    return InputInjection(name="injection", dtype=from_hparams.dtype_policy(hp))


@parts.injections.register("concat")
def _make_concat(hp, side):
    return ConcatInjection(name="injection", **from_hparams.common(hp))
