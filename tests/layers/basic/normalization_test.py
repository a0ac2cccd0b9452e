import numpy as np

from tests.layers import layer_checks
from ut_keras.layers.basic import normalization


def _without_training(layer, x, training=None):
    del training
    return layer(x)


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: normalization.LayerNormalization(1e-3, dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4)},
        num_weights=2,
        call=_without_training,
    )


def test_matches_reference():
    layer = normalization.LayerNormalization(epsilon=0.1)
    layer.build((None, None, 5))
    layer_checks.shake(layer)
    x = 3 + 2 * layer_checks.normal(2, 3, 5)
    scale, bias = layer.get_weights()
    variance = ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True)
    expected = scale * (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + 0.1) + bias
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_statistics_are_float32():
    # In bfloat16 the mean of these is off by more than their spread.
    x = 100 + np.float32([[0, 0.5, 1, 1.5] * 64])
    layer = normalization.LayerNormalization(dtype="mixed_bfloat16")
    expected = (x - x.mean()) / x.std()
    np.testing.assert_allclose(np.float32(layer(x)), expected, atol=0.3)
    assert layer(x).dtype == "bfloat16"


def test_layer_behaviors_of_rms():
    layer_checks.check_layer(
        lambda dtype: normalization.RMSNormalization(1e-3, dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4)},
        num_weights=1,
        call=lambda layer, x, training=None: layer(x),
    )


def test_rms_matches_reference():
    layer = normalization.RMSNormalization(epsilon=0.1)
    layer.build((None, None, 5))
    layer_checks.shake(layer)
    x = 3 + 2 * layer_checks.normal(2, 3, 5)
    (scale,) = layer.get_weights()
    expected = scale * x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.1)
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_the_mean_square_is_float32():
    x = np.float32([[256, 1] * 512])  # in bfloat16, adding 1 to 256² changes nothing
    layer = normalization.RMSNormalization(dtype="mixed_bfloat16")
    expected = x / np.sqrt((x**2).mean())
    np.testing.assert_allclose(np.float32(layer(x)), expected, rtol=0.01)
    assert layer(x).dtype == "bfloat16"
