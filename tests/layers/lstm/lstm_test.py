import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.lstm import lstm
from ut_keras.layers.lstm.lstm import LSTMState

B, S, C, D = 3, 5, 3, 4
REAL = np.arange(S) < np.array([[5], [3], [1]])


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference_step(weights, x, state, forget_bias=1.0):
    """Apply an LSTM cell to one position, in numpy.

    The module `lstm_attention_test` also uses this function.
    """
    kernel, bias = weights
    gates = np.concatenate([x, state[0]], -1) @ kernel + bias
    i, j, f, o = np.split(gates, 4, -1)
    cell = _sigmoid(f + forget_bias) * state[1] + _sigmoid(i) * np.tanh(j)
    return _sigmoid(o) * np.tanh(cell), cell


def _stack(dtype="float32", num_layers=2, **kwargs):
    return lstm.LSTMStack(num_layers, D, dtype=dtype, **kwargs)


def _call(layer, x, h, c, padding_mask, training=False):
    states = (LSTMState(h, c), LSTMState(c, h))
    return layer(x, padding_mask=padding_mask, initial_states=states, training=training)


ARGUMENTS = {
    "x": layer_checks.normal(B, S, C),
    "h": layer_checks.normal(B, D, seed=1),
    "c": layer_checks.normal(B, D, seed=2),
    "padding_mask": REAL,
}


def test_stack_matches_reference():
    layer = _stack()
    layer.build((None, None, C))
    layer_checks.shake(layer)
    x, h, c, real = ARGUMENTS.values()
    got = _call(layer, **ARGUMENTS)
    for row in range(B):
        states = [(h[row], c[row]), (c[row], h[row])]
        for position in range(S):
            if not real[row, position]:
                np.testing.assert_array_equal(got.output[row, position], 0)
                continue
            entering = x[row, position]
            for number, cell in enumerate(layer.cells):
                states[number] = reference_step(cell.get_weights(), entering, states[number])
                entering = states[number][0]
            np.testing.assert_allclose(got.output[row, position], entering, atol=1e-5)
        for state, (output, cell) in zip(got.states, states, strict=True):
            np.testing.assert_allclose(state.output[row], output, atol=1e-5)
            np.testing.assert_allclose(state.cell[row], cell, atol=1e-5)


def test_bidirectional_lstm_matches_two_stacks():
    layer = lstm.BidirectionalLSTM(2, D)
    layer.build((None, None, C))
    layer_checks.shake(layer)
    x, real = ARGUMENTS["x"], REAL
    got = layer(x, padding_mask=real)
    assert got.output.shape == layer.compute_output_shape(x.shape).output
    for row, length in enumerate(real.sum(1)):
        for side, entering in enumerate((x[row, :length], x[row, :length][::-1])):
            for number, cell in enumerate(layer.stacks[side].cells):
                state, outputs = (np.zeros(D), np.zeros(D)), []
                for at in range(length):
                    state = reference_step(cell.get_weights(), entering[at], state)
                    outputs.append(state[0])
                entering = np.array(outputs)
                part = slice(side * D, (side + 1) * D)
                for value, expected in zip(got.states[number], state, strict=True):
                    np.testing.assert_allclose(value[row, part], expected, atol=1e-5)
            want = entering[::-1] if side else entering
            np.testing.assert_allclose(got.output[row, :length, part], want, atol=1e-5)
            np.testing.assert_array_equal(got.output[row, length:], 0)


def test_stack_behaviors():
    layer = _stack()
    layer.build((None, None, C))
    assert [v.shape for v in layer.trainable_variables] == [(C + D, 16), (16,), (2 * D, 16), (16,)]
    again = lstm.LSTMStack.from_config(layer.get_config())
    again.build((None, None, C))
    again.set_weights(layer.get_weights())
    want = _call(layer, **ARGUMENTS)
    graph = tf.function(lambda arguments: _call(layer, **arguments), autograph=False)
    for got in (_call(again, **ARGUMENTS), graph(ARGUMENTS)):
        for value, expected in zip(tf.nest.flatten(got), tf.nest.flatten(want), strict=True):
            np.testing.assert_allclose(value, expected, atol=1e-6)
    shapes = layer.compute_output_shape((B, S, C))
    assert shapes.output == want.output.shape
    assert shapes.states[1].cell == want.states[1].cell.shape


def test_mixed_bfloat16_matches_float32():
    layer, mixed = _stack(), _stack("mixed_bfloat16")
    for each in (layer, mixed):
        each.build((None, None, C))
    mixed.set_weights(layer.get_weights())
    got = _call(mixed, **ARGUMENTS)
    assert got.output.dtype == tf.bfloat16
    want = _call(layer, **ARGUMENTS)
    np.testing.assert_allclose(tf.cast(got.output, tf.float32), want.output, atol=0.03)


@pytest.mark.parametrize("name", ["x", "h", "c"])
def test_gradient_matches_finite_differences(name):
    """The reference is a central difference."""
    layer = _stack()
    layer.build((None, None, C))
    layer_checks.shake(layer)
    weights = layer_checks.normal(B, S, D, seed=5)

    def loss(value):
        output = _call(layer, **{**ARGUMENTS, name: value})
        return tf.reduce_sum(output.output * weights) + tf.reduce_sum(output.states[0].cell)

    value, direction = ARGUMENTS[name], layer_checks.normal(*ARGUMENTS[name].shape, seed=6)
    tensor = tf.constant(value)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        result = loss(tensor)
    got = np.sum(tape.gradient(result, tensor) * direction)
    expected = (loss(value + 1e-2 * direction) - loss(value - 1e-2 * direction)) / 2e-2
    np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-3)


def test_dropout_is_applied_to_layer_inputs():
    x = np.ones([1, 1, 600], "float32")
    layer = lstm.LSTMStack(1, D, dropout_rate=0.5)
    layer.build((None, None, x.shape[-1]))
    kernel, bias = layer.get_weights()
    layer.set_weights([np.full_like(kernel, 1e-3), bias])
    # After dropout, the input has 600 entries of 0 or 2. Their expected value is 1.
    gate = 600 * 1e-3
    want = _sigmoid(gate) * np.tanh(_sigmoid(gate) * np.tanh(gate))
    got = np.array([layer(x, training=True).output[0, 0, 0] for _ in range(40)])
    assert got.std() > 1e-4
    np.testing.assert_allclose(got.mean(), want, rtol=0.02)
    np.testing.assert_allclose(layer(x, training=False).output[0, 0, 0], want, rtol=1e-5)
