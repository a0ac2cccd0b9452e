import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests.layers import layer_checks
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import act, act_step, input_injection, recurrence
from ut_keras.layers.halting import halting, ponder_net
from ut_keras.layers.position import timing_signal

B, S, D, N = 2, 5, 8, 6
X = layer_checks.normal(B, S, D)
TRAINING = StepInputs(training=True)


def _recurrence(backprop_steps, adaptive=False, dropout_rate=0.0, **arguments):
    seeds.set_seed(0)
    block = layer_checks.make_block(D, dropout_rate=dropout_rate)
    timing = timing_signal.StepTimingSignal(N)
    arguments = {"backprop_steps": backprop_steps, **arguments}
    if adaptive:
        rule = halting.ACTHalting(N, bias_init=0.0)
        layer = act.AdaptiveComputationTime(block, timing, rule, **arguments)
    else:
        layer = recurrence.BasicRecurrence(block, timing, N, **arguments)
    layer.build((None, None, D))
    layer_checks.shake(layer)
    if adaptive:  # Positions now halt at different steps, all before step N.
        layer.halting.kernel.assign(0.1 * layer.halting.kernel)
    return layer


def _run(layer, function, mode="graph"):
    """Return `function(X)` and its gradients with respect to X and the weights."""

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        sources = [x, *layer.trainable_variables]
        zero = tf.UnconnectedGradients.ZERO
        return value, tape.gradient(value, sources, unconnected_gradients=zero)

    if mode != "eager":
        run = tf.function(run, autograph=False, jit_compile=mode == "xla")
    value, gradients = run(tf.constant(X))
    return np.asarray(value), [np.asarray(tf.convert_to_tensor(g)) for g in gradients]


def _loss(layer):
    def loss(x):
        result = layer.forward(x, TRAINING)
        cost = 0.0 if result.ponder_cost is None else tf.reduce_sum(result.ponder_cost)
        return tf.reduce_sum(tf.sin(result.output)) + cost

    return loss


def _check_equal(got, expected):
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-5)
    for a, b in zip(got[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=5e-5 * max(np.abs(b).max(), 1))


@pytest.mark.parametrize(
    ("mode", "recompute_grad"),
    [
        *(("eager", False), ("eager", True), ("graph", False), ("graph", True), ("xla", True)),
        pytest.param("xla", False, marks=pytest.mark.slow),
    ],
)
def test_basic_equals_stop_gradient_before_the_last_steps(mode, recompute_grad):
    layer = _recurrence(2, recompute_grad=recompute_grad)

    def unrolled(x):
        signals = layer.timing.prepare(tf.range(S))
        for step in range(N):
            if step == N - 2:
                x = tf.stop_gradient(x)
            x = layer.block.forward(layer.timing(x, tf.constant(step), signals), TRAINING).output
        return tf.reduce_sum(tf.sin(x))

    expected = _run(layer, unrolled, "eager")
    _check_equal(_run(layer, _loss(layer), mode), expected)
    assert not expected[1][0].any() and expected[1][1].any()


@pytest.mark.parametrize(
    ("mode", "recompute_grad", "backprop_steps"),
    [
        *(("graph", False, number) for number in (1, 2, N)),
        ("xla", True, 2),
        *(pytest.param("xla", True, number, marks=pytest.mark.slow) for number in (1, N)),
    ],
)
def test_adaptive_equals_stop_gradient_before_the_last_steps(mode, recompute_grad, backprop_steps):
    """Before the last steps, the reference stops the gradient of the loop state.

    The loop state consists of the state, output, halting probability and ponder cost. The batch
    takes fewer steps than the maximum. The last steps are the last steps that the batch takes.
    """
    layer = _recurrence(backprop_steps, adaptive=True, recompute_grad=recompute_grad)
    taken = int(np.max(layer.forward(X, TRAINING).ponder_times))
    assert 2 < taken < N

    def unrolled(x):
        context = layer._step_context(x, TRAINING)
        loop = act_step.start(layer, x)
        for step in range(taken):
            if step == taken - backprop_steps:
                loop = tf.nest.map_structure(tf.stop_gradient, loop)
            loop = act_step.apply_step(layer, loop, context).loop_state
        return tf.reduce_sum(tf.sin(loop.output)) + tf.reduce_sum(loop.halting.ponder_cost)

    expected = _run(layer, unrolled, "eager")
    _check_equal(_run(layer, _loss(layer), mode), expected)
    assert expected[1][0].any() == (backprop_steps >= taken)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_random_numbers_and_output_are_those_of_plain_training(adaptive, mode):
    values, states = [], []
    for backprop_steps in (None, 2):
        layer = _recurrence(backprop_steps, adaptive, dropout_rate=0.3)
        call = lambda layer=layer: layer.forward(tf.constant(X), TRAINING).output  # noqa: E731
        call = call if mode == "eager" else tf.function(call, autograph=False)
        values.append([np.asarray(call()) for _ in range(2)])
        states.append([variable.numpy() for variable in layer.non_trainable_variables])
    np.testing.assert_allclose(values[1], values[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(states[1], states[0])
    assert np.abs(values[0][0] - values[0][1]).max() > 1e-2


@pytest.mark.parametrize("adaptive", [False, True])
def test_all_steps_have_a_gradient_if_all_are_among_the_last(adaptive):
    expected = _run(*_with_loss(_recurrence(None, adaptive, dropout_rate=0.3)))
    _check_equal(_run(*_with_loss(_recurrence(N, adaptive, dropout_rate=0.3))), expected)
    assert expected[1][0].any()


def _with_loss(layer):
    return layer, _loss(layer)


def test_sampled_number_of_steps_keeps_the_last_steps():
    """The input has a gradient only if the sampled number of steps is at most 2."""
    layer = _recurrence(2, steps_sampling="uniform")
    run = tf.function(lambda: _gradient_by_input(layer, tf.constant(X), TRAINING), autograph=False)
    found = [bool(np.any(run())) for _ in range(30)]
    assert set(found) == {True, False}


def _gradient_by_input(layer, x, inputs):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(layer.forward(x, inputs).output ** 3)
    return tape.gradient(loss, x)


def test_injected_input_has_a_gradient():
    layer = _recurrence(2, injection=input_injection.InputInjection())
    assert np.any(_gradient_by_input(layer, tf.constant(X), TRAINING))


def test_gradient_outside_of_training_passes_through_all_steps():
    layer = _recurrence(1)
    assert np.any(_gradient_by_input(layer, tf.constant(X), StepInputs(training=False)))


@pytest.mark.parametrize("adaptive", [False, True])
def test_attention_of_all_steps_is_recorded(adaptive):
    inputs = TRAINING._replace(record_attention=True)
    got, expected = (
        _recurrence(backprop_steps, adaptive).forward(tf.constant(X), inputs).attention_weights
        for backprop_steps in (2, None)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert got.shape[0] > 2


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("steps", [4, 40])
def test_number_of_kept_tensors_does_not_depend_on_the_number_of_steps(adaptive, steps):
    """Only the loop over the last 2 steps keeps tensors. It keeps at most 2 of each kind."""
    block = layer_checks.make_block(D, dropout_rate=0.2)
    timing = timing_signal.StepTimingSignal(steps)
    if adaptive:
        rule = halting.ACTHalting(steps, bias_init=-5.0)
        layer = act.AdaptiveComputationTime(block, timing, rule, backprop_steps=2)
    else:
        layer = recurrence.BasicRecurrence(block, timing, steps, backprop_steps=2)
    layer.build((None, None, D))

    @tf.function(autograph=False)
    def run(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer.forward(x, TRAINING).output)
        return tape.gradient(loss, layer.trainable_variables)

    graph = run.get_concrete_function(tf.TensorSpec([B, S, D])).graph
    loops = [op for op in graph.get_operations() if op.type == "While"]
    keeping = []
    for loop in loops:
        body = graph._get_function(loop.get_attr("body").name).graph
        if any(op.type == "TensorListPushBack" for op in body.get_operations()):
            keeping.append(tf.get_static_value(loop.inputs[1]))
    assert len(loops) == 2 and keeping == [2]


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda: _recurrence(0), "Received: 0"),
        (lambda: _recurrence(N + 1), f"{N}.*Received: {N + 1}"),
        (lambda: _recurrence(N + 1, adaptive=True), f"{N}.*Received: {N + 1}"),
        (lambda: _recurrence(2, supervised_every=1), "backprop_steps=2, supervised_every=1"),
        (
            lambda: act.AdaptiveComputationTime(
                None, None, ponder_net.PonderNetHalting(N, expected_loss=True), backprop_steps=2
            ),
            "backprop_steps=2 with PonderNetHalting",
        ),
    ],
)
def test_truncation_rejects_bad_arguments(make, values):
    with pytest.raises(ValueError, match=values) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("adaptive", [False, True])
def test_training_with_fewer_steps_than_backprop_steps_is_rejected(adaptive):
    layer = _recurrence(4, adaptive)
    with pytest.raises(ValueError, match="3.*Received: 4"):
        layer.forward(tf.constant(X), TRAINING._replace(num_steps=3))
    layer.forward(tf.constant(X), StepInputs(training=False, num_steps=3))
