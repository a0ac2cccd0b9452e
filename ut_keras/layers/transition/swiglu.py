"""SwiGLU, a transition function whose hidden layer is multiplied by a gate."""

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.basic import dropout
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.transition import transition


@keras.saving.register_keras_serializable(package="ut_keras")
class SwiGLU(transition.FeedForward):
    """Two dense layers without biases, with a gate on the output of the first layer.

        FFN(x) = (silu(x W) * x V) W_2,   silu(z) = z sigmoid(z)       (Shazeer 2020, eq. 6)

    SwiGLU has three kernels, and `FeedForward` has two. For the same number of weights, the
    `filter_size` of SwiGLU must be 2/3 of the `filter_size` of `FeedForward`.

    Args, call arguments and returns: as in `FeedForward`. The layer applies dropout after the gate.

    References: Shazeer 2020, GLU Variants Improve Transformer. T2T has no such layer.
    """

    def build(self, x_shape: Shape) -> None:
        size, inner = x_shape[-1], self.filter_size
        self.relu_dropout = dropout.sublayer(self, self.dropout_broadcast_dims)
        self.gate = self._dense(inner, "gate", size, use_bias=False)
        self.expand = self._dense(inner, "expand", size, use_bias=False)
        self.contract = self._dense(self.hidden_size, "contract", inner, use_bias=False)

    def _hidden(self, x, training):
        return self.relu_dropout(tf.nn.silu(self.gate(x)) * self.expand(x), training=training)


@parts.transitions.register("swiglu")
def _make(hp, side):
    return transition.make(hp, side, "swiglu", SwiGLU)
