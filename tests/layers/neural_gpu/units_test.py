import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from tests.layers.neural_gpu import reference
from ut_keras.layers.neural_gpu import conv_gru, convolution, diagonal_conv_gru

B, S, D = 3, 5, 7
X = layer_checks.normal(B, S, D)
MASK = np.arange(S) < np.array([[5], [3], [1]])


def _built(layer):
    layer.build((None, None, D))
    return layer_checks.shake(layer)


@pytest.mark.parametrize(("height", "width"), [(3, 1), (5, 3), (2, 2), (1, 1)])
def test_convolution_matches_reference(height, width):
    layer = _built(convolution.Convolution(4, height, width))
    assert layer.kernel.shape == (height, width, D, 4)
    got = layer(X)
    for row in range(B):
        want = reference.convolve(X[row], layer.get_weights())
        np.testing.assert_allclose(got[row], want, atol=1e-5)


@pytest.mark.parametrize("name", ["kernel_height", "kernel_width"])
def test_convolution_rejects_empty_kernel(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1. Received: 0"):
        convolution.Convolution(4, **{name: 0})


def test_conv_gru_matches_reference():
    layer = _built(conv_gru.ConvGRU(D))
    got = layer(X)
    assert got.saturation is None
    for row in range(B):
        want = reference.conv_gru(X[row], layer.get_weights())
        np.testing.assert_allclose(got.state[row], want, atol=1e-5)


@pytest.mark.parametrize("shift_axis", ["width", "length"])
def test_diagonal_conv_gru_matches_reference(shift_axis):
    layer = _built(diagonal_conv_gru.DiagonalConvGRU(D, shift_axis=shift_axis))
    got = layer(X)
    for row in range(B):
        state, saturation = reference.diagonal_conv_gru(X[row], layer.get_weights(), shift_axis)
        np.testing.assert_allclose(got.state[row], state, atol=1e-5)
        np.testing.assert_allclose(got.saturation[row], saturation, atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda **kwargs: conv_gru.ConvGRU(D, mask_padding=True, **kwargs),
        lambda **kwargs: diagonal_conv_gru.DiagonalConvGRU(
            D, mask_padding=True, shift_axis="length", **kwargs
        ),
    ],
)
def test_masked_units_ignore_padding(make):
    layer = _built(make())
    x = np.where(MASK[..., None], X, 0)
    got = layer(x, padding_mask=MASK)
    np.testing.assert_array_equal(got.state[1, 3:], 0)
    alone = layer(x[1:2, :3])
    np.testing.assert_allclose(got.state[1, :3], alone.state[0], atol=1e-6)
    if got.saturation is not None:
        np.testing.assert_allclose(got.saturation[1], alone.saturation[0], atol=1e-6)


def test_units_start_with_biases_of_t2t():
    for layer, biases in (
        (conv_gru.ConvGRU(D), (1.0, 1.0, 0.0)),
        (diagonal_conv_gru.DiagonalConvGRU(D), (0.5, 0.7, 0.0)),
    ):
        layer.build((None, None, D))
        parts = (layer.reset, layer.gate, layer.candidate)
        for part, bias in zip(parts, biases, strict=True):
            np.testing.assert_allclose(part.bias, bias)
        assert not np.array_equal(layer.reset.kernel, layer.gate.kernel)


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: conv_gru.ConvGRU(D, dtype=dtype), {"x": X}, num_weights=6
    )
    layer_checks.check_layer(
        lambda dtype: diagonal_conv_gru.DiagonalConvGRU(D, shift_axis="length", dtype=dtype),
        {"x": X},
        num_weights=6,
        mixed_dtypes=("bfloat16", "float32"),
    )


def test_diagonal_unit_drops_candidates():
    layer = diagonal_conv_gru.DiagonalConvGRU(D, dropout_rate=0.5)
    layer.build((None, None, D))
    zeros = tf.zeros([1, 200, D])
    layer.candidate.bias.assign(np.ones(D, "float32"))
    states = np.unique(np.round(layer(zeros, training=True).state, 5))
    gate = 0.5 * 0.7 + 0.5  # This is the gate for a state of zeros.
    np.testing.assert_allclose(states, [0, (1 - gate) * 2 * np.tanh(1)], atol=1e-4)


def test_diagonal_unit_rejects_unknown_axis():
    with pytest.raises(ValueError, match="shift_axis must be one of .* Received: 'height'"):
        diagonal_conv_gru.DiagonalConvGRU(D, shift_axis="height")
