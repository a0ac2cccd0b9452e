"""Tests of halting rules that T2T does not have.

These rules are stick-breaking, PonderNet, convergence and q_halt.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from tests.layers.halting import reference as halting_reference
from ut_keras.layers.attention import attention
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import act, stack
from ut_keras.layers.halting import convergence, ponder_net, q_halt, stick_breaking
from ut_keras.layers.position import timing_signal

B, S, D, N = 4, 6, 8, 5
REAL = np.arange(S) < np.array([[6], [5], [3], [1]])
EPSILON = {
    "stick_breaking": 0.5,
    "ponder_net": 0.3,
    "ponder_net_mean": 0.3,
    "convergence": 0.95,
    "q_halt": 0.5,
}


def _rule(kind, mask_padding=False, **arguments):
    common = {"epsilon": EPSILON[kind], "mask_padding": mask_padding}
    if kind == "convergence":
        return convergence.ConvergenceHalting(N, **common)
    common["bias_init"] = -0.5
    if kind == "stick_breaking":
        return stick_breaking.StickBreakingHalting(N, **common)
    if kind == "q_halt":
        return q_halt.QHalting(N, **common, **arguments)
    output = "mean" if kind == "ponder_net_mean" else "threshold"
    return ponder_net.PonderNetHalting(N, output=output, prior=0.3, **common, **arguments)


def _adaptive(kind, block=None, dtype="float32", halted_state="transform", **arguments):
    """Return a built layer whose weights let positions halt at different steps."""
    layer = act.AdaptiveComputationTime(
        block or layer_checks.make_block(D, dtype),
        timing_signal.StepTimingSignal(N, step="sinusoid", dtype=dtype),
        _rule(kind, **arguments),
        halted_state,
        dtype=dtype,
    )
    layer.build((None, None, D))
    layer_checks.shake(layer)
    layer_checks.shake(layer.halting, seed=1, scale=0.5)
    if kind == "q_halt":
        layer.halting.kernel.assign(layer_checks.normal(D, 1, seed=3))
    return layer


@pytest.mark.parametrize(
    "kind", [k if k == "ponder_net" else pytest.param(k, marks=pytest.mark.slow) for k in EPSILON]
)
def test_layer_behaviors(kind):
    own = {"stick_breaking": 4, "convergence": 0}.get(kind, 2)
    layer_checks.check_layer(
        lambda dtype: _adaptive(kind, dtype=dtype, halted_state="copy"),
        {"x": layer_checks.normal(B, S, D), "padding_mask": REAL},
        num_weights=12 + own,
        call=layer_checks.call_with_mask,
        mixed_dtypes=("bfloat16", "float32", "float32", "float32"),
        mixed_tolerance=None,  # A position may halt at another step than in float32.
    )


@pytest.mark.parametrize("kind", EPSILON)
@pytest.mark.parametrize("halted_state", act.HALTED_STATES)
@pytest.mark.parametrize("masked", [False, True])
def test_matches_reference(kind, halted_state, masked):
    """The block mixes all positions, so the states of halted positions affect the result."""
    mixing = layer_checks.normal(D, D, seed=2)

    def block(x):
        x = tf.cast(x, tf.float32)
        return tf.tanh(x @ mixing + tf.reduce_mean(x, axis=1, keepdims=True))

    stub = layer_checks.StubBlock(lambda x, training: block(x))
    layer = _adaptive(kind, stub, halted_state=halted_state, mask_padding=masked)
    epsilon, weights = EPSILON[kind], layer.halting.get_weights()
    shares_of = None
    if kind == "q_halt":
        shares_of = halting_reference.ponder_net(weights)  # q_halt has the same sigmoid.
    elif kind != "convergence":
        make = getattr(halting_reference, kind.removesuffix("_mean"))
        shares_of = make(weights)

    def weights_so_far(afters):
        shares = np.stack([shares_of(state) for state in afters], axis=-1)
        shares = np.concatenate([shares, np.zeros([B, S, N - len(afters)])], axis=-1)
        return np.apply_along_axis(halting_reference.distribution, -1, shares, epsilon)

    def halts(befores, afters):
        if kind == "convergence":
            size = np.linalg.norm(afters[-1], axis=-1)
            return np.linalg.norm(afters[-1] - befores[-1], axis=-1) < epsilon * size
        if kind == "q_halt":
            return shares_of(afters[-1]) > 1 - epsilon
        return weights_so_far(afters)[..., : len(afters)].sum(-1) > 1 - 1e-9

    state = layer_checks.normal(B, S, D)
    signals = layer.timing.prepare(tf.range(S))
    signals = [layer.timing(tf.zeros([1, S, D]), tf.constant(n), signals)[0] for n in range(N)]
    mask = REAL if masked else None
    states, steps = halting_reference.run(state, signals, block, halts, halted_state, mask)
    counted = np.ones_like(REAL) if mask is None else mask
    assert len(np.unique(steps[counted])) > 2

    last = np.take_along_axis(states, np.int64(steps - 1)[None, ..., None].clip(0), axis=0)[0]
    output, cost = last, np.zeros([B, S])
    if kind not in ("convergence", "q_halt"):
        w = np.moveaxis(weights_so_far(list(states)), -1, 0)
        number = np.arange(1, N + 1)[:, None, None]
        if kind == "stick_breaking":
            cost = (number * w).sum(0)
        else:
            prior = 0.3 * 0.7 ** (number - 1)
            ratio = np.where(w > 0, w, 1) / (prior / prior.sum())
            cost = (w * np.log(ratio)).sum(0)
        if kind != "ponder_net":
            output = (w[..., None] * states).sum(0)
    got = layer.forward(state, StepInputs(padding_mask=REAL))
    np.testing.assert_array_equal(got.ponder_times, steps)
    np.testing.assert_allclose(got.output, output * counted[..., None], atol=1e-5)
    np.testing.assert_allclose(got.ponder_cost, cost * counted, atol=1e-5)
    assert stub.calls.numpy() == steps.max()  # The loop ends when all positions have halted.


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[pytest.mark.slow] * (k == "ponder_net_mean")) for k in EPSILON],
)
@pytest.mark.parametrize("halted_state", act.HALTED_STATES)
def test_is_batch_invariant_and_causal(kind, halted_state):
    layer = _adaptive(kind, halted_state=halted_state)
    x = layer_checks.normal(B, S, D)
    together = layer_checks.call_with_mask(layer, x, REAL)
    assert len(np.unique(together.ponder_times)) > 1
    for row in range(B):
        alone = layer_checks.call_with_mask(layer, x[row : row + 1], REAL[row : row + 1])
        np.testing.assert_array_equal(alone.ponder_times[0], together.ponder_times[row])
        np.testing.assert_allclose(alone.output[0], together.output[row], atol=1e-5)

    changed = x.copy()
    changed[:, 3:] += 2 * layer_checks.normal(B, S - 3, D, seed=1)
    mask = attention.causal_attention_mask(S)
    first, second = (
        layer.forward(value, StepInputs(attention_mask=mask)) for value in (x, changed)
    )
    np.testing.assert_allclose(first.output[:, :3], second.output[:, :3], atol=1e-5)
    np.testing.assert_array_equal(first.ponder_times[:, :3], second.ponder_times[:, :3])
    assert np.abs(first.output[:, 3:] - second.output[:, 3:]).max() > 0.1


@pytest.mark.parametrize("kind", EPSILON)
def test_skipping_halted_positions_matches_full_loop(kind, monkeypatch):
    """With halted_state="copy", inference skips the computation of halted positions."""
    rows = []
    layer = _adaptive(kind, halted_state="copy")
    forward = layer.block.forward
    monkeypatch.setattr(
        layer.block,
        "forward",
        lambda x, *args, **kw: rows.append(x.shape[1]) or forward(x, *args, **kw),
    )
    x = layer_checks.normal(B, S, D)
    skipped = layer_checks.call_with_mask(layer, x, REAL)
    assert sum(rows) == np.sum(skipped.ponder_times)
    monkeypatch.undo()
    monkeypatch.setattr(layer, "_can_skip_halted_positions", lambda *args: False)
    whole = layer_checks.call_with_mask(layer, x, REAL)
    np.testing.assert_array_equal(skipped.ponder_times, whole.ponder_times)
    for got, want in zip(skipped, whole, strict=True):
        if want is not None:
            np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("kind", ["convergence", "q_halt"])
def test_training_takes_all_steps(kind):
    layer = _adaptive(kind)
    x = layer_checks.normal(B, S, D)
    trained = layer.forward(x, StepInputs(training=True))
    assert np.all(trained.ponder_times == N)
    assert np.min(layer.forward(x).ponder_times) < N


@pytest.mark.parametrize("graph", [False, True])
def test_expected_loss_keeps_states_of_all_steps(graph):
    """The states are returned only in training. The final norm also applies to these states."""
    whole = stack.Stack(_adaptive("ponder_net", expected_loss=True, mask_padding=True))
    whole.build((None, None, D))
    layer_checks.shake(whole.postprocess)
    call = tf.function(whole.forward, autograph=False) if graph else whole.forward
    x = layer_checks.normal(B, S, D)
    assert call(x, StepInputs(None, REAL)).steps is None
    got = call(x, StepInputs(None, REAL, training=True))
    assert got.steps.states.shape == (N, B, S, D)
    weights = np.asarray(got.steps.weights)
    np.testing.assert_allclose(weights.sum(0), REAL, atol=1e-6)
    taken = np.int64(got.ponder_times)
    np.testing.assert_array_equal((weights > 0).sum(0), taken)
    last = np.take_along_axis(got.steps.states.numpy(), (taken - 1).clip(0)[None, ..., None], 0)
    np.testing.assert_allclose(got.output.numpy()[REAL], last[0][REAL], atol=1e-5)
    padded = got.output.numpy()[~REAL]  # A class is predicted from a mean that includes padding.
    np.testing.assert_allclose(got.steps.states.numpy()[:, ~REAL], [padded] * N)
    no_running = call(x, StepInputs(None, np.zeros_like(REAL), training=True))
    assert not np.any(no_running.steps.weights)


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_q_halting_uses_pooled_confidence(pooling):
    layer = _adaptive("q_halt", pooling=pooling, mask_padding=True)
    x = layer_checks.normal(B, S, D)
    steps = layer.forward(x, StepInputs(padding_mask=REAL, training=True)).steps
    layer.halting.bias.assign_sub([np.median(steps.confidence[0])])
    steps = layer.forward(x, StepInputs(padding_mask=REAL, training=True)).steps
    kernel, bias = layer.halting.get_weights()
    q = (steps.states.numpy() @ kernel + bias)[..., 0]
    q = q.mean(2) if pooling == "mean" else q[:, np.arange(B), REAL.sum(1) - 1]
    np.testing.assert_allclose(steps.confidence, q, atol=1e-5)
    np.testing.assert_allclose(steps.weights, np.full([N, B, S], 1 / N))
    right = 1 / (1 + np.exp(-q)) > 1 - EPSILON["q_halt"]
    taken = np.where(right.any(0), right.argmax(0) + 1, N)
    assert len(set(taken)) > 1
    got = layer.forward(x, StepInputs(padding_mask=REAL))
    np.testing.assert_array_equal(got.ponder_times, taken)
    np.testing.assert_allclose(got.output, steps.states.numpy()[taken - 1, np.arange(B)], atol=1e-5)


@pytest.mark.parametrize(
    "kind",
    [k if k == "q_halt" else pytest.param(k, marks=pytest.mark.slow) for k in EPSILON],
)
def test_halting_rule_works_in_a_keras_model(kind, tmp_path):
    layer = stack.Stack(_adaptive(kind, mask_padding=True))
    model = keras.Sequential([keras.Input((None, D)), keras.layers.Masking(), layer])
    series = np.where(REAL[..., None], layer_checks.normal(B, S, D), 0.0)
    states = model(series)
    if kind != "convergence":
        (loss,) = model.losses
        result = layer.depth.forward(
            series, StepInputs(attention_mask=REAL[:, None, None], padding_mask=REAL)
        )
        want = 0.01 * np.mean(result.ponder_cost.numpy()[REAL])
        np.testing.assert_allclose(loss, want, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(series), states)
    exported = tf.function(
        lambda x: model(x), input_signature=[tf.TensorSpec([None, None, D])], autograph=False
    )
    np.testing.assert_allclose(exported(tf.constant(series, tf.float32)), states, atol=1e-5)


def test_halting_rules_reject_bad_arguments():
    for make in (convergence.ConvergenceHalting, stick_breaking.StickBreakingHalting):
        with pytest.raises(ValueError, match="max_steps must be at least 1. Received: 0"):
            make(0)
    with pytest.raises(ValueError, match="epsilon must be between 0 and 1. Received: 1.0"):
        convergence.ConvergenceHalting(2, 1.0)
    with pytest.raises(ValueError, match="prior must be between 0 and 1. Received: 0"):
        ponder_net.PonderNetHalting(2, prior=0)
    with pytest.raises(ValueError, match="output must be one of .*Received: 'sample'"):
        ponder_net.PonderNetHalting(2, output="sample")


def test_ponder_net_prior_is_finite_at_late_steps():
    """At these steps, the prior itself is 0 in float64."""
    rule = ponder_net.PonderNetHalting(1024, prior=0.6)
    expected = np.log(0.6) + np.log(0.4) * np.array([0, 1, 1023])
    np.testing.assert_allclose(rule.log_prior(1024)[[0, 1, 1023]], expected, rtol=1e-6)
    share = 0.6 * 0.4 ** np.arange(3)
    np.testing.assert_allclose(rule.log_prior(3), np.log(share / share.sum()), rtol=1e-6)
