import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from tests.layers.neural_gpu import reference
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.neural_gpu import diagonal_stack, gated_stack

B, S, D = 3, 5, 6
X = layer_checks.normal(B, S, D)
MASK = np.arange(S) < np.array([[5], [3], [1]])


def _plain(**kwargs):
    return gated_stack.NeuralGPUStack(2, D, **kwargs)


def _diagonal(**kwargs):
    return diagonal_stack.DiagonalNeuralGPUStack(2, D, **kwargs)


def _built(layer):
    layer.build((None, None, D))
    return layer_checks.shake(layer)


def _forward(layer, x=X, mask=MASK, training=False):
    x = np.where(mask[..., None], x, 0) if mask is not None else x
    return layer.forward(
        tf.constant(x, tf.float32), StepInputs(padding_mask=mask, training=training)
    )


def test_stack_takes_a_step_per_token():
    layer = _built(_plain())
    got = _forward(layer).output
    for row, length in enumerate(MASK.sum(1)):
        state = np.where(MASK[row][:, None], X[row], 0)
        for _ in range(length):
            for unit in layer.cells:
                state = reference.conv_gru(state, unit.get_weights())
        np.testing.assert_allclose(got[row], state, atol=1e-4)


@pytest.mark.parametrize("final_state", ["first", "last"])
def test_diagonal_stack_returns_first_or_last_state(final_state):
    layer = _built(_diagonal(final_state=final_state, shift_axis="length"))
    result = _forward(layer)
    for row, length in enumerate(MASK.sum(1)):
        state, costs = np.where(MASK[row][:, None], X[row], 0), []
        states = []
        for step in range(S):
            new = state
            for unit in layer.cells:
                new, cost = reference.diagonal_conv_gru(new, unit.get_weights(), "length")
            # The reference uses the cost of the last unit, also in steps at padding.
            costs.append(cost)
            state = new if step < length else state
            states.append(state)
        want = states[0 if final_state == "first" else -1]
        np.testing.assert_allclose(result.output[row], want, atol=1e-4)
        np.testing.assert_allclose(result.auxiliary_loss_stats[0][row], np.mean(costs), atol=1e-5)


def test_saturation_loss_is_weighted():
    layer = _built(_diagonal())
    result = _forward(layer)
    saturation = result.auxiliary_loss_stats[0].numpy()
    (term,) = layer.cost_terms(result, MASK)["extra"]
    np.testing.assert_allclose(term.value(), 2 * saturation.mean(), rtol=1e-5)
    weights = np.float32([1, 0, 2])
    (term,) = layer.cost_terms(result, MASK, weights)["extra"]
    np.testing.assert_allclose(term.value(), 2 * np.average(saturation, weights=weights), rtol=1e-5)
    assert _built(_plain()).cost_terms(_forward(_built(_plain())), MASK) == {}


@pytest.mark.parametrize("make", [_plain, _diagonal])
def test_padding_has_no_effect_if_masked(make):
    changed = {"final_state": "last", "shift_axis": "length"} if make is _diagonal else {}
    layer = _built(make(mask_padding=True, **changed))
    result = _forward(layer)
    for row, length in enumerate(MASK.sum(1)):
        alone = _forward(layer, X[row : row + 1, :length], None)
        np.testing.assert_allclose(result.output[row, :length], alone.output[0], atol=1e-5)
        np.testing.assert_array_equal(result.output[row, length:], 0)
        for got, want in zip(result.auxiliary_loss_stats, alone.auxiliary_loss_stats, strict=True):
            np.testing.assert_allclose(got[row], want[0], atol=1e-6)
    unmasked = _forward(_built(make(**changed)))
    # Without a mask, padding changes the outputs, as in T2T.
    assert np.abs(unmasked.output[1, :3] - result.output[1, :3]).max() > 1e-3


@pytest.mark.parametrize("make", [_plain, _diagonal])
def test_layer_behaviors(make):
    changed = {"final_state": "last"} if make is _diagonal else {}
    layer_checks.check_layer(
        lambda dtype: make(dtype=dtype, **changed),
        {"state": X, "mask": MASK},
        num_weights=12,
        mixed_tolerance=0.2,
    )


def test_call_adds_saturation_loss():
    layer = _built(_diagonal())
    layer(X)
    (loss,) = layer.losses
    np.testing.assert_allclose(
        loss, 2 * np.mean(_forward(layer, mask=None).auxiliary_loss_stats[0]), rtol=1e-5
    )


def test_dropout_differs_between_steps():
    layer = _built(_plain(dropout_rate=0.5))
    first, second = (_forward(layer, training=True).output for _ in range(2))
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(_forward(layer).output, _forward(layer).output)


def test_diagonal_stack_rejects_unknown_choices():
    with pytest.raises(ValueError, match="final_state must be one of .* Received: 'second'"):
        _diagonal(final_state="second")
    with pytest.raises(ValueError, match="shift_axis must be one of .* Received: 'depth'"):
        _diagonal(shift_axis="depth")
