import numpy as np
import pytest

from tests.layers import layer_checks
from ut_keras.layers.transition import swiglu

REAL = np.array([[True, True, True], [True, True, False]])


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: swiglu.SwiGLU(16, 4, 0.1, (1,), dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4), "padding_mask": REAL},
        num_weights=3,
    )


@pytest.mark.parametrize("zero_at_padding", [True, False])
def test_matches_reference(zero_at_padding):
    layer = swiglu.SwiGLU(16, 4, zero_at_padding=zero_at_padding)
    layer.build((None, None, 4))
    layer_checks.shake(layer)
    x = layer_checks.normal(2, 3, 4)
    w, v, w2 = (layer.gate.kernel, layer.expand.kernel, layer.contract.kernel)
    gate = x @ w.numpy()
    expected = (gate / (1 + np.exp(-gate)) * (x @ v.numpy())) @ w2.numpy()
    if zero_at_padding:
        expected[~REAL] = 0
    np.testing.assert_allclose(layer(x, padding_mask=REAL), expected, atol=1e-5)
