"""The transition function of a block: position-wise, or over a few neighbours."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam import TransformerHParams
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import dense, from_hparams
from ut_keras.layers.basic import dropout as dropout_lib
from ut_keras.layers.basic.layer import PositionWise
from ut_keras.layers.basic.signature import Initializer, Shape


@keras.saving.register_keras_serializable(package="ut_keras")
class FeedForward(PositionWise):
    """Two dense layers, the same at every position.

        FFN(x) = max(0, x W_1 + b_1) W_2 + b_2      (Vaswani et al. 2017, eq. 2)

    Args:
        filter_size: int F, width between the two.
        hidden_size: int D, width of the output.
        dropout_rate: float. Dropout behind the ReLU.
        dropout_broadcast_dims: ints. Axes that share their dropout decisions.
        zero_at_padding: bool. Whether the output is exactly 0 at padding, as T2T's PadRemover
            (`use_pad_remover`) leaves it.
        kernel_initializer: Keras initializer.
    Call arguments:
        x: float tensor [B, S, D].
        padding_mask: bool tensor [B, S], True at real tokens. Optional.
        mask: the same; Keras finds that of `Masking` or `Embedding(mask_zero=True)` on `x`.
        training: bool.
    Returns:
        float tensor [B, S, D].
    References: T2T `common_layers.dense_relu_dense` within `transformer_ffn_layer`.
    """

    def __init__(
        self,
        filter_size: int,
        hidden_size: int,
        dropout_rate: float = 0.0,
        dropout_broadcast_dims: Sequence[int] = (),
        zero_at_padding: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.filter_size = filter_size
        self.hidden_size = hidden_size
        self.dropout_rate = dropout_rate
        self.dropout_broadcast_dims = tuple(dropout_broadcast_dims)
        self.zero_at_padding = zero_at_padding
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, x_shape: Shape) -> None:
        self.expand = dense.inside(self, self.filter_size, "conv1", activation="relu")
        self.relu_dropout = dropout_lib.inside(self, self.dropout_broadcast_dims)
        self.contract = dense.inside(self, self.hidden_size, "conv2")
        self.expand.build(x_shape)
        self.contract.build((*x_shape[:-1], self.filter_size))

    def call(
        self,
        x: tf.Tensor,
        padding_mask: tf.Tensor | None = None,
        cache: cache_lib.LayerCache | None = None,
        training: bool | None = None,
        mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        padding_mask = mask if padding_mask is None else padding_mask
        del cache  # there for transitions that see other positions
        return self._contracted(self._expanded(x), padding_mask, training)

    def _contracted(self, expanded, padding_mask, training):
        """The second layer's part, [B, S, F] -> [B, S, D]."""
        y = self.contract(self.relu_dropout(expanded, training=training))
        if self.zero_at_padding and padding_mask is not None:
            y *= tf.cast(padding_mask, y.dtype)[..., tf.newaxis]
        return y

    def _expanded(self, x):
        """What is between the two, [B, S, F]."""
        return self.expand(x)

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape[:-1], self.hidden_size)


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
