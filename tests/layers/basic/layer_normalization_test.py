import numpy as np

from tests.layers import layer_checks
from ut_keras.layers.basic import layer_normalization


def _without_training(layer, x, training=None):
    del training
    return layer(x)


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: layer_normalization.LayerNormalization(1e-3, dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4)},
        num_weights=2,
        call=_without_training,
    )


def test_matches_reference():
    layer = layer_normalization.LayerNormalization(epsilon=0.1)
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
    layer = layer_normalization.LayerNormalization(dtype="mixed_bfloat16")
    expected = (x - x.mean()) / x.std()
    np.testing.assert_allclose(np.float32(layer(x)), expected, atol=0.3)
    assert layer(x).dtype == "bfloat16"
