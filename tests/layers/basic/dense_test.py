import keras
import numpy as np
import pytest

from tests.layers import layer_checks
from ut_keras.layers.basic import dense


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("activation", [None, "relu"])
def test_layer_behaviors(use_bias, activation):
    def make(dtype):
        return dense.Dense(3, use_bias=use_bias, activation=activation, dtype=dtype)

    def call(layer, x, training=None):
        del training
        return layer(x)

    layer_checks.check_layer(
        make, {"x": layer_checks.normal(4, 5, 6)}, num_weights=1 + use_bias, call=call
    )


def test_matches_reference():
    layer = dense.Dense(3, activation="relu", bias_initializer=keras.initializers.Constant(0.5))
    for shape in ((4, 6), (2, 3, 6), (2, 3, 4, 6)):
        x = layer_checks.normal(*shape)
        got = layer(x)
        kernel, bias = layer.get_weights()
        np.testing.assert_array_equal(bias, [0.5] * 3)
        np.testing.assert_allclose(got, np.maximum(x @ kernel + bias, 0), atol=1e-6)


def test_dense_rejects_unknown_activation():
    with pytest.raises(ValueError, match="activation must be one of .*'relu'.*Received: 'gelu'"):
        dense.Dense(3, activation="gelu")


def test_shared_initializer_gives_different_kernels():
    initializer = keras.initializers.VarianceScaling()
    layers = [dense.Dense(6, kernel_initializer=initializer) for _ in range(2)]
    for layer in layers:
        layer.build((None, 6))
    first, second = (layer.kernel.numpy() for layer in layers)
    assert np.abs(first - second).max() > 0.1
