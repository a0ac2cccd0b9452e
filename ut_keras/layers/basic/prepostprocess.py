"""What happens around every sublayer: layer norm, dropout, residual."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic import dropout as dropout_lib
from ut_keras.layers.basic import layer_normalization, rms_normalization
from ut_keras.layers.basic.signature import Config, Shape

NORMS = {
    "layer": layer_normalization.LayerNormalization,
    "rms": rms_normalization.RMSNormalization,
}


@keras.saving.register_keras_serializable(package="ut_keras")
class PrePostProcess(keras.layers.Layer):
    """Applies a sequence of small operations to the input or the output of a sublayer.

    A sublayer (attention, transition) is wrapped by two of these. Pre-norm, T2T's default, is "n"
    before and "da" after; post-norm, as in "Attention Is All You Need", is "none" and "dan".

        n   layer normalization, or another norm
        d   dropout
        a   add the residual

    Args:
        sequence: str of the letters above, or "none".
        dropout_rate: float in [0, 1).
        dropout_broadcast_dims: ints. Axes that share their dropout decisions.
        epsilon: float. Of the normalization.
        norm_type: "layer" or "rms".
    Call arguments:
        x: float tensor [B, S, D].
        residual: float tensor [B, S, D], the input of the sublayer. Only for "a".
        training: bool.
    Returns:
        float tensor [B, S, D].
    Raises:
        ValueError: if the sequence holds another letter, or there is no such norm.
    References: T2T `common_layers.layer_prepostprocess`.
    """

    supports_masking = True  # positions are apart: Keras hands the mask on

    def __init__(
        self,
        sequence: str,
        dropout_rate: float = 0.0,
        dropout_broadcast_dims: Sequence[int] = (),
        epsilon: float = 1e-6,
        norm_type: str = "layer",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        letters = "" if sequence == "none" else sequence
        if set(letters) - set("nda"):
            raise ValueError(
                f"sequence must be 'none' or made of 'n', 'd' and 'a'. Received: {sequence!r}."
            )
        if norm_type not in NORMS:
            raise ValueError(
                f"norm_type must be one of {', '.join(NORMS)}. Received: {norm_type!r}."
            )
        self.sequence = sequence
        self.dropout_rate = dropout_rate
        self.dropout_broadcast_dims = tuple(dropout_broadcast_dims)
        self.epsilon = epsilon
        self.norm_type = norm_type
        self.operations = tuple((letter, self._operation(letter)) for letter in letters)

    def build(self, x_shape: Shape) -> None:
        for letter, operation in self.operations:
            if letter == "n":
                operation.build(x_shape)

    def call(
        self, x: tf.Tensor, residual: tf.Tensor | None = None, training: bool | None = None
    ) -> tf.Tensor:
        for letter, operation in self.operations:
            if letter == "a":
                x = x + residual
            elif letter == "d":
                x = operation(x, training=training)
            else:
                x = operation(x)
        return x

    def _operation(self, letter):
        if letter == "n":
            return NORMS[self.norm_type](
                self.epsilon, name=f"{self.norm_type}_norm", dtype=self.dtype_policy
            )
        if letter == "d":
            return dropout_lib.Dropout(
                self.dropout_rate,
                self.dropout_broadcast_dims,
                name="dropout",
                dtype=self.dtype_policy,
            )
        return None

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "sequence": self.sequence,
            "dropout_rate": self.dropout_rate,
            "dropout_broadcast_dims": list(self.dropout_broadcast_dims),
            "epsilon": self.epsilon,
            "norm_type": self.norm_type,
        }

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return x_shape


def numbered(
    count: int, preprocess_sequence: str, dtype: Any = None, **settings: Any
) -> tuple[PrePostProcess, ...]:
    """Several `PrePostProcess`, named as T2T names those of one scope.

    Args:
        count: int.
        preprocess_sequence, settings, dtype: for each of them.
    Returns:
        tuple of `PrePostProcess`: layer_prepostprocess, layer_prepostprocess_1, ...
    """
    return tuple(
        PrePostProcess(
            preprocess_sequence,
            **settings,
            name=f"layer_prepostprocess_{number}" if number else "layer_prepostprocess",
            dtype=dtype,
        )
        for number in range(count)
    )
