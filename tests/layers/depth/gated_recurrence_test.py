import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention
from ut_keras.layers.basic import dense
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import gate, gated_recurrence
from ut_keras.layers.position import timing_signal

B, S, D, N = 3, 5, 8, 3
REAL = np.arange(S) < np.array([[5], [4], [1]])
CLASSES = {
    "highway": gated_recurrence.HighwayRecurrence,
    "skip": gated_recurrence.SkipRecurrence,
}


def _gate(dtype, zero_at_padding=False):
    return gate.Gate(dense.Dense(D, dtype=dtype), zero_at_padding=zero_at_padding, dtype=dtype)


def _recurrence(kind="highway", dtype="float32", coupled=True, gates_inputs="i", **arguments):
    return CLASSES[kind](
        layer_checks.make_block(D, dtype),
        timing_signal.StepTimingSignal(N, dtype=dtype),
        N,
        transform_gate=_gate(dtype, zero_at_padding=coupled),
        carry_gate=None if coupled else _gate(dtype),
        gates_inputs=gates_inputs,
        dtype=dtype,
        **arguments,
    )


@pytest.mark.parametrize(
    ("kind", "arguments", "num_weights"),
    [
        pytest.param("highway", {}, 2 + 2, marks=pytest.mark.slow),
        ("skip", {"coupled": False, "gates_inputs": "its"}, 2 * 2 + 6 * 2),
    ],
)
def test_layer_behaviors(kind, arguments, num_weights):
    layer_checks.check_layer(
        lambda dtype: _recurrence(kind, dtype, **arguments),
        {"x": layer_checks.normal(B, S, D), "padding_mask": REAL},
        12 + 1 + num_weights,
        call=layer_checks.call_with_mask,
    )


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("gates_inputs", ["i", "ts", "its"])
def test_matches_reference(kind, coupled, gates_inputs):
    """The inputs s, t and i of a gate are concatenated in this order."""
    layer = _recurrence(kind, coupled=coupled, gates_inputs=gates_inputs)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    inputs = state = layer_checks.normal(B, S, D)
    mask = attention.padding_attention_mask(REAL)
    norms = list(layer.preprocesses)
    count = len(gates_inputs)
    assert len(norms) == count * (1 if coupled else 2)
    for step in range(N):
        x = layer.timing(state, tf.constant(step), layer.timing.prepare(tf.range(S)))
        transformed = layer.block.forward(x, StepInputs(mask, REAL)).output
        values = {"s": state, "t": transformed, "i": inputs}
        g = [values[letter] for letter in "sti" if letter in gates_inputs]
        g = [norm(value) for norm, value in zip(norms[:count], g, strict=True)]
        transform = layer.transform_gate(g, padding_mask=REAL)
        carry = 1 - transform
        if not coupled:
            g = [norm(value) for norm, value in zip(norms[count:], g, strict=True)]
            carry = layer.carry_gate(g, padding_mask=REAL)
        kept = state if kind == "highway" else inputs
        state = kept * carry + transformed * transform
    got = layer.forward(inputs, StepInputs(attention_mask=mask, padding_mask=REAL))
    np.testing.assert_allclose(got.output, state, rtol=1e-5, atol=1e-5)
    if coupled and kind == "highway":  # The carry gate keeps padding unchanged.
        np.testing.assert_array_equal(got.output.numpy()[~REAL], inputs[~REAL])


def test_padding_has_no_effect():
    layer = _recurrence(gates_inputs="sti")
    x = layer_checks.normal(B, S, D)
    layer.build(x.shape)
    changed = np.where(REAL[..., None], x, 100.0).astype("float32")
    first, second = (
        layer_checks.call_with_mask(layer, y, REAL).output.numpy() for y in (x, changed)
    )
    np.testing.assert_allclose(first[REAL], second[REAL], atol=1e-5)


@pytest.mark.parametrize("gates_inputs", ["", "x", "si,t"])
def test_gated_recurrence_rejects_unknown_gates_inputs(gates_inputs):
    with pytest.raises(ValueError, match="gates_inputs must be letters out of 'sti'. Received"):
        _recurrence(gates_inputs=gates_inputs)
