import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention
from ut_keras.layers.depth import transformer_layer
from ut_keras.layers.transition import copy_gate, transition

B, S, D = 3, 5, 8
X = layer_checks.normal(B, S, D)


def _gelu(x):
    return x * 0.5 * (1 + np.float64(tf.math.erf(x / np.sqrt(2))))


def test_layer_behaviors():
    layer_checks.check_layer(lambda dtype: copy_gate.CopyGate(dtype=dtype), {"x": X}, num_weights=4)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_matches_reference(activation):
    layer = copy_gate.CopyGate(0.5, activation=activation)
    layer.build(X.shape)
    begun = layer(100 * X * 0)
    np.testing.assert_allclose(begun, np.full(X.shape, 1 / (1 + np.exp(3))), atol=1e-6)
    layer_checks.shake(layer)
    w1, b1, w2, b2 = layer.get_weights()
    activated = {"gelu": _gelu, "relu": lambda x: np.maximum(x, 0)}[activation](X @ w1 + b1)
    expected = 1 / (1 + np.exp(-(activated @ w2 + b2)))
    np.testing.assert_allclose(layer(X), expected, atol=1e-5)
    many = layer(np.zeros([40, 50, D], "float32"), training=True).numpy()
    kept = np.all(many > 0, axis=-1)
    assert np.all(kept | np.all(many == 0, axis=-1))  # Dropout drops complete positions.
    assert abs(kept.mean() - 0.5) < 0.06
    assert np.any(layer(X, training=True) != layer(X, training=True))


def test_hidden_dropout_drops_hidden_channels():
    layer = copy_gate.CopyGate(activation="relu", hidden_dropout_rate=0.5)
    layer.build(X.shape)
    layer_checks.shake(layer)
    w1, b1, w2, b2 = layer.get_weights()
    hidden = np.maximum(X @ w1 + b1, 0)
    keep = np.float32(2 * (np.random.default_rng(0).random(hidden.shape) < 0.5))
    assert layer.hidden_dropout.rate == 0.5
    layer.hidden_dropout = lambda x, training: x * keep if training else x
    for training, factor in ((True, keep), (False, 1)):
        expected = 1 / (1 + np.exp(-((hidden * factor) @ w2 + b2)))
        np.testing.assert_allclose(layer(X, training=training), expected, atol=1e-5)


def test_copy_gate_rejects_unknown_activation():
    with pytest.raises(ValueError, match="one of .*'gelu', 'relu'.*Received: 'tanh'"):
        copy_gate.CopyGate(activation="tanh")


@pytest.mark.parametrize("transition_postprocess_sequence", [None, "n"])
def test_layer_output_matches_gated_sum(transition_postprocess_sequence):
    """As in the paper, norms follow the sublayers, and the gate reads the attention's output."""
    layer = transformer_layer.TransformerLayer(
        attention.MultiHeadAttention(2, D),
        transition.FeedForward(2 * D, D),
        preprocess_sequence="none",
        postprocess_sequence="an",
        copy_gate=copy_gate.CopyGate(bias_init=0.5),
        transition_postprocess_sequence=transition_postprocess_sequence,
    )
    layer.build(X.shape)
    layer_checks.shake(layer)
    attended = layer.self_attention_block(tf.constant(X)).output
    moved = layer.transition(attended).numpy()
    moved += 0 if transition_postprocess_sequence else attended
    mean, deviation = (f(moved, axis=-1, keepdims=True) for f in (np.mean, np.std))
    scale, bias = layer.transition_block.postprocess.get_weights()
    moved = (moved - mean) / np.sqrt(deviation**2 + 1e-6) * scale + bias
    gate = layer.copy_gate(attended)
    got = layer.forward(tf.constant(X)).output
    np.testing.assert_allclose(got, gate * moved + (1 - gate) * X, atol=1e-5)
    config = layer.get_config()
    again = layer.from_config(dict(config))
    assert again.copy_gate.bias_init == 0.5
    sequence = again.transition_block.postprocess_sequence
    assert sequence == (transition_postprocess_sequence or "an")
    # A version without gates saved configs without these two entries.
    del config["copy_gate"], config["transition_postprocess_sequence"]
    assert layer.from_config(config).copy_gate is None
