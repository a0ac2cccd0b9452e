import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests.layers import layer_checks
from tests.models import examples
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import act, fixed_point, recurrence, step_sampling
from ut_keras.layers.halting import convergence, halting
from ut_keras.layers.position import timing_signal
from ut_keras.metrics import losses

B, S, D, N = 2, 5, 8, 4
X = layer_checks.normal(B, S, D)
REAL = np.arange(S) < np.array([[5], [3]])
WEIGHT = "recurrence_fixed_point_loss_weight=0.7"


def _recurrence(rule=None, halted_state="transform", dropout_rate=0.0, **arguments):
    seeds.set_seed(0)
    block = layer_checks.make_block(D, dropout_rate=dropout_rate)
    timing = timing_signal.StepTimingSignal(N)
    if rule is None:
        layer = recurrence.BasicRecurrence(block, timing, N, **arguments)
    else:
        layer = act.AdaptiveComputationTime(block, timing, rule, halted_state, **arguments)
    layer.build((None, None, D))
    return layer_checks.shake(layer, scale=0.1)


def _states(layer, inputs=None):
    """Return the state before the first step and after each step."""
    found = [X]
    for steps in range(1, N + 1):
        found.append(np.asarray(layer.forward(X, StepInputs(num_steps=steps)).output))
    return found


def _residual(before, after):
    return np.linalg.norm(after - before, axis=-1) / np.linalg.norm(after, axis=-1)


def test_residuals_of_every_step():
    layer = _recurrence()
    states = _states(layer)
    got = layer.forward(X, StepInputs(record_attention=True)).residuals
    wanted = [_residual(*pair) for pair in zip(states[:-1], states[1:], strict=True)]
    np.testing.assert_allclose(got, wanted, rtol=1e-4)
    assert layer.forward(X).residuals is None


def test_convergence_halts_by_the_recorded_residuals():
    """`ConvergenceHalting` needs no training.

    A position halts at the first step whose residual is less than epsilon.
    """
    residuals = np.asarray(_recurrence().forward(X, StepInputs(record_attention=True)).residuals)
    epsilon = float(np.median(residuals[1:]))
    layer = _recurrence(convergence.ConvergenceHalting(N, epsilon))
    reached = np.concatenate([residuals[:-1] < epsilon, np.ones([1, B, S], bool)])
    wanted = 1 + np.argmax(reached, axis=0)
    np.testing.assert_array_equal(layer.forward(X).ponder_times, wanted)
    assert len(np.unique(wanted)) > 1
    got = layer.forward(X, StepInputs(record_attention=True)).residuals
    np.testing.assert_allclose(got, residuals[: len(got)], rtol=1e-4)


@pytest.mark.parametrize("halted_state", ["transform", "copy"])
def test_loss_uses_the_last_step_of_each_position(halted_state):
    rule = halting.ACTHalting(N, bias_init=-0.5)
    layer = _recurrence(rule, halted_state, fixed_point_loss_weight=0.5)
    layer.halting.kernel.assign(2.0 * layer.halting.kernel)
    inputs = StepInputs(padding_mask=REAL, record_attention=True, training=True)
    result = layer.forward(X, inputs)
    steps = np.asarray(result.ponder_times).astype(int)
    assert len(np.unique(steps)) > 1
    last = np.take_along_axis(np.asarray(result.residuals), steps[np.newaxis] - 1, axis=0)[0]
    np.testing.assert_allclose(result.last_residual, last, rtol=1e-4)
    (term,) = layer.cost_terms(result, REAL)["fixed_point_loss"]
    np.testing.assert_allclose(term.value(), 0.5 * last[REAL].mean(), rtol=1e-4)
    (term,) = layer.cost_terms(result, REAL, tf.constant([2.0, 0.0]))["fixed_point_loss"]
    np.testing.assert_allclose(term.value(), 0.5 * last[0].mean(), rtol=1e-4)
    assert layer.forward(X).last_residual is None
    assert "fixed_point_loss" not in layer.cost_terms(layer.forward(X), REAL)


def test_loss_with_steps_by_length():
    sampling = step_sampling.StepsByLength(N, factor=0.6)
    layer = _recurrence(steps_sampling=sampling, fixed_point_loss_weight=1.0)
    inputs = StepInputs(padding_mask=REAL, record_attention=True, training=True)
    result = layer.forward(X, inputs)
    residuals = np.asarray(result.residuals)
    np.testing.assert_allclose(result.last_residual[0], residuals[2, 0], rtol=1e-4)
    np.testing.assert_allclose(result.last_residual[1], residuals[1, 1], rtol=1e-4)
    assert not np.any(residuals[2, 1])


@pytest.mark.parametrize("mode", ["eager", "graph", pytest.param("xla", marks=pytest.mark.slow)])
def test_gradient_matches_the_definition(mode):
    """The reference divides |H_N - H_{N-1}| by |H_N|, and always runs eagerly.

    The gradient treats the divisor as a constant.
    """

    def train(recorded):
        layer = _recurrence(fixed_point_loss_weight=1.0)

        def run():
            with tf.GradientTape() as tape:
                result = layer.forward(X, StepInputs(training=True))
                loss = tf.reduce_mean(result.last_residual)
                if not recorded:
                    before = layer.forward(X, StepInputs(training=True, num_steps=N - 1)).output
                    size = tf.stop_gradient(tf.norm(result.output, axis=-1))
                    loss = tf.reduce_mean(tf.norm(result.output - before, axis=-1) / size)
            return loss, tape.gradient(loss, layer.block.trainable_variables)

        if recorded and mode != "eager":
            run = tf.function(run, autograph=False, jit_compile=mode == "xla")
        loss, gradients = run()
        return np.asarray(loss), [np.asarray(gradient) for gradient in gradients]

    (got, got_gradients), (wanted, gradients) = train(True), train(False)
    np.testing.assert_allclose(got, wanted, rtol=1e-4)
    for got, want in zip(got_gradients, gradients, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * max(1, np.abs(want).max()))


def test_residual_of_equal_states_has_a_finite_gradient():
    x = tf.constant([[[1.0, 2.0], [0.0, 0.0]]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = fixed_point.residual(x, tf.identity(x))
    np.testing.assert_array_equal(value, [[0, 0]])
    np.testing.assert_array_equal(tape.gradient(value, x), np.zeros([1, 2, 2]))


@pytest.mark.parametrize("kind", ["universal", "adaptive", "tagger"])
def test_model_with_fixed_point_loss(kind):
    """The trainer and `fit` train with the fixed-point loss. The loss does not affect inference."""
    model, features = examples.make(kind, WEIGHT), examples.features(kind)
    plain = examples.make(kind)
    for to, source in zip(plain.trainable_variables, model.trainable_variables, strict=True):
        to.assign(source)
    np.testing.assert_array_equal(model(features), plain(features))
    out = model.inspect(features, training=True)
    assert out.losses["fixed_point_loss"] > 0
    assert "fixed_point_loss" not in model.inspect(features).losses
    assert model.inspect(features).encoder.residuals.shape[1:] == features["inputs"].shape
    output = model.forward(features, training=True)
    stacks = [(model.encoder, output.encoder, output.encoder_mask)]
    if model.decoder is not None:
        stacks.append((model.decoder, output.decoder, features["targets"] != 0))
    terms = model.loss_terms(output, features["targets"], True)
    wanted = 0.0
    for _, result, mask in stacks:
        wanted += 0.7 * np.asarray(result.last_residual)[np.asarray(mask)].mean()
    got = sum(term.value() for term in terms["fixed_point_loss"])
    np.testing.assert_allclose(got, wanted, rtol=1e-4)
    model.compile(run_eagerly=True)
    loss = model.train_on_batch(features, features["targets"], return_dict=True)["loss"]
    assert np.isfinite(loss) and losses.total(terms) > got
