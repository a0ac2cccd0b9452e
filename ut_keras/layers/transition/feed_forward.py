"""The transition function of a block: position-wise, or over a few neighbours."""

from collections.abc import Sequence
from typing import Any

import keras

from ut_keras import parts
from ut_keras.hparam import TransformerHParams
from ut_keras.layers.basic import dropout, from_hparams
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.transition.transition import Transition, zero_at_padding


@keras.saving.register_keras_serializable(package="ut_keras")
class FeedForward(Transition):
    """Two dense layers, the same at every position.

        FFN(x) = max(0, x W_1 + b_1) W_2 + b_2      (Vaswani et al. 2017, eq. 2)

    Args:
        filter_size: int F, width between the two.
        hidden_size, dropout_rate, kernel_initializer: as of `Transition`; the dropout is behind the
            ReLU.
        dropout_broadcast_dims: ints. Axes that share their dropout decisions.
        zero_at_padding: bool. Whether the output is exactly 0 at padding, as T2T's PadRemover
            (`use_pad_remover`) leaves it.
    Call arguments and returns: as `Transition`.
    References: T2T `common_layers.dense_relu_dense` within `transformer_ffn_layer`.
    """

    def __init__(
        self,
        filter_size: int,
        hidden_size: int,
        dropout_rate: float = 0.0,
        dropout_broadcast_dims: Sequence[int] = (),
        zero_at_padding: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(hidden_size, dropout_rate, **kwargs)
        self.filter_size = filter_size
        self.dropout_broadcast_dims = tuple(dropout_broadcast_dims)
        self.zero_at_padding = zero_at_padding

    def build(self, x_shape: Shape) -> None:
        self.relu_dropout = dropout.inside(self, self.dropout_broadcast_dims)
        self.expand = self._dense(self.filter_size, "conv1", x_shape[-1], activation="relu")
        self.contract = self._dense(self.hidden_size, "conv2", self.filter_size)

    def _transform(self, x, padding_mask, cache, training):
        return self._contracted(self._expanded(x), padding_mask, training)

    def _contracted(self, expanded, padding_mask, training):
        """The second layer's part, [B, S, F] -> [B, S, D]."""
        y = self.contract(self.relu_dropout(expanded, training=training))
        return zero_at_padding(y, padding_mask) if self.zero_at_padding else y

    def _expanded(self, x):
        """What is between the two, [B, S, F]."""
        return self.expand(x)


def make(
    hp: TransformerHParams,
    side: str,
    name: str,
    layer_class: type[FeedForward] = FeedForward,
    **arguments: Any,
) -> FeedForward:
    """The transition of a layer, of the class or one like it, which may take more arguments."""
    return layer_class(
        hp.filter_size,
        hp.hidden_size,
        hp.relu_dropout,
        from_hparams.axes(hp.relu_dropout_broadcast_dims),
        zero_at_padding=from_hparams.removes_padding(hp, side),
        name=name,
        **arguments,
        **from_hparams.common(hp),
    )


@parts.transitions.register("conv_hidden_relu")  # its old name
@parts.transitions.register("dense_relu_dense")
def _make(hp, side):
    return make(hp, side, "dense_relu_dense")
