"""A gate that lets a position keep its state over steps."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import dense, from_hparams
from ut_keras.layers.basic import dropout as dropout_lib
from ut_keras.layers.basic.layer import PositionWise, check_choice
from ut_keras.layers.basic.signature import Shape
from ut_keras.ops import seed as seed_lib

_ACTIVATIONS = {"gelu": tf.nn.gelu, "relu": tf.nn.relu}


@keras.saving.register_keras_serializable(package="ut_keras")
class CopyGate(dense.WithKernels, PositionWise):
    """Computes the share of the new state in each channel (`copy_gate`).

        g = sigmoid(W_2 f(W_1 a + b_1) + b_2)
        H_t = g U + (1 - g) H_{t-1}

    a is the state after the attention, and U is the state after the transition. By default, the
    initial value of b_2 is -3, so that positions almost keep their states at the start of training.

    Args:
        dropout_rate: float. Fraction of positions that keep their complete state in training.
        bias_init: float, the initial value of b_2.
        kernel_initializer: Keras initializer of W_1 and W_2.
        activation: "gelu" or "relu", the function f.
        hidden_dropout_rate: float. Rate of the dropout after f.

    Call arguments:
        x: float tensor [B, S, D], the state a.
        cache: not used. `Sublayer` passes this argument.

    Returns:
        float tensor [B, S, D], the gate g.

    Raises:
        ValueError: if the activation is unknown.

    References: Csordás et al. 2022, The Neural Data Router. Its code, github.com/RobertCsordas/ndr,
        layers/transformer/ndr_geometric.py, uses "relu", followed by a dropout of 0.5.
    """

    def __init__(
        self,
        dropout_rate: float = 0.0,
        bias_init: float = -3.0,
        activation: str = "gelu",
        hidden_dropout_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("activation", activation, _ACTIVATIONS)
        self.activation = activation
        self.hidden_dropout_rate = hidden_dropout_rate
        self.hidden_dropout = dropout_lib.Dropout(
            hidden_dropout_rate, name="hidden_dropout", dtype=self.dtype_policy
        )
        self.dropout_rate = dropout_rate
        self.bias_init = bias_init
        self.seed_generator: Any = keras.random.SeedGenerator() if dropout_rate else None

    def build(self, input_shape: Shape) -> None:
        size, bias = input_shape[-1], keras.initializers.Constant(self.bias_init)
        self.hidden = self._dense(size, "hidden", size)
        self.gate = self._dense(size, "gate", size, bias_initializer=bias)

    def call(
        self, x: tf.Tensor, training: bool | None = None, cache: cache_lib.LayerCache | None = None
    ) -> tf.Tensor:
        hidden = _ACTIVATIONS[self.activation](self.hidden(x))
        gate = tf.sigmoid(self.gate(self.hidden_dropout(hidden, training=training)))
        if not training or not self.dropout_rate:
            return gate
        seed = seed_lib.per_replica(self.seed_generator)
        random = tf.random.stateless_uniform(tf.shape(x)[:2], seed)
        return gate * tf.cast(random >= self.dropout_rate, gate.dtype)[..., tf.newaxis]


def make(hp: Any) -> CopyGate | None:
    """Return the gate of a layer, or None if the hparam `copy_gate` is not set."""
    # The hparams of a Transformer do not have the field `copy_gate`.
    if not getattr(hp, "copy_gate", False):
        return None
    activation = hp.copy_gate_activation
    return CopyGate(
        hp.copy_gate_dropout,
        activation=activation,
        hidden_dropout_rate=hp.relu_dropout if activation == "relu" else 0.0,
        name="copy_gate",
        **from_hparams.common(hp),
    )
