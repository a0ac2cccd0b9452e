"""Gates: values per position and channel that determine how two tensors are mixed."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras.hparam_schema import UniversalTransformerHParams
from ut_keras.layers.basic import dense, from_hparams
from ut_keras.layers.basic import dropout as dropout_lib
from ut_keras.layers.basic.layer import Layer, check_choice
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.transition import transition

ACTIVATIONS = {"sigmoid": tf.sigmoid, "tanh": tf.tanh, None: tf.identity}


@keras.saving.register_keras_serializable(package="ut_keras")
class Gate(Layer):
    """Computes a gate value per position and channel from several inputs.

        g = activation(map([x_1; x_2; ...]))

    Args:
        map: a `Dense`, `DropConnectDense` or `FeedForward` layer. It maps the last axis of the
            concatenated inputs to D.
        activation: "sigmoid", "tanh" or None.
        zero_at_padding: bool. Whether the gate is exactly 0 at padding. In T2T, PadRemover
            (`use_pad_remover`) has this effect.

    Call arguments:
        inputs: list of float tensors [B, S, D].
        padding_mask: bool tensor [B, S], True at real tokens. Optional.

    Returns:
        float tensor [B, S, D].

    Raises:
        ValueError: if the activation is unknown.

    References: T2T `universal_transformer_util._ffn_layer_multi_inputs`.
    """

    def __init__(
        self,
        map: keras.layers.Layer,
        activation: str | None = "sigmoid",
        zero_at_padding: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("activation", activation, ACTIVATIONS)
        self.map = map
        self.activation = activation
        self.zero_at_padding = zero_at_padding

    def build(self, inputs_shape: Sequence[Shape]) -> None:
        if not self.map.built:
            width = sum(shape[-1] for shape in inputs_shape)
            self.map.build((*inputs_shape[0][:-1], width))

    def call(
        self,
        inputs: Sequence[tf.Tensor],
        padding_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        # Keras passes `training` to the map, if its `call` has this argument.
        gate = ACTIVATIONS[self.activation](self.map(tf.concat(inputs, axis=-1)))
        return transition.zero_at_padding(gate, padding_mask) if self.zero_at_padding else gate


@keras.saving.register_keras_serializable(package="ut_keras")
class DropConnectDense(dense.Dense):
    """A dense layer with DropConnect: training drops weights, not activations.

    T2T has an option for DropConnect, `gate_ffn_layer="dense_dropconnect"`, but this option always
    fails.

    Args:
        dropconnect_rate: float. Fraction of the kernel's entries that training sets to 0.
        others: as `Dense`.

    References: Wan et al. 2013, Regularization of Neural Networks using DropConnect.
    """

    def __init__(self, units: int, dropconnect_rate: float = 0.0, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.dropconnect_rate = dropconnect_rate
        self.dropconnect = dropout_lib.Dropout(
            dropconnect_rate, name="dropconnect", dtype=self.dtype_policy
        )

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        return self.apply_kernel(
            x, self.dropconnect(tf.convert_to_tensor(self.kernel), training=training)
        )


def make(hp: UniversalTransformerHParams, side: str, name: str, bias: float) -> Gate:
    """Return a gate for a "highway" or "skip" recurrence.

    The hparam `gate_ffn_layer` selects the layer that computes the gate.
    """
    common = {"name": "map", **from_hparams.common(hp)}
    biased = {"bias_initializer": keras.initializers.Constant(bias), **common}
    map: keras.layers.Layer
    if hp.gate_ffn_layer == "dense":
        map = dense.Dense(hp.hidden_size, **biased)
    elif hp.gate_ffn_layer == "dense_dropconnect":
        map = DropConnectDense(hp.hidden_size, hp.dropconnect_dropout, **biased)
    else:  # T2T initializes the biases of this layer with 0, not with `bias`
        map = transition.FeedForward(
            hp.filter_size, hp.hidden_size, hp.relu_dropout, zero_at_padding=False, **common
        )
    # If transform gate and separate carry gate were 0 at padding, the state there would become 0.
    zero_at_padding = from_hparams.removes_padding(hp, side) and hp.couple_carry_transform_gates
    return Gate(
        map, zero_at_padding=zero_at_padding, name=name, dtype=from_hparams.dtype_policy(hp)
    )
