"""The input of a recurrence in depth, given to every step anew."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.hparam import HParamError, UniversalTransformerHParams
from ut_keras.layers.basic import dense, from_hparams
from ut_keras.layers.basic.layer import Layer
from ut_keras.layers.basic.signature import Shape

KINDS = ("add", "concat")
GAIN = 0.5**0.5


@keras.saving.register_keras_serializable(package="ut_keras")
class InputInjection(Layer):
    """Where a step begins: the state, and again what the first step got.

        "add":     X_t = g (H_{t-1} + H_0),   g = sqrt(1/2)
        "concat":  X_t = [H_{t-1}; H_0] W,    W = g [I; I] at first, then learned

    and H_t = Block(X_t + P_t). A block adds to its state. By g < 1 what it has added fades: where
    it adds no more than some amount, the state is bounded after any number of steps, and X_t has
    the variance of its parts where they are independent. With g = 1, H_t would hold t times H_0.

    Args:
        kind: "add" or "concat".
    Call arguments:
        state: float tensor [B, S, D], H_{t-1}.
        inputs: float tensor [B, S, D], H_0.
    Returns:
        float tensor [B, S, D].
    Raises:
        ValueError: if the kind is unknown.
    References: Geiping et al. 2025, Scaling up Test-Time Compute with Latent Reasoning, has an
        adapter like "concat" (from what other weights it starts could not be checked).
    """

    def __init__(self, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}. Received: {kind!r}.")
        self.kind = kind

    def build(self, state_shape: Shape, inputs_shape: Shape | None = None) -> None:
        del inputs_shape
        self.projection: Any = None
        if self.kind == "concat":
            size = state_shape[-1]
            self.projection = dense.Dense(
                size,
                use_bias=False,
                kernel_initializer=_Sum(),
                name="dense",
                dtype=self.dtype_policy,
            )
            self.projection.build((None, None, 2 * size))

    def call(self, state: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        if self.kind == "add":
            return GAIN * (state + inputs)
        return self.projection(tf.concat([state, inputs], axis=-1))

    def compute_output_shape(self, state_shape: Shape, inputs_shape: Shape | None = None) -> Shape:
        return state_shape


class _Sum(keras.initializers.Initializer):
    """g [I; I]."""

    def __call__(self, shape, dtype=None):
        return tf.constant(GAIN * np.tile(np.eye(shape[-1]), [2, 1]), dtype)


def make(hp: UniversalTransformerHParams) -> InputInjection:
    """The layer, by `recurrence_input_injection`.

    Raises:
        HParamError: if the recurrence has a way of its own to look back.
    """
    kind = hp.recurrence_input_injection
    if hp.recurrence_type not in ("basic", "act"):
        raise HParamError(
            "recurrence_input_injection needs recurrence_type='basic' or 'act'. "
            f"Received: {kind!r} with {hp.recurrence_type!r}."
        )
    return InputInjection(kind, name="injection", dtype=from_hparams.dtype_policy(hp))
