"""The loop over the steps skips examples in which all positions have halted."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests.layers import layer_checks
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import act, input_injection
from ut_keras.layers.halting import halting, q_halt
from ut_keras.layers.position import timing_signal

B, S, D, N = 5, 6, 8, 5
REAL = np.arange(S) < np.array([[6], [5], [3], [1], [6]])
X = layer_checks.normal(B, S, D)
# The default run tests each kind of halting and each mode of halted examples once.
_QUICK = (("global", "transform", False), ("q_halt", "copy", False))


def _rule(kind):
    if kind == "global":
        return halting.ACTHalting(N, act_type="global", mask_padding=True)
    return q_halt.QHalting(N, pooling="last")


def _layer(kind, halted_state="transform", injected=False):
    seeds.set_seed(1)  # With this seed, examples halt at different steps.
    layer = act.AdaptiveComputationTime(
        layer_checks.make_block(D, "float32"),
        timing_signal.StepTimingSignal(N, step="sinusoid"),
        _rule(kind),
        halted_state,
        injection=input_injection.InputInjection() if injected else None,
    )
    layer.build((None, None, D))
    layer_checks.shake(layer)
    layer.halting.set_weights([layer_checks.normal(D, 1, seed=6), np.array([0.5])])
    return layer


def _all(result):
    return result.output, result.ponder_times, result.remainders, result.ponder_cost


@pytest.mark.parametrize(
    ("kind", "halted_state", "injected"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * (case not in _QUICK))
        for case in itertools.product(("global", "q_halt"), act.HALTED_STATES, (False, True))
    ],
)
def test_skipping_examples_matches_full_loop(monkeypatch, kind, halted_state, injected):
    layer = _layer(kind, halted_state=halted_state, injected=injected)

    def result_and_gradient(x, padding_mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = layer_checks.call_with_mask(layer, x, padding_mask)
            loss = tf.reduce_sum(result.output**2)
        return (*_all(result), tape.gradient(loss, x))

    signature = [tf.TensorSpec([None, None, D]), tf.TensorSpec([None, None], tf.bool)]
    graph = tf.function(result_and_gradient, input_signature=signature, autograph=False)
    found = [result_and_gradient(tf.constant(X), tf.constant(REAL)), graph(X, REAL)]
    monkeypatch.setattr(layer, "_can_skip_halted_examples", lambda *args: False)
    expected = result_and_gradient(tf.constant(X), tf.constant(REAL))
    assert len(np.unique(expected[1])) > 1
    for got in found:
        for ours, theirs in zip(got, expected, strict=True):
            largest = max(1, np.abs(theirs).max())  # compare large gradients relative to their size
            np.testing.assert_allclose(ours / largest, theirs / largest, atol=1e-5)


@pytest.mark.parametrize("kind", ["global", "q_halt"])
def test_step_computes_only_running_examples(monkeypatch, kind):
    layer, rows = _layer(kind), []
    forward = layer.block.forward
    monkeypatch.setattr(
        layer.block,
        "forward",
        lambda x, *args, **kw: rows.append(len(x)) or forward(x, *args, **kw),
    )
    times = layer_checks.call_with_mask(layer, X, REAL).ponder_times.numpy()
    assert rows == [np.sum(times > n) for n in range(int(times.max()))]
    assert rows[0] == B > rows[-1]


def test_skipping_examples_accepts_causal_and_missing_masks():
    layer = _layer("global")
    for mask in (None, np.tril(np.ones([1, 1, S, S], bool))):
        together = layer.forward(X, StepInputs(attention_mask=mask))
        for row in range(B):
            alone = layer.forward(X[row : row + 1], StepInputs(attention_mask=mask))
            np.testing.assert_allclose(alone.output[0], together.output[row], atol=1e-5)
