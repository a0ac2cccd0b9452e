import numpy as np
import pytest

from tests.layers import layer_checks
from ut_keras.layers.depth import gated_unit_recurrence
from ut_keras.layers.lstm import lstm

B, S, D = 3, 5, 4
REAL = np.arange(S) < np.array([[5], [3], [1]])
STATES = {
    "x": layer_checks.normal(B, S, D),
    "state": layer_checks.normal(B, S, D, seed=1),
}


def _step_lstm(layer, x, state, cell, padding_mask=None, training=False):
    state = lstm.LSTMState(state, cell)
    return layer(x, state, padding_mask=padding_mask)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_gru_behaviors():
    layer_checks.check_layer(
        lambda dtype: gated_unit_recurrence.GRUUnit(zero_at_padding=True, dtype=dtype),
        {**STATES, "padding_mask": REAL},
        num_weights=6,
        call=lambda layer, x, state, padding_mask, training=False: layer(
            x, state, padding_mask=padding_mask
        ),
    )


def test_lstm_behaviors():
    layer_checks.check_layer(
        lambda dtype: gated_unit_recurrence.LSTMUnit(zero_at_padding=True, dtype=dtype),
        {**STATES, "cell": layer_checks.normal(B, S, D, seed=2), "padding_mask": REAL},
        num_weights=8,
        call=_step_lstm,
        mixed_dtypes=("bfloat16", "bfloat16"),
    )


@pytest.mark.parametrize("zero_at_padding", [False, True])
def test_gru_matches_reference(zero_at_padding):
    layer = gated_unit_recurrence.GRUUnit(zero_at_padding=zero_at_padding)
    layer.build((None, None, D))
    np.testing.assert_array_equal(layer.update.map.bias, np.ones(D))
    np.testing.assert_array_equal(layer.reset.map.bias, np.ones(D))
    layer_checks.shake(layer)
    wz, bz, wr, br, w, b = layer.get_weights()
    real = REAL[..., None] if zero_at_padding else 1.0
    x, h = STATES.values()
    z = _sigmoid(np.concatenate([x, h], -1) @ wz + bz) * real
    r = _sigmoid(np.concatenate([x, h], -1) @ wr + br) * real
    c = np.tanh(np.concatenate([x, r * h], -1) @ w + b) * real
    got = layer(x, h, padding_mask=REAL)
    np.testing.assert_allclose(got, (1 - z) * x + z * c, atol=1e-6)


@pytest.mark.parametrize("zero_at_padding", [False, True])
def test_lstm_matches_reference(zero_at_padding):
    layer = gated_unit_recurrence.LSTMUnit(forget_bias=0.7, zero_at_padding=zero_at_padding)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    weights = layer.get_weights()
    real = REAL[..., None] if zero_at_padding else 1.0
    x, h = STATES.values()
    cell = layer_checks.normal(B, S, D, seed=2)
    i, f, o, m = (
        np.concatenate([x, h], -1) @ kernel + bias
        for kernel, bias in zip(weights[::2], weights[1::2], strict=True)
    )
    new = _sigmoid(f * real + 0.7) * cell + _sigmoid(i) * real * np.tanh(m) * real
    got = _step_lstm(layer, x, h, cell, REAL)
    np.testing.assert_allclose(got.cell, new, atol=1e-6)
    np.testing.assert_allclose(got.output, _sigmoid(o) * real * np.tanh(new), atol=1e-6)
