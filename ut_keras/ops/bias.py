"""The sum of a tensor and a bias vector, with another gradient in bfloat16."""

import tensorflow as tf

from ut_keras.ops import custom_gradient, private_api


def add(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Return `x + bias`.

    The gradient of the bias is the sum of the upstream gradient over all vectors. In bfloat16, the
    function computes this sum as the matrix product of a vector of ones and the upstream gradient.
    The product is accumulated in float32. TensorFlow's operation BiasAddGrad has two problems in
    bfloat16:

    - On a CPU, it accumulates in bfloat16. The sum of 1,000 ones is then 256, and the gradient of a
      bias was 10 to 50 % too small.
    - On a GPU, it is slow: 24 calls took 9 of the 118 ms of an update on an H200.

    Under XLA, the function uses TensorFlow's gradient, because XLA accumulates in float32 and fuses
    the operations itself.

    Args:
        x: float [..., D].
        bias: float [D], a tensor or variable. The function casts it to the dtype of `x`.
    """
    bias = tf.cast(tf.convert_to_tensor(bias), x.dtype)
    if x.dtype == tf.bfloat16 and not private_api.is_compiled_by_xla():
        return _add(x, bias)
    return tf.nn.bias_add(x, bias)


@custom_gradient.wrap
def _add(x, bias):
    def gradient(upstream):
        rows = tf.reshape(upstream, [-1, bias.shape[0]])
        return upstream, tf.matmul(tf.ones([1, tf.shape(rows)[0]], rows.dtype), rows)[0]

    return tf.nn.bias_add(x, bias), gradient
