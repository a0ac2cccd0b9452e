import numpy as np
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras import errors
from ut_keras.layers.transition import separable_convolution
from ut_keras.ops import xla


def _with_gradients(function, *args):
    with tf.GradientTape() as tape:
        tape.watch(args)
        result = function(*args)
        loss = tf.reduce_sum(result**2)
    return [result, *tape.gradient(loss, args)]


def test_depthwise_conv1d_matches_tensorflow():
    x = tf.constant(layer_checks.normal(3, 9, 4))
    kernel = tf.constant(layer_checks.normal(5, 1, 4, 1))

    def convolution(x, kernel):
        return tf.nn.depthwise_conv2d(x[:, :, tf.newaxis], kernel, [1, 1, 1, 1], "VALID")[:, :, 0]

    expected = _with_gradients(convolution, x, kernel)
    for got, wanted in zip(_with_gradients(xla.depthwise_conv1d, x, kernel), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_separable_convolution_has_no_convolution_under_xla():
    layer = separable_convolution.SeparableConvFeedForward(6, 4)
    x = tf.constant(layer_checks.normal(3, 7, 4))
    layer.build(x.shape)
    compiled = tf.function(lambda x: layer(x), jit_compile=True, autograph=False)
    np.testing.assert_allclose(compiled(x), layer(x), rtol=1e-5, atol=1e-5)
    assert "convolution(" not in compiled.experimental_get_compiler_ir(x)(stage="hlo")


def test_why_not_compiled_keeps_the_complete_message_of_ut_keras():
    message = f"A weight must be short. Received: {'x' * 300}."
    assert xla.why_not_compiled(errors.UsageError(message)) == message[:-1]
    assert xla.why_not_compiled(ValueError(f"\n  {'y' * 300}\nmore")) == "y" * 200
