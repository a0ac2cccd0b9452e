"""The base class of transitions, and the standard transition of two dense layers."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import TransformerHParams
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import dense, dropout, from_hparams
from ut_keras.layers.basic.signature import Shape
from ut_keras.ops import private_api


class Transition(dense.WithKernels):
    """Base class of transition functions, the sublayers that follow the attention.

    A subclass implements `_transform(x, padding_mask, cache, training)`.

    Args:
        hidden_size: int D, width of the output.
        dropout_rate: float. Rate of the dropout inside the transition.
        kernel_initializer: Keras initializer.

    Call arguments:
        x: float tensor [B, S, D].
        padding_mask: bool tensor [B, S], True at real tokens. Optional.
        cache: `LayerCache`, for transitions that read other positions. Optional.
        mask: another name of `padding_mask`. Keras fills it with the mask that `Masking` or
            `Embedding(mask_zero=True)` attached to `x`.

    Returns:
        float tensor [B, S, D].
    """

    supports_masking = True

    def __init__(self, hidden_size: int, dropout_rate: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.dropout_rate = dropout_rate

    def call(
        self,
        x: tf.Tensor,
        padding_mask: tf.Tensor | None = None,
        cache: cache_lib.LayerCache | None = None,
        training: bool | None = None,
        mask: tf.Tensor | None = None,
    ) -> Any:
        return self._transform(x, mask if padding_mask is None else padding_mask, cache, training)

    def _transform(self, x, padding_mask, cache, training):
        raise NotImplementedError

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape[:-1], self.hidden_size)


def zero_at_padding(x: tf.Tensor, padding_mask: tf.Tensor | None) -> tf.Tensor:
    """Set x [B, S, D] to 0 where `padding_mask` is False.

    If the mask is None, return x.
    """
    if padding_mask is None:
        return x
    return x * tf.cast(padding_mask, x.dtype)[..., tf.newaxis]


@keras.saving.register_keras_serializable(package="ut_keras")
class FeedForward(Transition):
    """Two dense layers, applied to each position separately.

        FFN(x) = max(0, x W_1 + b_1) W_2 + b_2      (Vaswani et al. 2017, eq. 2)

    Args:
        filter_size: int F, width of the hidden layer.
        hidden_size, dropout_rate, kernel_initializer: as in `Transition`. The layer applies dropout
            after the ReLU.
        dropout_broadcast_dims: ints. Axes of [B, S, F] along which all elements share one dropout
            decision.
        zero_at_padding: bool. Whether the output is exactly 0 at padding. In T2T, PadRemover
            (`use_pad_remover`) has this effect.

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
        self.relu_dropout = dropout.sublayer(self, self.dropout_broadcast_dims)
        self.expand = self._dense(self.filter_size, "conv1", x_shape[-1], activation="relu")
        self.contract = self._dense(self.hidden_size, "conv2", self.filter_size)

    def _transform(self, x, padding_mask, cache, training):
        return self._contracted(self._hidden(x, training), padding_mask)

    def _hidden(self, x, training):
        """Apply the first layer, the activation and dropout, [B, S, D] -> [B, S, F]."""
        if training and private_api.is_compiled_by_xla():
            return self.relu_dropout.after_relu(self.expand.without_activation(x))
        return self.relu_dropout(self.expand(x), training=training)

    def _contracted(self, hidden, padding_mask):
        """Apply the second layer, [B, S, F] -> [B, S, D]."""
        y = self.contract(hidden)
        return zero_at_padding(y, padding_mask) if self.zero_at_padding else y


def make(
    hp: TransformerHParams,
    side: str,
    name: str,
    layer_class: type[FeedForward] = FeedForward,
    **arguments: Any,
) -> FeedForward:
    """Return the transition of a layer.

    Args:
        name: str, the name of the Keras layer.
        layer_class: `FeedForward` or a subclass.
        **arguments: further arguments of the subclass.
    """
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


@parts.transitions.register("conv_hidden_relu")  # an older name in T2T
@parts.transitions.register("dense_relu_dense")
def _make(hp, side):
    return make(hp, side, "dense_relu_dense")
