import numpy as np
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers import attention, copy_gate, feed_forward, transformer_layer

B, S, D = 3, 5, 8
X = layer_checks.normal(B, S, D)


def _gelu(x):
    return x * 0.5 * (1 + np.float64(tf.math.erf(x / np.sqrt(2))))


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: copy_gate.CopyGate(dtype=dtype), {"x": X}, num_weights=4
    )


def test_matches_reference():
    layer = copy_gate.CopyGate(0.5)
    layer.build(X.shape)
    begun = layer(100 * X * 0)
    np.testing.assert_allclose(begun, np.full(X.shape, 1 / (1 + np.exp(3))), atol=1e-6)
    layer_checks.shake(layer)
    w1, b1, w2, b2 = layer.get_weights()
    expected = 1 / (1 + np.exp(-(_gelu(X @ w1 + b1) @ w2 + b2)))
    np.testing.assert_allclose(layer(X), expected, atol=1e-5)
    many = layer(np.zeros([40, 50, D], "float32"), training=True).numpy()
    kept = np.all(many > 0, axis=-1)
    assert np.all(kept | np.all(many == 0, axis=-1))  # a position as a whole
    assert abs(kept.mean() - 0.5) < 0.06
    assert np.any(layer(X, training=True) != layer(X, training=True))


def test_what_a_layer_keeps():
    """With norms behind, as in the paper; the gate sees what attention has made."""
    layer = transformer_layer.TransformerLayer(
        attention.MultiHeadAttention(2, D),
        feed_forward.FeedForward(2 * D, D),
        preprocess_sequence="none",
        postprocess_sequence="an",
        copy_gate=copy_gate.CopyGate(bias_init=0.5),
    )
    layer.build(X.shape)
    layer_checks.shake(layer)
    attended = layer.self_attention_block(tf.constant(X)).output
    moved = layer.transition_block(attended).output
    gate = layer.copy_gate(attended)
    got = layer.forward(tf.constant(X)).output
    np.testing.assert_allclose(got, gate * moved + (1 - gate) * X, atol=1e-5)
    config = layer.get_config()
    assert layer.from_config(dict(config)).copy_gate.bias_init == 0.5
    del config["copy_gate"]  # as it was saved before there were gates
    assert layer.from_config(config).copy_gate is None
