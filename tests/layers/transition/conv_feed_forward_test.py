import numpy as np
import pytest

from tests.layers import layer_checks
from ut_keras.layers.transition import conv_feed_forward

B, S, D, F = 3, 7, 4, 6
REAL = np.arange(S) < np.array([[7], [4], [1]])


def _layer(dtype="float32", **arguments):
    return conv_feed_forward.ConvFeedForward(F, D, dtype=dtype, **arguments)


@pytest.mark.parametrize(("kernel_size", "num_weights"), [(1, 4), (3, 6)])
def test_layer_behaviors(kernel_size, num_weights):
    layer_checks.check_layer(
        lambda dtype: _layer(dtype, kernel_size=kernel_size),
        {"x": layer_checks.normal(B, S, D), "padding_mask": REAL},
        num_weights,
    )


@pytest.mark.parametrize(
    ("kernel_size", "causal"), [(1, False), (3, False), (3, True), (4, True), (5, False)]
)
def test_matches_reference(kernel_size, causal):
    """The reference adds one tap after the other. The first tap reads the output position."""
    layer = _layer(kernel_size=kernel_size, causal=causal)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    x = layer_checks.normal(B, S, D)
    seen = x * REAL[..., None] if kernel_size > 1 else x
    h = np.zeros((B, S, F)) + layer.taps[0].bias.numpy()
    origin = kernel_size - 1 if causal else (kernel_size - 1) // 2
    for tap in range(kernel_size):
        offset = tap - origin if tap else 0
        for i in range(S):
            if 0 <= i + offset < S:
                h[:, i] += seen[:, i + offset] @ layer.taps[tap].kernel.numpy()
    h = np.maximum(h / np.sqrt(kernel_size), 0)
    expected = h @ layer.contract.kernel.numpy() + layer.contract.bias.numpy()
    np.testing.assert_allclose(layer(x, padding_mask=REAL), expected, atol=1e-5)


def test_is_causal():
    layer = _layer(kernel_size=5, causal=True)
    x = layer_checks.normal(B, S, D)
    changed = x.copy()
    changed[:, 3:] += 5.0
    first, second = layer(x), layer(changed)
    np.testing.assert_array_equal(first[:, :3], second[:, :3])
    assert np.abs(first[:, 3:] - second[:, 3:]).max() > 1e-3


def test_padding_has_no_effect():
    layer = _layer()
    x = layer_checks.normal(B, S, D)
    changed = np.where(REAL[..., None], x, 100.0).astype("float32")
    first, second = (layer(y, padding_mask=REAL).numpy() for y in (x, changed))
    np.testing.assert_array_equal(first[REAL], second[REAL])


def test_conv_feed_forward_rejects_bad_kernel_size():
    with pytest.raises(ValueError, match="kernel_size must be .*kernel_size=4"):
        _layer(kernel_size=4)
    with pytest.raises(ValueError, match="kernel_size must be at least 1"):
        _layer(kernel_size=0, causal=True)
