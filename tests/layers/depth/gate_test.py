import numpy as np
import pytest

from tests.layers import layer_checks
from ut_keras.layers.basic import dense
from ut_keras.layers.depth import gate
from ut_keras.layers.transition import transition

B, S, D = 3, 5, 4
REAL = np.arange(S) < np.array([[5], [3], [1]])
MAPS = {
    "dense": (lambda dtype: dense.Dense(D, dtype=dtype), 2),
    "dropconnect": (lambda dtype: gate.DropConnectDense(D, 0.5, dtype=dtype), 2),
    "dense_relu_dense": (lambda dtype: transition.FeedForward(8, D, dtype=dtype), 4),
}


def _call(layer, x, state, padding_mask=None, training=False):
    return layer([x, state], padding_mask=padding_mask, training=training)


def _arguments():
    return {"x": layer_checks.normal(B, S, D), "state": layer_checks.normal(B, S, D, seed=1)}


@pytest.mark.parametrize("kind", MAPS)
def test_layer_behaviors(kind):
    make_map, num_weights = MAPS[kind]
    layer_checks.check_layer(
        lambda dtype: gate.Gate(make_map(dtype), zero_at_padding=True, dtype=dtype),
        {**_arguments(), "padding_mask": REAL},
        num_weights,
        build_shape=[(None, None, D)] * 2,
        call=_call,
    )


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", None])
@pytest.mark.parametrize("zero_at_padding", [False, True])
def test_matches_reference(activation, zero_at_padding):
    layer = gate.Gate(dense.Dense(D), activation, zero_at_padding)
    arguments = _arguments()
    layer.build([(None, None, D)] * 2)
    layer_checks.shake(layer)
    kernel, bias = layer.get_weights()
    y = np.concatenate(list(arguments.values()), axis=-1) @ kernel + bias
    y = {"sigmoid": 1 / (1 + np.exp(-y)), "tanh": np.tanh(y), None: y}[activation]
    if zero_at_padding:
        y = y * REAL[..., None]
    got = _call(layer, **arguments, padding_mask=REAL)
    np.testing.assert_allclose(got, y, atol=1e-6)


def test_dropconnect_drops_weights():
    layer = gate.Gate(gate.DropConnectDense(D, 0.5), None)
    arguments = _arguments()
    plain = _call(layer, **arguments)
    layer.map.kernel.assign(np.ones((2 * D, D)))
    ones = {name: np.ones((B, S, D), "float32") for name in arguments}
    dropped = np.asarray(_call(layer, **ones, training=True))
    # The layer drops the same weights at all positions, and doubles the other weights.
    np.testing.assert_array_equal(dropped, np.broadcast_to(dropped[:1, :1], dropped.shape))
    assert set(dropped.ravel()) <= set(2.0 * np.arange(2 * D + 1))
    assert np.any(dropped != np.asarray(_call(layer, **ones, training=True)))
    np.testing.assert_array_equal(_call(layer, **ones), np.full((B, S, D), 2 * D))
    assert np.isfinite(plain).all()


def test_gate_rejects_unknown_activation():
    with pytest.raises(ValueError, match="activation must be one of .*Received: 'relu'"):
        gate.Gate(dense.Dense(D), "relu")
