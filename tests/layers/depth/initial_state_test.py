import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests.layers import layer_checks
from tests.models import examples
from ut_keras import errors
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import act, initial_state, input_injection, recurrence
from ut_keras.layers.halting import halting
from ut_keras.layers.position import timing_signal

B, S, D, N = 3, 5, 8, 3
REAL = np.arange(S) < np.array([[5], [4], [1]])
X = layer_checks.normal(B, S, D)


def _recurrence(sigma=None, adaptive=False, dtype="float32", concat=True, **arguments):
    seeds.set_seed(0)
    block = layer_checks.make_block(D, dtype)
    timing = timing_signal.StepTimingSignal(N, step="sinusoid", dtype=dtype)
    injection = (input_injection.ConcatInjection if concat else input_injection.InputInjection)(
        dtype=dtype
    )
    if sigma is not None:
        arguments["initial_state"] = initial_state.NormalInitialState(sigma, dtype=dtype)
    arguments |= {"injection": injection, "dtype": dtype}
    if adaptive:
        rule = halting.ACTHalting(N, bias_init=-1.0)
        return act.AdaptiveComputationTime(block, timing, rule, **arguments)
    return recurrence.BasicRecurrence(block, timing, N, **arguments)


@pytest.mark.parametrize("adaptive", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_layer_behaviors(adaptive):
    layer_checks.check_layer(
        lambda dtype: _recurrence(1.0, adaptive, dtype),
        {"x": X, "padding_mask": REAL},
        num_weights=13 + 2 * adaptive,
        call=layer_checks.call_with_mask,
        mixed_dtypes=("bfloat16", *["float32"] * 3 * adaptive),
        mixed_tolerance=None,
    )


@pytest.mark.parametrize("adaptive", [False, True])
def test_every_step_concatenates_the_input(adaptive):
    """The reference starts from zeros. At each step, it multiplies [state; input] by the kernel."""
    layer = _recurrence(1.0, adaptive)
    layer.build((None, None, D))
    layer_checks.shake(layer, scale=0.1)
    if adaptive:  # Here, no position halts, and the output is the state after the last step.
        layer.halting.set_weights([np.zeros([D, 1]), np.array([-30.0])])
        layer.halting.mix = lambda state, output, weights: state
    kernel = np.asarray(layer.injection.projection.kernel)
    assert kernel.shape == (2 * D, D)
    signals, state = layer.timing.prepare(tf.range(S)), np.zeros_like(X)
    for step in range(N):
        x = np.concatenate([state, X], axis=-1) @ kernel
        x = layer.timing(tf.constant(x), tf.constant(step), signals)
        state = layer.block.forward(x).output
    np.testing.assert_allclose(layer.forward(X).output, state, atol=1e-4)


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_initial_state_is_normal_only_in_training(mode):
    layer = initial_state.NormalInitialState(2.0)
    call = tf.function(lambda x: layer(x, training=True), jit_compile=mode == "xla")
    x = tf.zeros([4, 50, 40])
    one, two = np.asarray(call(x)), np.asarray(call(x))
    assert np.abs(one - two).max() > 1
    for values in (one, two):
        np.testing.assert_allclose([values.mean(), values.std()], [0, 2], atol=0.1)
    assert not np.any(layer(x + 1.0))


def test_training_starts_from_the_random_state():
    """The first step gets the random state. At every step, the injection gets the input."""
    layer = _recurrence(1.0, concat=False)
    layer.build((None, None, D))
    seen = []
    layer.injection.call = lambda state, inputs: seen.append((state, inputs)) or state
    layer.initial_state.call = lambda inputs, training: 3.0 * tf.ones_like(inputs)
    layer.forward(X, StepInputs(training=True))
    np.testing.assert_array_equal(seen[0][0], np.full_like(X, 3.0))
    assert all(np.array_equal(inputs, X) for _, inputs in seen)


def test_random_states_are_reproducible_from_the_seed():
    """A resumed run restores the state of the seed. Then it samples the same random numbers."""
    layer = initial_state.NormalInitialState(1.0)
    (seed,) = layer.non_trainable_variables
    before = tf.identity(seed.value)
    first = layer(X, training=True)
    seed.assign(before)
    np.testing.assert_array_equal(layer(X, training=True), first)


def test_initial_state_rejects_arguments():
    with pytest.raises(ValueError, match="sigma must be .*Received: 0.0"):
        initial_state.NormalInitialState(0.0)
    start = initial_state.NormalInitialState()
    with pytest.raises(ValueError, match="initial_state requires an injection.*injection=None"):
        recurrence.BasicRecurrence(None, None, 2, initial_state=start)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("recurrence_initial_state=normal", "Received: recurrence_input_injection='none'"),
        (
            "recurrence_input_injection=add,recurrence_initial_state='normal(sigma=-1)'",
            r"Received: normal\(sigma=-1\)",
        ),
        ("recurrence_initial_state=zeros", "Received: recurrence_initial_state=zeros"),
        ("recurrence_input_injection=concat,recurrence_type=skip", "'concat' with 'skip'"),
        ("recurrence_input_injection=mul", "Received: recurrence_input_injection=mul"),
        ("recurrence_residual_scale=0", "Received: recurrence_residual_scale=0"),
        ("recurrence_residual_scale=1/N", "Received: recurrence_residual_scale=1/N"),
        ("recurrence_fixed_point_loss_weight=-1", "recurrence_fixed_point_loss_weight=-1"),
    ],
)
def test_hparams_are_rejected(settings, message):
    with pytest.raises(errors.UserError, match=message) as caught:
        examples.make("universal", settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        ("recurrence_residual_scale=0.5", 0.5),
        ({"recurrence_residual_scale": 2}, 2.0),
        ("recurrence_residual_scale=1/sqrt(N),num_rec_steps=4", 0.5),
        ("recurrence_residual_scale=1/sqrt(N),recurrence_type=act,act_max_steps=16", 0.25),
        ("num_rec_steps=4", 1.0),
    ],
)
def test_residual_scale_of_the_hparams(settings, scale):
    """The residual scale applies to the block of the recurrence, not to other layers."""
    settings = settings if isinstance(settings, dict) else f"{settings},num_mixedin_layers=1"
    model = examples.make("tagger", settings)
    (layer,) = model.encoder.depth.block.layers
    for sublayer in (layer.self_attention_block, layer.transition_block):
        assert sublayer.postprocess.residual_scale == scale
    mixed = examples.make(
        "tagger", {"recurrence_residual_scale": 0.5, "mix_with_transformer": "before_ut"}
    )
    assert mixed.encoder.depth.before.block.layers[0].residual_scale == 1.0
    assert mixed.encoder.depth.recurrence.block.layers[0].residual_scale == 0.5


def test_residual_scale_by_steps_is_part_of_the_architecture():
    """If the number of steps changed after training, the scale would no longer fit the weights."""
    model = examples.make("tagger", "recurrence_residual_scale=1/sqrt(N)")
    sinusoid = "step_timing_signal_type=sinusoid"
    assert "num_rec_steps or act_max_steps" in model.hparams.override(sinusoid).architecture()
    plain = model.hparams.override(f"{sinusoid},recurrence_residual_scale=0.5")
    assert "num_rec_steps or act_max_steps" not in plain.architecture()
