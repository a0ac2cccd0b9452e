"""The convolutional transition function of the Universal Transformer."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import dense, dropout, from_hparams
from ut_keras.layers.basic.signature import Shape, Widths
from ut_keras.layers.transition.transition import Transition, zero_at_padding
from ut_keras.ops import private_api


@keras.saving.register_keras_serializable(package="ut_keras")
class SeparableConvolution(dense.WithKernels):
    """A depthwise convolution over positions, followed by a dense layer over channels.

    Args:
        units: int. Channels of the output.
        kernel_size: int, odd. Number of positions that the filter of a channel reads.
        causal: bool. Whether the filter reads only the position itself and earlier positions.
        activation: None or "relu".
        kernel_initializer: Keras initializer.

    Call arguments:
        x: float tensor [B, S, C].
        cache: `LayerCache`. Optional. The layer writes `x` to the store that has the layer's name.
            A cache requires `causal`.

    Returns:
        float tensor [B, S, units].

    Raises:
        ValueError: if kernel_size is even.

    References: T2T `common_layers.separable_conv` with padding "LEFT" (causal) or "SAME".
    """

    def __init__(
        self,
        units: int,
        kernel_size: int,
        causal: bool = False,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size must be odd. Received: {kernel_size}.")
        self.units = units
        self.kernel_size = kernel_size
        self.causal = causal
        self.activation = activation

    def build(self, x_shape: Shape) -> None:
        self.depthwise_kernel = self.add_weight(
            name="depthwise_kernel",
            shape=(self.kernel_size, 1, x_shape[-1], 1),
            initializer=self.kernel_initializer.clone(),  # `Dense.build` gives the reason
        )
        self.pointwise = self._dense(
            self.units, "pointwise", x_shape[-1], activation=self.activation
        )

    def call(self, x: tf.Tensor, cache: cache_lib.LayerCache | None = None) -> tf.Tensor:
        filtered = self._filter(x) if cache is None else self._filter_in_cache(x, cache)
        return self.pointwise(filtered)

    def _filter_in_cache(self, x, cache):
        """Apply the filters to the columns of a window, and write `x` to the cache."""
        cache.write(self.name, x)
        before = cache.read_previous(self.name, self.kernel_size - 1)  # [B, Q, reach, C]
        inputs = tf.concat([before, x[:, :, tf.newaxis]], axis=2)
        kernel = tf.convert_to_tensor(self.depthwise_kernel)[:, 0, :, 0]  # [reach + 1, C]
        return tf.reduce_sum(inputs * tf.cast(kernel, x.dtype), axis=2)

    def _filter(self, x):
        """Apply the filter of each channel to complete sequences, [B, S, C] -> [B, S, C]."""
        reach = self.kernel_size - 1
        before = reach if self.causal else reach // 2
        after = reach - before
        if private_api.is_compiled_by_xla():
            padded = tf.pad(x, [[0, 0], [before, after], [0, 0]])
            return sum_of_shifted_products(padded, tf.convert_to_tensor(self.depthwise_kernel))
        # On a CPU, TensorFlow's convolution has a wrong shape or raises an error if the batch or
        # the sequence is empty. So such inputs get one more example and position.
        more = 0 if x.shape[:2].num_elements() else tf.cast(tf.equal(tf.size(x), 0), tf.int32)
        padded = tf.pad(x, [[0, more], [before, after + more], [0, 0]])
        filtered = tf.nn.depthwise_conv2d(
            tf.expand_dims(padded, 2), self.depthwise_kernel, [1, 1, 1, 1], "VALID"
        )
        filtered = tf.slice(tf.squeeze(filtered, 2), [0, 0, 0], tf.shape(x))
        filtered.set_shape(x.shape)
        return filtered

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape[:-1], self.units)


def sum_of_shifted_products(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Compute a depthwise convolution over positions as a sum of shifted products.

    With gradients, XLA's own depthwise convolution takes ten times as long as this function on a
    CPU, and six times as long on an H200. Without XLA, TensorFlow's depthwise convolution is
    faster.

    Args:
        x: float [B, S + K - 1, C].
        kernel: tensor [K, 1, C, 1] with the dtype of `x`.

    Returns:
        float [B, S, C], equal to the result of `tf.nn.depthwise_conv2d` with padding "VALID".
    """
    size = kernel.shape[0]
    length = tf.shape(x)[1] - size + 1
    return tf.add_n([x[:, i : i + length] * kernel[i, 0, :, 0] for i in range(size)])


@keras.saving.register_keras_serializable(package="ut_keras")
class SeparableConvFeedForward(Transition):
    """Two separable convolutions with a ReLU between them ("sepconv").

    The layer sets padding to zero before each convolution, so that padding does not affect the
    neighboring positions.

    Args:
        filter_size: int F, channels between the two convolutions.
        hidden_size: int D, channels of the output.
        causal: bool. True in a decoder.
        kernel_sizes: two odd ints, one per convolution.
        **kwargs: the arguments of `Transition`. The layer applies dropout after the ReLU.

    Call arguments and returns: as `Transition`.

    References: T2T `common_layers.sepconv_relu_sepconv`.
    """

    def __init__(
        self,
        filter_size: int,
        hidden_size: int,
        causal: bool = False,
        kernel_sizes: Sequence[int] = (3, 5),
        **kwargs: Any,
    ) -> None:
        super().__init__(hidden_size, **kwargs)
        self.filter_size = filter_size
        self.causal = causal
        self.kernel_sizes = tuple(kernel_sizes)

    def build(self, x_shape: Shape) -> None:
        first, second = self.kernel_sizes
        shared = {"kernel_initializer": self.kernel_initializer, "dtype": self.dtype_policy}
        self.expand = SeparableConvolution(
            self.filter_size, first, self.causal, "relu", name="conv1", **shared
        )
        self.relu_dropout = dropout.sublayer(self)
        self.contract = SeparableConvolution(
            self.hidden_size, second, self.causal, name="conv2", **shared
        )
        self.expand.build(x_shape)
        self.contract.build((*x_shape[:-1], self.filter_size))

    def cache_widths(self) -> Widths:
        """Return the widths of a position's tensors in a cache. See `cache.start`."""
        return {self.expand.name: (1, self.hidden_size), self.contract.name: (1, self.filter_size)}

    def _transform(self, x, padding_mask, cache, training):
        h = self.expand(zero_at_padding(x, padding_mask), cache=cache)
        h = self.relu_dropout(h, training=training)
        return self.contract(zero_at_padding(h, padding_mask), cache=cache)


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
