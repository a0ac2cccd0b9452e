"""Operations in a form that is fast under XLA."""

import tensorflow as tf


def depthwise_conv1d(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Compute a depthwise convolution over positions as a sum of shifted products.

    With gradients, XLA's own depthwise convolution takes ten times as long as this function on a
    CPU, and six times as long on an H200. Without XLA, TensorFlow's depthwise convolution is
    faster.

    Args:
        x: float [B, S + K - 1, C].
        kernel: tensor of the same dtype, [K, 1, C, 1].

    Returns:
        float [B, S, C], as from `tf.nn.depthwise_conv2d` with padding "VALID".
    """
    size = kernel.shape[0]
    length = tf.shape(x)[1] - size + 1
    return tf.add_n([x[:, i : i + length] * kernel[i, 0, :, 0] for i in range(size)])
