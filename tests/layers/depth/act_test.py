import numpy as np
import pytest
import tensorflow as tf

from tests.layers import act_reference, layer_checks
from ut_keras.layers.attention import attention
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import act
from ut_keras.layers.halting import halting
from ut_keras.layers.position import timing_signal

B, S, D, N = 4, 6, 8, 5
REAL = np.arange(S) < np.array([[6], [5], [3], [1]])
LEARNED = [kind for kind in halting.ACT_TYPES if kind != "random"]


def _adaptive(block, max_steps=N, signals=True, dtype="float32", halted_state="transform", **rule):
    timing = timing_signal.StepTimingSignal(
        max_steps, position=signals, step="sinusoid" if signals else None, dtype=dtype
    )
    rule = halting.ACTHalting(max_steps, **rule)
    return act.AdaptiveComputationTime(block, timing, rule, halted_state, dtype=dtype)


def _transformer(dtype="float32", **arguments):
    """Return a layer with a `TransformerBlock`. Its positions halt at different steps."""
    block = layer_checks.make_block(D, dtype)
    return _adaptive(block, dtype=dtype, bias_init=-0.8, **arguments)


def _with_given_p(p, **arguments):
    """Return (layer, state) whose halting probabilities are p at every step.

    The layer has no signals, and its block is the identity. The state has two channels: the first
    one determines p, and the second one is 1.
    """
    layer = _adaptive(layer_checks.StubBlock(lambda x, training: x), signals=False, **arguments)
    _set_halting(layer, [1.0, 0.0], 0.0)
    p = np.asarray(p, "float32")
    return layer, np.stack([np.log(p / (1 - p)), np.ones_like(p)], axis=-1)


def _set_halting(layer, kernel, bias):
    if not layer.built:
        layer.build((None, None, len(kernel)))
    layer.halting.set_weights([np.reshape(kernel, (-1, 1)), np.array([bias])])


@pytest.mark.parametrize(
    ("act_type", "paper"),
    [
        ("basic", False),
        pytest.param("accumulated", True, marks=pytest.mark.slow),
        pytest.param("global", False, marks=pytest.mark.slow),
    ],
)
def test_layer_behaviors(act_type, paper):
    def make(dtype):
        block = layer_checks.make_block(D, dtype)
        return act.AdaptiveComputationTime(
            block,
            timing_signal.StepTimingSignal(N, dtype=dtype),
            halting.ACTHalting(
                N,
                epsilon=0.05,
                act_type=act_type,
                bias_init=-0.8,
                force_final_remainder=paper,
                mask_padding=paper,
            ),
            halted_state="copy" if paper else "transform",
            dtype=dtype,
        )

    layer_checks.check_layer(
        make,
        {"x": layer_checks.normal(B, S, D), "padding_mask": REAL},
        num_weights=12 + 1 + 2,
        call=layer_checks.call_with_mask,
        mixed_dtypes=("bfloat16", "float32", "float32", "float32"),
        mixed_tolerance=None,  # A position may halt at another step than in float32.
    )


# Each row is (p of each step, number of steps, remainder, output of "basic", output of
# "accumulated"). The state is 1, and max_steps is 5.
_BY_HAND = [
    (0.995, 1, 1.0, 1.0, 1.0),  # p is above 1 - epsilon, so the first step is the last one.
    (0.3, 4, 0.1, 1 - 0.7**3 * 0.9, 1.0),
    (0.6, 2, 0.4, 1 - 0.4 * 0.6, 1.0),
    (0.1, 5, 0.0, 1 - 0.9**5, 0.5),  # At max_steps, there is no remainder. The weights sum to 0.5.
]


@pytest.mark.parametrize("act_type", ["basic", "accumulated"])
def test_halting_matches_values_computed_by_hand(act_type):
    p, steps, remainders, basic, accumulated = np.transpose(_BY_HAND)
    layer, state = _with_given_p([p], act_type=act_type)
    got = layer.forward(state)
    np.testing.assert_array_equal(got.ponder_times, [steps])
    np.testing.assert_allclose(got.remainders, [remainders], atol=1e-6)
    expected = basic if act_type == "basic" else accumulated
    np.testing.assert_allclose(got.output[..., 1], [expected], atol=1e-6)


def test_force_final_remainder_adds_missing_remainder():
    p, steps, remainders, _, _ = np.transpose(_BY_HAND)
    layer, state = _with_given_p([p], act_type="accumulated", force_final_remainder=True)
    got = layer.forward(state)
    np.testing.assert_array_equal(got.ponder_times, [steps])
    np.testing.assert_allclose(got.remainders, [[*remainders[:3], 1 - 4 * 0.1]], atol=1e-6)
    np.testing.assert_allclose(got.output[..., 1], np.ones((1, 4)), atol=1e-6)


def test_global_halting_uses_mean_of_example():
    # The means of p over all positions are 0.3 and 0.6.
    layer, state = _with_given_p([[0.1, 0.5], [0.9, 0.3]], act_type="global")
    got = layer.forward(state)
    np.testing.assert_array_equal(got.ponder_times, [4, 2])
    np.testing.assert_allclose(got.remainders, [0.1, 0.4], atol=1e-6)
    expected = [[1 - 0.7**3 * 0.9] * 2, [1 - 0.4 * 0.6] * 2]
    np.testing.assert_allclose(got.output[..., 1], expected, atol=1e-6)


@pytest.mark.parametrize("act_type", LEARNED)
@pytest.mark.parametrize("halted_state", act.HALTED_STATES)
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_matches_reference(act_type, halted_state, force, masked):
    """The block mixes all positions, so the states of halted positions affect the result."""
    mixing = layer_checks.normal(D, D, seed=2)

    def block(x):
        x = tf.cast(x, tf.float32)
        return tf.tanh(x @ mixing + tf.reduce_mean(x, axis=1, keepdims=True))

    layer = _adaptive(
        layer_checks.StubBlock(lambda x, training: block(x)),
        act_type=act_type,
        halted_state=halted_state,
        force_final_remainder=force,
        mask_padding=masked,
    )
    _set_halting(layer, layer_checks.normal(D, seed=3), -1.0)
    state = layer_checks.normal(B, S, D)
    signals = layer.timing.prepare(tf.range(S))
    signals = [layer.timing(tf.zeros([1, S, D]), tf.constant(n), signals)[0] for n in range(N)]
    output, steps, remainders = act_reference.ponder(
        state,
        signals,
        block,
        layer.halting.get_weights(),
        N,
        act_type=act_type,
        halted_state=halted_state,
        force_final_remainder=force,
        padding_mask=REAL if masked else None,
    )
    assert len(np.unique(steps)) > 2 or act_type == "global"
    got = layer.forward(state, StepInputs(padding_mask=REAL))
    np.testing.assert_array_equal(got.ponder_times, steps)
    np.testing.assert_allclose(got.remainders, remainders, atol=1e-5)
    np.testing.assert_allclose(got.output, output, atol=1e-5)


@pytest.mark.parametrize("halted_state", act.HALTED_STATES)
def test_halted_state_is_copied_or_transformed(halted_state):
    """The block still changes a halted state if `halted_state` is "transform".

    With "copy", the halted state stays the same. In both cases, the output of a halted position
    stays the same.
    """
    seen = []

    def step(x, training):
        seen.append(x.numpy())
        return x + 1.0

    layer = _adaptive(layer_checks.StubBlock(step), signals=False, halted_state=halted_state)
    _set_halting(layer, [1.0], 0.0)
    state = np.float32([[[6.0], [-8.0]]])  # Only the first position halts, in step 1.
    got = layer.forward(state)
    np.testing.assert_array_equal(got.ponder_times, [[1, N]])
    assert got.output[0, 0, 0] == 7.0
    first = [x[0, 0, 0] for x in seen]
    assert first == ([6.0] + [7.0] * (N - 1) if halted_state == "copy" else [6, 7, 8, 9, 10])
    assert [x[0, 1, 0] for x in seen] == [-8, -7, -6, -5, -4]


def test_copied_states_get_no_signals():
    seen = []

    def step(x, training):
        seen.append(x.numpy())
        return x

    layer = _adaptive(layer_checks.StubBlock(step), halted_state="copy")
    _set_halting(layer, np.eye(D)[0], 0.0)
    state = layer_checks.normal(1, 2, D)
    state[:, :, 0] = [20.0, -20.0]
    layer.forward(state)
    assert len(seen) == N
    for x in seen[1:]:
        np.testing.assert_array_equal(x[0, 0], seen[0][0, 0])
        assert np.any(x[0, 1] != seen[0][0, 1])


def test_mask_padding_excludes_padding_from_pondering():
    p = np.where(REAL, 0.995, 0.01)
    layer, state = _with_given_p(p, mask_padding=True)
    got = layer.forward(state, StepInputs(padding_mask=REAL))
    np.testing.assert_array_equal(got.ponder_times, REAL)
    np.testing.assert_array_equal(got.remainders, REAL)
    assert not np.any(got.output.numpy()[~REAL])
    assert layer.block.calls.numpy() == 1
    # By default, as in T2T, padding takes steps and keeps the loop running.
    layer, state = _with_given_p(p)
    got = layer.forward(state, StepInputs(padding_mask=REAL))
    np.testing.assert_array_equal(got.ponder_times, np.where(REAL, 1, N))
    assert layer.block.calls.numpy() == N


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("act_type", LEARNED)
def test_loop_ends_when_all_positions_have_halted(graph, act_type):
    layer, state = _with_given_p([[0.6, 0.995], [0.6, 0.6]], max_steps=20, act_type=act_type)
    call = tf.function(layer.forward, autograph=False) if graph else layer.forward
    got = call(state)
    assert layer.block.calls.numpy() == 2
    assert np.max(got.ponder_times) == 2


def test_loop_ends_at_max_steps():
    layer, state = _with_given_p(np.full((2, 3), 0.01))
    layer.forward(state)
    assert layer.block.calls.numpy() == N


@pytest.mark.parametrize("act_type", LEARNED)
@pytest.mark.parametrize("halted_state", act.HALTED_STATES)
def test_is_batch_invariant(act_type, halted_state):
    layer = _transformer(act_type=act_type, halted_state=halted_state)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    _set_halting(layer, np.eye(D)[0], -0.5)
    x = layer_checks.normal(B, S, D)
    x[..., 0] += np.array([[6], [3], [0], [-6]])  # Some examples halt before others.
    together = layer_checks.call_with_mask(layer, x, REAL)
    assert len(np.unique(np.max(np.reshape(together.ponder_times, (B, -1)), axis=1))) > 1
    for row in range(B):
        alone = layer_checks.call_with_mask(layer, x[row : row + 1], REAL[row : row + 1])
        np.testing.assert_array_equal(alone.ponder_times[0], together.ponder_times[row])
        np.testing.assert_allclose(alone.remainders[0], together.remainders[row], atol=1e-5)
        np.testing.assert_allclose(alone.output[0], together.output[row], atol=1e-5)


@pytest.mark.parametrize("act_type", LEARNED)
@pytest.mark.parametrize("halted_state", act.HALTED_STATES)
def test_is_causal(act_type, halted_state):
    layer = _transformer(act_type=act_type, halted_state=halted_state)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    x = layer_checks.normal(B, S, D)
    changed = x.copy()
    changed[:, 3:] += 2 * layer_checks.normal(B, S - 3, D, seed=1)
    mask = attention.causal_attention_mask(S)
    first, second = (
        layer.forward(value, StepInputs(attention_mask=mask)) for value in (x, changed)
    )
    same = np.allclose(first.output[:, :3], second.output[:, :3], atol=1e-5)
    assert same == (act_type != "global")
    assert np.abs(first.output[:, 3:] - second.output[:, 3:]).max() > 0.1
    if act_type != "global":
        np.testing.assert_array_equal(first.ponder_times[:, :3], second.ponder_times[:, :3])
        assert np.any(first.ponder_times != second.ponder_times)


@pytest.mark.parametrize("graph", [False, True])
def test_random_halting_has_expected_mean(graph):
    """Every p is uniform in [0, 1]. The mean number of steps until the sum exceeds t is e^t."""
    block = layer_checks.StubBlock(lambda x, training: x)
    layer = _adaptive(block, max_steps=20, signals=False, act_type="random")
    call = tf.function(layer.forward, autograph=False) if graph else layer.forward
    first, second = (call(tf.ones([50, 60, 2])) for _ in range(2))
    steps = np.asarray(first.ponder_times)
    assert abs(steps.mean() - np.exp(0.99)) < 5 * 0.88 / np.sqrt(steps.size)
    assert steps.min() == 1 and steps.max() > 5
    assert np.any(steps != second.ponder_times)
    assert np.all((first.remainders > 0) & (first.remainders <= 1))
    assert not layer.trainable_variables


def test_halting_sums_stay_float32():
    block = layer_checks.StubBlock(lambda x, training: x, dtype="mixed_bfloat16")
    layer = _adaptive(block, signals=False, dtype="mixed_bfloat16")
    _set_halting(layer, [1.0], 0.0)
    got = layer.forward(tf.constant([[[-1.0], [-0.5]]], tf.bfloat16))
    assert got.output.dtype == "bfloat16"
    assert got.ponder_times.dtype == got.remainders.dtype == "float32"
    p = 1 / (1 + np.exp([1.0, 0.5]))
    np.testing.assert_array_equal(got.ponder_times, [[4, 3]])
    np.testing.assert_allclose(got.remainders, [1 - p * [3, 2]], atol=1e-6)


@pytest.mark.parametrize(
    ("act_type", "halted_state"),
    [
        ("accumulated", "copy"),
        pytest.param("basic", "transform", marks=pytest.mark.slow),
        pytest.param("global", "transform", marks=pytest.mark.slow),
    ],
)
def test_gradient_matches_finite_differences(act_type, halted_state):
    layer = _transformer(act_type=act_type, halted_state=halted_state, epsilon=0.1)
    layer.build((None, None, D))
    layer_checks.shake(layer, scale=0.1)
    x, direction = (tf.constant(layer_checks.normal(2, 4, D, seed=seed)) for seed in (0, 1))

    @tf.function(autograph=False)
    def evaluate():
        got = layer.forward(x)
        value = tf.reduce_sum(got.output * direction) + tf.reduce_sum(got.remainders)
        # The function is differentiable only while two things stay the same: the number of steps
        # of each position, and the positions that have a remainder.
        return value, tf.stack([got.ponder_times, tf.sign(got.remainders)])

    @tf.function(autograph=False)
    def gradients():
        with tf.GradientTape() as tape:
            value, _ = evaluate()
        return tape.gradient(value, layer.trainable_variables)

    _, decisions = evaluate()
    for variable, gradient in zip(layer.trainable_variables, gradients(), strict=True):
        before, slope = variable.numpy(), float(tf.norm(gradient))
        if slope < 1e-3:
            continue
        values = []
        for sign in (1, -1):  # steps along the gradient and against it
            variable.assign(before + sign * 3e-3 * gradient / slope)
            value, decided = evaluate()
            np.testing.assert_array_equal(decided, decisions)
            values.append(float(value))
        variable.assign(before)
        np.testing.assert_allclose(
            (values[0] - values[1]) / 6e-3, slope, rtol=0.05, atol=5e-3, err_msg=variable.path
        )


def test_record_attention_returns_weights_of_each_step():
    layer = _transformer()
    layer.build((None, None, D))
    got = layer.forward(layer_checks.normal(B, S, D), StepInputs(record_attention=True))
    assert got.attention_weights.shape == (int(np.max(got.ponder_times)), B, 2, S, S)
    assert got.memory_attention_weights is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_steps": 0}, "max_steps must be at least 1. Received: 0"),
        ({"max_steps": 2, "epsilon": 0.0}, "epsilon must be between 0 and 1. Received: 0.0"),
        ({"max_steps": 2, "act_type": "none"}, "act_type must be one of .*Received: 'none'"),
        ({"max_steps": 2, "halted_state": "stay"}, "halted_state must be one of .*'stay'"),
    ],
)
def test_act_rejects_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        _adaptive(layer_checks.StubBlock(None), **arguments)


def test_config_of_version_0_1_0_is_accepted():
    """In version 0.1.0, the arguments of the halting rule were arguments of the recurrence."""
    rule = {
        "max_steps": N,
        "epsilon": 0.2,
        "act_type": "accumulated",
        "force_final_remainder": True,
        "mask_padding": True,
        "kernel_initializer": {"class_name": "HeUniform", "config": {"seed": None}},
    }
    layer = _transformer(halted_state="copy")
    config = layer.get_config()
    del config["halting"]
    again = layer.from_config({**config, **rule, "halting_bias_init": -2.0})
    assert again.halted_state == "copy"
    got = again.halting.get_config()
    kernel_initializer = got.pop("kernel_initializer")
    assert kernel_initializer["class_name"] == rule.pop("kernel_initializer")["class_name"]
    assert got == {**rule, "bias_init": -2.0}
