import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from tests.layers.lstm.lstm_test import reference_step
from ut_keras.layers.lstm import lstm_attention
from ut_keras.layers.lstm.lstm import LSTMState

B, T, S, C, D, A = 3, 4, 5, 3, 4, 2
REAL = np.arange(S) < np.array([[5], [3], [1]])
X = layer_checks.normal(B, T, C)
VALUES = layer_checks.normal(B, S, D, seed=1)
H, CELL = layer_checks.normal(B, D, seed=2), layer_checks.normal(B, D, seed=3)
KINDS = [
    ("bahdanau", 1, True),
    ("bahdanau", 2, True),
    ("luong", 1, True),
    ("luong", 2, True),
    ("luong", 2, False),
]


def _make(mechanism="bahdanau", num_heads=2, output_attention=True, **kwargs):
    layer = lstm_attention.AttentionLSTM(2, D, mechanism, A, num_heads, output_attention, **kwargs)
    layer.build((None, None, C))
    return layer


def _call(layer, may_attend=None, **kwargs):
    states = (LSTMState(H, CELL), LSTMState(CELL, H))
    return layer(X, layer.project_memory(VALUES, may_attend), states, **kwargs)


def _reference(layer, row, may_attend):
    weights = {variable.path.split("/", 1)[-1]: variable.numpy() for variable in layer.variables}
    named = {path.removesuffix("/kernel"): value for path, value in weights.items()}
    states = [(H[row], CELL[row]), (CELL[row], H[row])]
    attention = np.zeros(A * layer.num_heads)
    keys, values = VALUES[row] @ named["memory_layer"], VALUES[row]
    for position in range(T):
        entering = np.concatenate([X[row, position], attention])
        for number, cell in enumerate(layer.cells):
            states[number] = reference_step(cell.get_weights(), entering, states[number])
            entering = states[number][0]
        query, parts, all_weights = entering, [], []
        for head in range(layer.num_heads):
            number = f"_{head}" if head else ""
            if layer.mechanism == "bahdanau":
                scores = np.tanh(keys + query @ named["query_layer"])
                scores = scores @ named["attention_v" + number]
            else:
                scores = keys @ query
            scores = np.where(may_attend[row], np.exp(scores), 0)
            all_weights.append(scores / scores.sum())
            found = all_weights[-1] @ values
            parts.append(np.concatenate([query, found]) @ named["attention_layer" + number])
        attention = np.concatenate(parts)
        shown = attention if layer.output_attention else query
        if layer.output_attention and layer.num_heads > 1:
            shown = shown @ named["dense"] + weights["dense/bias"]
        yield position, shown, np.stack(all_weights)


@pytest.mark.parametrize(("mechanism", "num_heads", "output_attention"), KINDS)
@pytest.mark.parametrize("masked", [False, True])
def test_matches_reference(mechanism, num_heads, output_attention, masked):
    layer = layer_checks.shake(_make(mechanism, num_heads, output_attention))
    output, weights = _call(layer, REAL if masked else None)
    assert output.shape == (B, T, layer.output_size)
    for row in range(B):
        for position, shown, attended in _reference(layer, row, REAL | (not masked)):
            np.testing.assert_allclose(output[row, position], shown, atol=1e-5)
            np.testing.assert_allclose(weights[row, :, position], attended, atol=1e-5)


@pytest.mark.parametrize(("mechanism", "num_heads", "output_attention"), KINDS)
def test_layer_behaviors(mechanism, num_heads, output_attention):
    layer = layer_checks.shake(_make(mechanism, num_heads, output_attention))
    again = lstm_attention.AttentionLSTM.from_config(layer.get_config())
    again.build((None, None, C))
    again.set_weights(layer.get_weights())
    want = _call(layer)
    for got in (_call(again), tf.function(lambda: _call(layer), autograph=False)()):
        for value, expected in zip(got, want, strict=True):
            np.testing.assert_allclose(value, expected, atol=1e-6)
    shapes = layer.compute_output_shape((B, T, C))
    assert shapes[0] == want[0].shape
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(_call(layer, training=True)[0] ** 2)
    for variable, gradient in zip(
        layer.trainable_variables, tape.gradient(loss, layer.trainable_variables), strict=True
    ):
        assert np.any(gradient != 0), variable.path


@pytest.mark.parametrize("mechanism", ["bahdanau", pytest.param("luong", marks=pytest.mark.slow)])
def test_gradients_under_xla_match_eager(mechanism):
    layer = layer_checks.shake(_make(mechanism))

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(_call(layer, training=True)[0] ** 2)
        return tape.gradient(loss, layer.trainable_variables)

    for got, want in zip(
        tf.function(gradients, jit_compile=True, autograph=False)(), gradients(), strict=True
    ):
        np.testing.assert_allclose(got, want, atol=1e-4)


def test_steps_match_full_call():
    layer = layer_checks.shake(_make())
    memory = layer.project_memory(VALUES)
    state = layer.start(memory, (LSTMState(H, CELL), LSTMState(CELL, H)))
    want, weights = _call(layer)
    for position in range(T):
        state = layer.step(layer.cells[0].project(tf.constant(X[:, position])), state, memory)
        np.testing.assert_allclose(layer.output(state), want[:, position], atol=1e-6)
        np.testing.assert_allclose(state.weights, weights[:, :, position], atol=1e-6)


def test_padding_mask_is_applied_before_output_layer():
    layer = layer_checks.shake(_make())
    real = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], bool)
    output, _ = _call(layer, padding_mask=real)
    want, _ = _call(layer)
    np.testing.assert_allclose(output[real], want[real], atol=1e-6)
    bias = layer.output_layer.bias.numpy()
    np.testing.assert_allclose(output[~real], np.tile(bias, [(~real).sum(), 1]), atol=1e-6)


def test_dropout_mask_differs_between_positions():
    layer = layer_checks.shake(_make(dropout_rate=0.4))
    masks = layer._dropout_masks(T, B, training=True)
    assert [mask.shape for mask in masks] == [(T, B, 2 * A), (T, B, D)]
    assert len({mask.numpy().tobytes() for mask in masks[0]}) == T
    quiet = _call(layer, training=False)[0]
    np.testing.assert_array_equal(quiet, _call(layer, training=False)[0])
    assert np.abs(_call(layer, training=True)[0] - quiet).max() > 1e-3


def test_mixed_bfloat16_matches_float32():
    layer, mixed = _make(), _make(dtype="mixed_bfloat16")
    mixed.set_weights(layer.get_weights())
    output, weights = _call(mixed)
    assert (output.dtype, weights.dtype) == (tf.bfloat16, tf.float32)
    np.testing.assert_allclose(tf.cast(output, tf.float32), _call(layer)[0], atol=0.05)


def test_attention_lstm_rejects_unknown_mechanism():
    with pytest.raises(ValueError, match="mechanism must be one of .*'luong'.*Received: 'l'"):
        lstm_attention.AttentionLSTM(1, D, "l")
