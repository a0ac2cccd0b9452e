"""Operations around every sublayer: normalization, dropout, residual connection."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic import dropout as dropout_lib
from ut_keras.layers.basic.layer import Layer, PositionWise, build_all, check_choice
from ut_keras.layers.basic.signature import Shape
from ut_keras.ops import custom_gradient, devices, private_api


@keras.saving.register_keras_serializable(package="ut_keras")
class LayerNormalization(PositionWise):
    """Normalizes the last axis to mean 0 and variance 1, then scales and shifts it.

    The statistics are float32 under any dtype policy. The variance is the biased estimate.

        y = scale · (x - mean) / sqrt(variance + epsilon) + bias         (Ba et al. 2016)

    Args:
        epsilon: float. Added to the variance.

    Call arguments:
        x: float tensor [..., D].

    Returns:
        Tensor like `x`.

    References: T2T `common_layers.layer_norm`.
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape: Shape) -> None:
        size = input_shape[-1]
        self.scale = self.add_weight(name="layer_norm_scale", shape=(size,), initializer="ones")
        self.bias = self.add_weight(name="layer_norm_bias", shape=(size,), initializer="zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        scale, bias = _in_float32(self.scale), _in_float32(self.bias)
        return _normalize(x, scale, bias, self.epsilon)


def _normalize(x, scale, bias, epsilon):
    """Compute layer normalization, with an explicit gradient.

    The explicit gradient reads x half as often as TensorFlow's automatic gradient does.

    dx = (dz - mean(dz) - z mean(dz z)) / sqrt(variance + epsilon),   z = normalized x,
    dz = scale dy,   d scale = sum(dy z),   d bias = sum(dy)

    Under XLA, the gradient computes z again, so a loop over recurrence steps need not store z.
    """

    @custom_gradient.wrap
    def normalize(x, scale, bias):
        exact = tf.cast(x, tf.float32)
        mean = tf.reduce_mean(exact, axis=-1, keepdims=True)
        centered = exact - mean
        variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
        inverse = tf.math.rsqrt(variance + epsilon)
        normalized = centered * inverse
        recomputes = private_api.is_compiled_by_xla()

        def gradient(dy):
            rows = list(range(x.shape.rank - 1))
            z = (tf.cast(x, tf.float32) - mean) * inverse if recomputes else normalized
            dy = tf.cast(dy, tf.float32)
            dy_z = dy * z
            dz = dy * scale
            mean_dz_z = tf.reduce_mean(dz * z, axis=-1, keepdims=True)
            dx = (dz - tf.reduce_mean(dz, axis=-1, keepdims=True) - z * mean_dz_z) * inverse
            dx = tf.cast(dx, x.dtype)
            return dx, tf.reduce_sum(dy_z, axis=rows), tf.reduce_sum(dy, axis=rows)

        return tf.cast(normalized * scale + bias, x.dtype), gradient

    return normalize(x, scale, bias)


@keras.saving.register_keras_serializable(package="ut_keras")
class RMSNormalization(PositionWise):
    """Divides the last axis by the root of its mean square, then scales it.

    Unlike layer normalization, RMS normalization subtracts no mean and adds no bias.

        y = scale · x / sqrt(mean(x²) + epsilon)                 (Zhang & Sennrich 2019, eq. 4)

    The mean square is float32 under any dtype policy.

    Args:
        epsilon: float. Added to the mean square.

    Call arguments:
        x: float tensor [..., D].

    Returns:
        Tensor like `x`.

    References: Zhang & Sennrich 2019, Root Mean Square Layer Normalization. T2T has no such layer.
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape: Shape) -> None:
        self.scale = self.add_weight(
            name="rms_norm_scale", shape=(input_shape[-1],), initializer="ones"
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        exact = tf.cast(x, tf.float32)
        mean_square = tf.reduce_mean(tf.square(exact), axis=-1, keepdims=True)
        scaled = exact * tf.math.rsqrt(mean_square + self.epsilon)
        return tf.cast(scaled * _in_float32(self.scale), x.dtype)


def _in_float32(weight):
    """Return the value of a weight in float32.

    Under the policy mixed_bfloat16, Keras rounds a weight to bfloat16 when a layer reads it. On a
    GPU, each cast starts a kernel, so the function reads the weight without this rounding. On a
    CPU, the function keeps the rounding, so that the output does not change.
    """
    return tf.cast(private_api.uncast_value(weight) if devices.has_gpu() else weight, tf.float32)


NORMS = {"layer": LayerNormalization, "rms": RMSNormalization}


class Processing(Layer):
    """Base class of layers that contain `PrePostProcess` layers with equal settings.

    Args:
        dropout_rate: float in [0, 1).
        dropout_broadcast_dims: ints. Axes along which all elements share one dropout decision.
        epsilon: float. The epsilon of the normalization.
        norm_type: "layer" or "rms".
    """

    def __init__(
        self,
        dropout_rate: float = 0.0,
        dropout_broadcast_dims: Sequence[int] = (),
        epsilon: float = 1e-6,
        norm_type: str = "layer",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dropout_rate = dropout_rate
        self.dropout_broadcast_dims = tuple(dropout_broadcast_dims)
        self.epsilon = epsilon
        self.norm_type = norm_type

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments for another `Processing` layer with the same settings."""
        names = ("dropout_rate", "dropout_broadcast_dims", "epsilon", "norm_type")
        return {"dtype": self.dtype_policy, **{name: getattr(self, name) for name in names}}

    def make_prepostprocess(
        self, sequence: str, name: str = "layer_prepostprocess", **arguments: Any
    ) -> "PrePostProcess":
        """Return a `PrePostProcess` with these settings."""
        return PrePostProcess(sequence, name=name, **self.settings, **arguments)

    def make_prepostprocesses(self, sequence: str, count: int) -> tuple["PrePostProcess", ...]:
        """Return `count` layers, named and numbered as in a variable scope of T2T."""
        numbers = ("", *(f"_{number}" for number in range(1, count)))
        return tuple(
            self.make_prepostprocess(sequence, f"layer_prepostprocess{number}")
            for number in numbers
        )


@keras.saving.register_keras_serializable(package="ut_keras")
class PrePostProcess(Processing, PositionWise):
    """Applies a sequence of small operations to the input or the output of a sublayer.

    Each sublayer (attention or transition) has one `PrePostProcess` before it and one after it.
    T2T's default is pre-norm, with the sequence "n" before the sublayer and "da" after it.
    "Attention Is All You Need" uses post-norm, with "none" before the sublayer and "dan" after it.

        n   normalization
        d   dropout
        a   add the residual

    Args:
        sequence: str of the letters above, or "none".
        *args, **kwargs: as for `Processing`.
        residual_scale: float. Operation "a" multiplies `x` by this factor before it adds the
            residual.

    Call arguments:
        x: float tensor [B, S, D].
        residual: float tensor [B, S, D], the input of the sublayer. Only operation "a" requires it.

    Returns:
        float tensor [B, S, D].

    Raises:
        ValueError: if the sequence contains a letter that is not listed above, or if norm_type is
            unknown.

    References: T2T `common_layers.layer_prepostprocess`.
    """

    def __init__(
        self, sequence: str, *args: Any, residual_scale: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        letters = "" if sequence == "none" else sequence
        if set(letters) - set("nda"):
            raise ValueError(
                f"sequence must be 'none' or consist of 'n', 'd' and 'a'. Received: {sequence!r}."
            )
        check_choice("norm_type", self.norm_type, NORMS)
        self.sequence = sequence
        self.residual_scale = residual_scale
        self.operations = tuple(
            (letter, self._operation(letter, letters[:i].count(letter)))
            for i, letter in enumerate(letters)
        )

    def build(self, input_shape: Shape) -> None:
        build_all((operation for _, operation in self.operations), input_shape)

    def call(
        self, x: tf.Tensor, residual: tf.Tensor | None = None, training: bool | None = None
    ) -> tf.Tensor:
        for letter, operation in self.operations:
            if letter == "a":
                x = (x if self.residual_scale == 1 else self.residual_scale * x) + residual
            elif letter == "d":
                x = operation(x, training=training)
            else:
                x = operation(x)
        return x

    def _operation(self, letter, number):
        """Return the layer of a letter, or None.

        `number` equal letters precede the letter.
        """
        if letter == "n":
            name = f"{self.norm_type}_norm" + (f"_{number}" if number else "")  # as in T2T
            return NORMS[self.norm_type](self.epsilon, name=name, dtype=self.dtype_policy)
        if letter == "d":
            return dropout_lib.sublayer(self, self.dropout_broadcast_dims)
        return None
