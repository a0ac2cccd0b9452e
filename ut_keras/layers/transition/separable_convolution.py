"""The convolutional transition function of the Universal Transformer."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import dense, from_hparams
from ut_keras.layers.basic import dropout as dropout_lib
from ut_keras.layers.basic.layer import Layer
from ut_keras.layers.basic.signature import Initializer, Shape, Widths


@keras.saving.register_keras_serializable(package="ut_keras")
class SeparableConvolution(Layer):
    """A filter along positions for each channel, then a dense layer over the channels.

    Args:
        units: int. Channels of the output.
        kernel_size: int, odd. Positions that a filter sees.
        causal: bool. Whether it sees only the position itself and those before it.
        activation: None or "relu".
        kernel_initializer: Keras initializer.
    Call arguments:
        x: float tensor [B, S, C].
        cache: `LayerCache`, which keeps `x` by this layer's name. Optional, and only if causal.
    Returns:
        float tensor [B, S, units].
    References: T2T `common_layers.separable_conv` with padding "LEFT" (causal) or "SAME".
    """

    def __init__(
        self,
        units: int,
        kernel_size: int,
        causal: bool = False,
        activation: str | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size must be odd. Received: {kernel_size}.")
        self.units = units
        self.kernel_size = kernel_size
        self.causal = causal
        self.activation = activation
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, x_shape: Shape) -> None:
        self.depthwise_kernel = self.add_weight(
            name="depthwise_kernel",
            shape=(self.kernel_size, 1, x_shape[-1], 1),
            initializer=self.kernel_initializer.clone(),  # see Dense
        )
        self.pointwise = dense.inside(self, self.units, "pointwise", activation=self.activation)
        self.pointwise.build(x_shape)

    def call(self, x: tf.Tensor, cache: cache_lib.LayerCache | None = None) -> tf.Tensor:
        reach = self.kernel_size - 1
        if cache is not None:
            cache.write(self.name, x)
            before = cache.before(self.name, reach)  # [B, Q, reach, C]
            seen = tf.concat([before, x[:, :, tf.newaxis]], axis=2)
            kernel = tf.convert_to_tensor(self.depthwise_kernel)[:, 0, :, 0]  # [reach + 1, C]
            return self.pointwise(tf.reduce_sum(seen * tf.cast(kernel, x.dtype), axis=2))
        before = reach if self.causal else reach // 2
        padded = tf.pad(x, [[0, 0], [before, reach - before], [0, 0]])
        filtered = tf.nn.depthwise_conv2d(
            padded[:, :, tf.newaxis, :], self.depthwise_kernel, [1, 1, 1, 1], "VALID"
        )
        return self.pointwise(filtered[:, :, 0, :])

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape[:-1], self.units)


@keras.saving.register_keras_serializable(package="ut_keras")
class SeparableConvFeedForward(Layer):
    """Two separable convolutions with a ReLU between them (`transformer_ffn_type="sepconv"`).

    Padding is set to zero before each convolution, so that it does not leak into its neighbours.

    Args:
        filter_size: int F, channels between the two.
        hidden_size: int D, channels of the output.
        causal: bool. True in a decoder.
        kernel_sizes: two odd ints.
        dropout_rate: float. Dropout behind the ReLU.
        kernel_initializer: Keras initializer.
    Call arguments:
        x: float tensor [B, S, D].
        padding_mask: bool tensor [B, S], True at real tokens. Optional.
        mask: the same; Keras finds that of `Masking` or `Embedding(mask_zero=True)` on `x`.
        cache: `LayerCache`. Optional.
        training: bool.
    Returns:
        float tensor [B, S, D].
    References: T2T `common_layers.sepconv_relu_sepconv`.
    """

    supports_masking = True

    def __init__(
        self,
        filter_size: int,
        hidden_size: int,
        causal: bool = False,
        kernel_sizes: Sequence[int] = (3, 5),
        dropout_rate: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.filter_size = filter_size
        self.hidden_size = hidden_size
        self.causal = causal
        self.kernel_sizes = tuple(kernel_sizes)
        self.dropout_rate = dropout_rate
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, x_shape: Shape) -> None:
        def convolution(units, kernel_size, name, activation=None):
            return SeparableConvolution(
                units,
                kernel_size,
                self.causal,
                activation,
                self.kernel_initializer,
                name=name,
                dtype=self.dtype_policy,
            )

        self.expand = convolution(self.filter_size, self.kernel_sizes[0], "conv1", "relu")
        self.relu_dropout = dropout_lib.inside(self)
        self.contract = convolution(self.hidden_size, self.kernel_sizes[1], "conv2")
        self.expand.build(x_shape)
        self.contract.build((*x_shape[:-1], self.filter_size))

    def cache_widths(self) -> Widths:
        """What a cache keeps of each position, see `cache.start`."""
        return {self.expand.name: (1, self.hidden_size), self.contract.name: (1, self.filter_size)}

    def call(
        self,
        x: tf.Tensor,
        padding_mask: tf.Tensor | None = None,
        cache: cache_lib.LayerCache | None = None,
        training: bool | None = None,
        mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        padding_mask = mask if padding_mask is None else padding_mask
        h = self.expand(_zero_padding(x, padding_mask), cache=cache)
        h = self.relu_dropout(h, training=training)
        return self.contract(_zero_padding(h, padding_mask), cache=cache)

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape[:-1], self.hidden_size)


def _zero_padding(x, padding_mask):
    if padding_mask is None:
        return x
    return x * tf.cast(padding_mask, x.dtype)[..., tf.newaxis]


@parts.transitions.register("sepconv")
def _make(hp, side):
    return SeparableConvFeedForward(
        hp.filter_size,
        hp.hidden_size,
        causal=side != "encoder",
        dropout_rate=hp.relu_dropout,
        name="sepconv_relu_sepconv",
        **from_hparams.common(hp),
    )
