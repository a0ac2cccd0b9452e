import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import (
    gated_unit_recurrence,
    stack,
    transformer_layer,
)
from ut_keras.layers.lstm import lstm
from ut_keras.layers.position import timing_signal

B, S, D, N = 3, 5, 8, 3
REAL = np.arange(S) < np.array([[5], [4], [1]])


def _block(dtype, with_transition):
    if with_transition:
        return layer_checks.make_block(D, dtype)
    layer = transformer_layer.TransformerLayer(
        attention.MultiHeadAttention(2, D, dtype=dtype), None, dtype=dtype
    )
    return stack.TransformerBlock([layer], dtype=dtype)


def _recurrence(kind, dtype="float32", with_transition=False, **arguments):
    layer_class, unit_class = {
        "gru": (gated_unit_recurrence.GRURecurrence, gated_unit_recurrence.GRUUnit),
        "lstm": (gated_unit_recurrence.LSTMRecurrence, gated_unit_recurrence.LSTMUnit),
    }[kind]
    return layer_class(
        _block(dtype, with_transition),
        timing_signal.StepTimingSignal(N, step=None, dtype=dtype),
        N,
        unit=unit_class(zero_at_padding=True, dtype=dtype),
        dtype=dtype,
        **arguments,
    )


@pytest.mark.parametrize(
    ("kind", "arguments", "num_weights"),
    [
        ("gru", {"with_transition": True}, 12 + 6 + 4),
        pytest.param("lstm", {}, 6 + 8 + 4, marks=pytest.mark.slow),
    ],
)
def test_layer_behaviors(kind, arguments, num_weights):
    layer_checks.check_layer(
        lambda dtype: _recurrence(kind, dtype, **arguments),
        {"x": layer_checks.normal(B, S, D), "padding_mask": REAL},
        num_weights,
        call=layer_checks.call_with_mask,
    )


@pytest.mark.parametrize("kind", ["gru", "lstm", "lstm_cell"])
@pytest.mark.parametrize("with_transition", [False, True])
def test_matches_reference(kind, with_transition):
    arguments = {"cell_as_output": True} if kind == "lstm_cell" else {}
    layer = _recurrence(kind[:4], with_transition=with_transition, **arguments)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    x = h = layer_checks.normal(B, S, D)
    cell = np.zeros_like(x)
    mask = attention.padding_attention_mask(REAL)
    for step in range(N):
        signalled = layer.timing(h, tf.constant(step), layer.timing.prepare(tf.range(S)))
        u = layer.before_unit(layer.block.forward(signalled, StepInputs(mask, REAL)).output)
        if kind == "gru":
            h = layer.after_unit(layer.unit(u, h, padding_mask=REAL))
        else:
            state = lstm.LSTMState(h, cell)
            h, cell = layer.unit(u, state, padding_mask=REAL)
            h = layer.after_unit(h)
    expected = cell if kind == "lstm_cell" else h
    got = layer.forward(x, StepInputs(attention_mask=mask, padding_mask=REAL))
    np.testing.assert_allclose(got.output, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_padding_has_no_effect(kind):
    layer = _recurrence(kind)
    x = layer_checks.normal(B, S, D)
    layer.build(x.shape)
    changed = np.where(REAL[..., None], x, 100.0).astype("float32")
    first, second = (
        layer_checks.call_with_mask(layer, y, REAL).output.numpy() for y in (x, changed)
    )
    np.testing.assert_allclose(first[REAL], second[REAL], atol=1e-5)
