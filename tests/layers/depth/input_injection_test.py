import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from tests.models import examples
from ut_keras import hparam_schema
from ut_keras.layers.depth import act, input_injection, recurrence
from ut_keras.layers.halting import halting
from ut_keras.layers.position import timing_signal

B, S, D, N = 3, 5, 8, 3
REAL = np.arange(S) < np.array([[5], [4], [1]])
X, H = layer_checks.normal(B, S, D), layer_checks.normal(B, S, D, seed=1)


def _recurrence(adaptive=False, dtype="float32", steps=N, block=None):
    timing = timing_signal.StepTimingSignal(steps, step="sinusoid", dtype=dtype)
    block = block or layer_checks.make_block(D, dtype)
    injection = input_injection.InputInjection(dtype=dtype)
    if adaptive:
        rule = halting.ACTHalting(steps, bias_init=-1.0)
        return act.AdaptiveComputationTime(block, timing, rule, injection=injection, dtype=dtype)
    return recurrence.BasicRecurrence(block, timing, steps, injection, dtype=dtype)


@pytest.mark.parametrize("adaptive", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_layer_behaviors(adaptive):
    layer_checks.check_layer(
        lambda dtype: _recurrence(adaptive, dtype),
        {"x": X, "padding_mask": REAL},
        num_weights=12 + 2 * adaptive,
        call=layer_checks.call_with_mask,
        mixed_dtypes=("bfloat16", *["float32"] * 3 * adaptive),
        mixed_tolerance=None if adaptive else 0.05,
    )


@pytest.mark.parametrize("adaptive", [False, True])
def test_every_step_adds_the_input(adaptive):
    """The reference adds the input of the recurrence before each step."""
    layer = _recurrence(adaptive)
    layer.build((None, None, D))
    layer_checks.shake(layer, scale=0.1)
    if adaptive:  # Here, no position halts, and the output is the state after the last step.
        layer.halting.set_weights([np.zeros([D, 1]), np.array([-30.0])])
        layer.halting.mix = lambda state, output, weights: state
    signals, state = layer.timing.prepare(tf.range(S)), X
    for step in range(N):
        x = (state + X) / np.sqrt(2)
        x = layer.timing(tf.constant(x), tf.constant(step), signals)
        state = layer.block.forward(x).output
    np.testing.assert_allclose(layer.forward(X).output, state, atol=1e-4)


def test_states_stay_bounded():
    """The state converges, although the block adds 1 in each of 300 steps."""
    block = layer_checks.StubBlock(lambda x, training: x + 1.0)
    layer = _recurrence(steps=300, block=block)
    layer.timing = timing_signal.StepTimingSignal(300, position=False, step=None)
    got = layer.forward(tf.ones([1, 1, D])).output
    g = np.sqrt(0.5)  # The state converges to the solution h of h = g (h + 1) + 1.
    np.testing.assert_allclose(got, np.full([1, 1, D], (g + 1) / (1 - g)), rtol=1e-4)


def test_input_injection_rejects_other_recurrences():
    with pytest.raises(
        hparam_schema.HParamError, match="'basic' or 'act'. Received: 'add' with 'skip'"
    ):
        examples.make("universal", "recurrence_input_injection=add,recurrence_type=skip")
