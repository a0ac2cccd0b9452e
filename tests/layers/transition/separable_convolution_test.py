import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.transition import separable_convolution

REAL = np.arange(7) < np.array([[7], [4], [1]])


def _numpy_convolution(x, weights, kernel_size, causal):
    """Apply one filter per channel over positions, then a matrix over channels."""
    depthwise, pointwise, bias = weights
    first = -(kernel_size - 1) if causal else -(kernel_size // 2)
    filtered = np.zeros(x.shape)
    for position in range(x.shape[1]):
        for tap in range(kernel_size):
            seen = position + first + tap
            if 0 <= seen < x.shape[1]:
                filtered[:, position] += x[:, seen] * depthwise[tap, 0, :, 0]
    return filtered @ pointwise + bias


def _made(causal, dropout_rate=0.0):
    layer = separable_convolution.SeparableConvFeedForward(
        6, 4, causal=causal, dropout_rate=dropout_rate
    )
    layer.build((None, None, 4))
    return layer_checks.shake(layer)


@pytest.mark.parametrize("causal", [False, True])
def test_layer_behaviors(causal):
    layer_checks.check_layer(
        lambda dtype: separable_convolution.SeparableConvFeedForward(6, 4, causal, dtype=dtype),
        {"x": layer_checks.normal(3, 7, 4), "padding_mask": REAL},
        num_weights=6,
        mixed_tolerance=0.1,
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_matches_reference(causal, masked):
    layer = _made(causal)
    x = layer_checks.normal(3, 7, 4)
    real = REAL[..., None] if masked else 1.0
    weights = layer.get_weights()
    hidden = np.maximum(_numpy_convolution(x * real, weights[:3], 3, causal), 0)
    expected = _numpy_convolution(hidden * real, weights[3:], 5, causal)
    got = layer(x, padding_mask=REAL if masked else None)
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_is_causal():
    x = layer_checks.normal(3, 7, 4)
    changed = x.copy()
    changed[:, 4:] += 1
    for causal in (True, False):
        layer = _made(causal)
        same = np.asarray(layer(x) == layer(changed)).all(axis=(0, 2))
        assert same[:4].all() == causal
        assert not same[4:].any()


def test_padding_has_no_effect():
    layer, x = _made(causal=False), layer_checks.normal(3, 7, 4)
    changed = np.where(REAL[..., None], x, 100.0)
    np.testing.assert_array_equal(
        np.asarray(layer(x, padding_mask=REAL))[REAL],
        np.asarray(layer(changed, padding_mask=REAL))[REAL],
    )


def test_dropout_is_applied_only_in_training():
    layer, x = _made(causal=False, dropout_rate=0.5), layer_checks.normal(3, 7, 4)
    np.testing.assert_array_equal(layer(x), layer(x, training=False))
    assert np.abs(layer(x, training=True) - layer(x)).max() > 0.01


def test_separable_convolution_rejects_even_kernel():
    with pytest.raises(ValueError, match="kernel_size must be odd. Received: 4"):
        separable_convolution.SeparableConvolution(3, 4)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("shape", [(0, 7, 4), (3, 0, 4), (0, 0, 4), (2, 1, 4)])
def test_empty_inputs_have_empty_outputs(shape, traced):
    layer = _made(causal=False)
    x = tf.zeros(shape)

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, padding_mask=tf.ones(tf.shape(x)[:2], tf.bool), training=True)
        return y, tape.gradient(y, [x, *layer.trainable_variables])

    if traced:
        run = tf.function(run, [tf.TensorSpec([None, None, 4])], autograph=False)
    y, gradients = run(x)
    assert y.shape == x.shape == gradients[0].shape
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def _with_gradients(function, *args):
    with tf.GradientTape() as tape:
        tape.watch(args)
        result = function(*args)
        loss = tf.reduce_sum(result**2)
    return [result, *tape.gradient(loss, args)]


def test_sum_of_shifted_products_matches_tensorflow_convolution():
    x = tf.constant(layer_checks.normal(3, 9, 4))
    kernel = tf.constant(layer_checks.normal(5, 1, 4, 1))

    def convolution(x, kernel):
        return tf.nn.depthwise_conv2d(x[:, :, tf.newaxis], kernel, [1, 1, 1, 1], "VALID")[:, :, 0]

    expected = _with_gradients(convolution, x, kernel)
    for got, wanted in zip(
        _with_gradients(separable_convolution.sum_of_shifted_products, x, kernel),
        expected,
        strict=True,
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_separable_convolution_has_no_convolution_under_xla():
    layer = separable_convolution.SeparableConvFeedForward(6, 4)
    x = tf.constant(layer_checks.normal(3, 7, 4))
    layer.build(x.shape)
    compiled = tf.function(lambda x: layer(x), jit_compile=True, autograph=False)
    np.testing.assert_allclose(compiled(x), layer(x), rtol=1e-5, atol=1e-5)
    assert "convolution(" not in compiled.experimental_get_compiler_ir(x)(stage="hlo")
