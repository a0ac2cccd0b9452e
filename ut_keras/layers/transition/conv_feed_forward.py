"""A transition function with a convolution over neighboring positions."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.basic import dropout, from_hparams
from ut_keras.layers.basic.signature import Shape, Widths
from ut_keras.layers.transition.transition import Transition, zero_at_padding


@keras.saving.register_keras_serializable(package="ut_keras")
class ConvFeedForward(Transition):
    """A convolution over positions, ReLU and a dense layer ("conv_relu_conv").

        h_i = max(0, (W_0 x_i + b + sum over n = 1 .. k-1 of W_n x_{i+n-o}) / sqrt(k))
        y_i = W h_i + b'
        o = k - 1 if causal, else (k - 1) / 2

    As in T2T, tap 0 (W_0) reads the position i itself. In an ordinary convolution, tap 0 would read
    position i - o. Tap o also reads position i, so the two taps 0 and o read the same position.

    Args:
        filter_size: int F, channels of h.
        hidden_size: int D, channels of the output.
        kernel_size: int k. It must be odd if `causal` is False.
        causal: bool. True in a decoder.
        **kwargs: the arguments of `Transition`. The layer applies dropout after the ReLU.

    Call arguments and returns: as `Transition`. If k > 1, the layer first sets padding to 0.

    Raises:
        ValueError: if kernel_size < 1, or if kernel_size is even and `causal` is False.

    References: T2T `common_layers.conv_relu_conv`, `tpu_conv1d`.
    """

    def __init__(
        self,
        filter_size: int,
        hidden_size: int,
        kernel_size: int = 3,
        causal: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(hidden_size, **kwargs)
        if kernel_size < 1 or (kernel_size % 2 == 0 and not causal):
            raise ValueError(
                "kernel_size must be at least 1, and odd unless causal=True. "
                f"Received: kernel_size={kernel_size}, causal={causal}."
            )
        self.filter_size = filter_size
        self.kernel_size = kernel_size
        self.causal = causal

    def build(self, x_shape: Shape) -> None:
        names = ["conv1"]
        if self.kernel_size > 1:
            names = [f"conv1_{tap}" for tap in range(self.kernel_size)]
        self.taps = tuple(
            self._dense(self.filter_size, name, x_shape[-1], use_bias=tap == 0)
            for tap, name in enumerate(names)
        )
        self.relu_dropout = dropout.sublayer(self)
        self.contract = self._dense(self.hidden_size, "conv2", self.filter_size)

    def cache_widths(self) -> Widths:
        """Return the widths of a position's tensors in a cache. See `cache.start`."""
        return {} if self.kernel_size == 1 else {"conv1": (1, self.hidden_size)}

    def _transform(self, x, padding_mask, cache, training):
        if self.kernel_size > 1:
            x = zero_at_padding(x, padding_mask)
        h = self.taps[0](x)
        if self.kernel_size > 1:
            shifted = self._shifted(x) if cache is None else self._shifted_in_cache(x, cache)
            for tap, neighbor in zip(self.taps[1:], shifted[1:], strict=True):
                h += tap(neighbor)
        h = tf.nn.relu(h * self.kernel_size**-0.5)
        return self.contract(self.relu_dropout(h, training=training))

    def _shifted(self, x):
        """Return k copies of x [B, S, D], one shifted by each offset of the kernel."""
        length, reach = tf.shape(x)[1], self.kernel_size - 1
        before = reach if self.causal else reach // 2
        padded = tf.pad(x, [[0, 0], [before, reach - before], [0, 0]])
        shifted = [
            tf.slice(padded, [0, number, 0], [-1, length, -1]) for number in range(self.kernel_size)
        ]
        for neighbor in shifted:
            neighbor.set_shape(x.shape)
        return shifted

    def _shifted_in_cache(self, x, cache):
        cache.write("conv1", x)
        before = cache.read_previous("conv1", self.kernel_size - 1)
        return [*tf.unstack(before, axis=2), x]


@parts.transitions.register("conv_relu_conv")
def _make(hp, side):
    return ConvFeedForward(
        hp.filter_size,
        hp.hidden_size,
        hp.conv_first_kernel,
        causal=side != "encoder",
        dropout_rate=hp.relu_dropout,
        name="conv_relu_conv",
        **from_hparams.common(hp),
    )
