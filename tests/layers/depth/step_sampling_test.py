import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests.layers import layer_checks
from tests.models import examples
from ut_keras import errors, hparam_schema
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import act, depthwise_attention, recurrence, step_sampling
from ut_keras.layers.halting import convergence, halting, ponder_net
from ut_keras.layers.position import timing_signal

B, S, D, N = 3, 5, 8, 4
LENGTHS = (5, 3, 1)
REAL = np.arange(S) < np.array(LENGTHS)[:, None]
X = layer_checks.normal(B, S, D)


def _recurrence(sampling=None, steps=N, dtype="float32", kind="basic", **arguments):
    """Return a recurrence. Layers with the same arguments have the same weights."""
    seeds.set_seed(0)
    block = layer_checks.make_block(D, dtype)
    timing = timing_signal.StepTimingSignal(N, dtype=dtype)
    arguments |= {"steps_sampling": sampling, "dtype": dtype}
    if kind == "basic":
        layer = recurrence.BasicRecurrence(block, timing, steps, **arguments)
    elif kind == "dwa":
        arguments["depth_embedding"] = False
        layer = depthwise_attention.DepthwiseAttentionRecurrence(block, timing, steps, **arguments)
    else:
        rule = halting.ACTHalting(steps, bias_init=-1.0)
        if kind == "convergence":
            rule = convergence.ConvergenceHalting(steps, epsilon=0.6)
        state = "copy" if kind == "act_copy" else "transform"
        layer = act.AdaptiveComputationTime(block, timing, rule, state, **arguments)
    layer.build((None, None, D))
    return layer_checks.shake(layer, scale=0.1)


def _shares(layer, mode, count=4000):
    @tf.function(jit_compile=mode == "xla", autograph=False)
    def sample():
        none = tf.zeros([count], tf.int32)
        return tf.map_fn(lambda _: layer.sample(), none, parallel_iterations=1)

    return np.bincount(sample().numpy(), minlength=layer.num_steps + 1) / count


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_sampled_steps_are_uniform(mode):
    shares = _shares(step_sampling.UniformSteps(6), mode)
    assert shares[0] == 0 and len(shares) == 7
    np.testing.assert_allclose(shares[1:], 1 / 6, atol=5 * (1 / 6 / 4000) ** 0.5)


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_sampled_steps_are_lognormal_poisson(mode):
    """Each expected share is an integral over tau = log(rate). The last share contains the rest."""
    shares = _shares(step_sampling.LognormalPoissonSteps(7, mean=3.0, sigma=0.5), mode)
    normal = np.linspace(-8, 8, 4001)
    density = np.exp(-(normal**2) / 2) / math.sqrt(2 * math.pi) * (normal[1] - normal[0])
    rate = np.exp(math.log(3.0) - 0.125 + 0.5 * normal)
    expected = [np.sum(density * np.exp(-rate) * rate**k / math.factorial(k)) for k in range(6)]
    expected = np.array([0.0, *expected, 1 - sum(expected)])
    np.testing.assert_allclose(shares, expected, atol=5 * (0.25 / 4000) ** 0.5)


def test_lognormal_poisson_mean():
    """If N is large, the mean of the sampled numbers of steps is `mean` + 1."""
    for sigma in (0.0, 0.5):
        layer = step_sampling.LognormalPoissonSteps(200, mean=20.0, sigma=sigma)
        shares = _shares(layer, "graph", count=2000)
        mean = np.sum(shares * np.arange(201))
        variance = np.sum(shares * np.arange(201) ** 2) - mean**2
        expected = 20 + 400 * (math.exp(sigma**2) - 1)
        np.testing.assert_allclose(mean, 21, atol=5 * (expected / 2000) ** 0.5)
        np.testing.assert_allclose(variance, expected, rtol=0.25)


@pytest.mark.parametrize("largest", [1, 2])
def test_lognormal_poisson_is_bounded(largest):
    layer = step_sampling.LognormalPoissonSteps(largest, mean=1e6, sigma=0.0)
    assert layer.sample() == largest


def test_steps_by_length_are_rounded_up():
    layer = step_sampling.StepsByLength(100, factor=0.3)
    got = layer.steps_by_length(tf.constant([0, 1, 3, 4, 10, 11, 400]), 100)
    np.testing.assert_array_equal(got, [1, 1, 1, 2, 3, 4, 100])


@pytest.mark.parametrize("kind", ["basic", "dwa", "act", "act_copy", "convergence"])
def test_steps_by_length_match_each_length_alone(kind):
    """The number of steps depends neither on the rest of the batch nor on padding."""
    layer = _recurrence(step_sampling.StepsByLength(N, factor=0.6), kind=kind)
    plain = _recurrence(kind=kind)
    for training in (False, True):
        got = layer_checks.call_with_mask(layer, X, REAL, training)
        for number, length in enumerate(LENGTHS):
            steps = math.ceil(0.6 * length)
            inputs = StepInputs(training=training, num_steps=steps)
            one = plain.forward(X[number : number + 1, :length], inputs)
            np.testing.assert_allclose(got.output[number, :length], one.output[0], atol=1e-5)
            if got.ponder_times is not None:
                np.testing.assert_allclose(got.ponder_times[number, :length], one.ponder_times[0])
                cost = got.ponder_cost[number, :length]
                np.testing.assert_allclose(cost, one.ponder_cost[0], atol=1e-5)


@pytest.mark.parametrize("kind", ["basic", pytest.param("act", marks=pytest.mark.slow)])
def test_steps_by_length_layer_behaviors(kind):
    layer_checks.check_layer(
        lambda dtype: _recurrence(step_sampling.StepsByLength(N, 0.6), dtype=dtype, kind=kind),
        {"x": X, "padding_mask": REAL},
        num_weights=13 + 2 * (kind == "act"),
        call=layer_checks.call_with_mask,
        mixed_dtypes=("bfloat16", *["float32"] * 3 * (kind == "act")),
        mixed_tolerance=None,
    )


def test_steps_by_length_with_supervised_steps():
    """Each example has a loss after every second step and after its own last step."""
    sampling = step_sampling.StepsByLength(N, factor=0.6)
    layer = _recurrence(sampling, supervised_every=2)
    got = layer_checks.call_with_mask(layer, X, REAL, training=True)
    weights = np.asarray(got.steps.weights)
    np.testing.assert_allclose(weights[:, :, 0], [[0.5, 1, 1], [0.5, 0, 0]])
    total = np.einsum("nbs,nbsd->bsd", weights, got.steps.states)
    for number, steps in enumerate((3, 2, 1)):
        inputs = StepInputs(training=True, num_steps=steps)
        length = LENGTHS[number]
        one = _recurrence(supervised_every=2).forward(X[number : number + 1, :length], inputs)
        wanted = np.einsum("nbs,nbsd->bsd", one.steps.weights, one.steps.states)
        np.testing.assert_allclose(total[number, :length], wanted[0], atol=1e-5)


def test_steps_by_length_follow_num_steps_of_a_call():
    layer = _recurrence(step_sampling.StepsByLength(2, factor=1.0), steps=2)
    deep = layer.forward(X, StepInputs(num_steps=4)).output
    np.testing.assert_allclose(deep, _recurrence().forward(X).output, atol=1e-6)
    with pytest.raises(ValueError, match="Received: a decoding cache"):
        layer.extend(X, None, None)


@pytest.mark.parametrize("kind", ["basic", "convergence"])
def test_steps_by_length_have_their_own_largest_number(kind):
    """The largest number of `StepsByLength` may be smaller than `num_steps` of the recurrence."""
    layer = _recurrence(step_sampling.StepsByLength(2, factor=1.0), kind=kind)
    shallow = _recurrence(kind=kind).forward(X, StepInputs(num_steps=2)).output
    np.testing.assert_allclose(layer.forward(X).output, shallow, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "mode", "backprop_steps"),
    [
        *(("act", "graph", None), ("act", "xla", None), ("act", "graph", 2)),
        pytest.param("convergence", "xla", 2, marks=pytest.mark.slow),
    ],
)
def test_sampled_steps_limit_adaptive_halting(kind, mode, backprop_steps):
    """Training equals an eager call whose `num_steps` is the sampled number of steps."""
    layer = _recurrence("uniform", kind=kind, backprop_steps=backprop_steps)
    plain = _recurrence(kind=kind, backprop_steps=backprop_steps)
    for to, source in zip(plain.trainable_variables, layer.trainable_variables, strict=True):
        to.assign(source)
    layer.steps_sampling.sample = lambda: tf.constant(3)

    def train(layer, x, num_steps=None):
        with tf.GradientTape() as tape:
            got = layer.forward(x, StepInputs(training=True, num_steps=num_steps))
            loss = tf.reduce_sum(tf.sin(got.output)) + tf.reduce_sum(got.ponder_cost)
        return got.ponder_times, loss, tape.gradient(loss, layer.block.trainable_variables)

    compiled = tf.function(lambda x: train(layer, x), jit_compile=mode == "xla", autograph=False)
    times, loss, gradients = compiled(X)
    wanted_times, wanted_loss, wanted = train(plain, X, num_steps=3)
    np.testing.assert_array_equal(times, wanted_times)
    assert np.max(times) == 3
    np.testing.assert_allclose(loss, wanted_loss, rtol=1e-5)
    for got, want in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(layer.forward(X).output, plain.forward(X).output, atol=1e-6)


@pytest.mark.parametrize(
    "sampling",
    [
        step_sampling.LognormalPoissonSteps(N, mean=2.0, sigma=0.25),
        step_sampling.StepsByLength(N, factor=0.5),
        step_sampling.UniformSteps(N - 1),
    ],
)
@pytest.mark.parametrize("kind", ["basic", "act"])
def test_sampling_is_saved_in_the_config(kind, sampling):
    layer = _recurrence(sampling, kind=kind)
    again = layer.from_config(layer.get_config()).steps_sampling
    assert type(again) is type(sampling) and again.get_config() == sampling.get_config()
    uniform = _recurrence("uniform", kind=kind)
    assert uniform.get_config()["steps_sampling"] == "uniform"


def test_sampling_rejects_arguments():
    with pytest.raises(ValueError, match="mean must be .*Received: 0.0"):
        step_sampling.LognormalPoissonSteps(2, mean=0.0)
    with pytest.raises(ValueError, match="sigma must be .*Received: -1.0"):
        step_sampling.LognormalPoissonSteps(2, mean=1.0, sigma=-1.0)
    with pytest.raises(ValueError, match="factor must be .*Received: inf"):
        step_sampling.StepsByLength(2, factor=math.inf)
    with pytest.raises(ValueError, match="StepsByLength.*Received: backprop_steps=2"):
        _recurrence(step_sampling.StepsByLength(N, factor=1.0), backprop_steps=2)
    with pytest.raises(ValueError, match=f"at most {N}, .*Received: {N + 1}"):
        _recurrence(step_sampling.UniformSteps(N + 1))
    rule = ponder_net.PonderNetHalting(N, expected_loss=True)
    with pytest.raises(ValueError, match="steps_sampling requires .*with PonderNetHalting"):
        act.AdaptiveComputationTime(None, None, rule, steps_sampling="uniform")


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("universal", "'lognormal_poisson(mean=0)'", r"mean above 0. Received: lognormal_poisson"),
        ("universal", "'lognormal_poisson(mean=2, sigma=-1)'", r"Received: .*sigma=-1"),
        ("universal", "lognormal_poisson", r"must have the arguments \(mean, sigma=0.5\)"),
        ("universal", "'by_length(factor=-2)'", r"Received: by_length\(factor=-2\)"),
        ("universal", "by_length,recurrence_backprop_steps=2", "recurrence_backprop_steps=2"),
        ("adaptive_language_model", "by_length", "Received: a language model"),
        ("adaptive", "uniform,act_type=ponder_net", "act_type='ponder_net'"),
        ("encoder", "uniform,act_type=q_halt", "act_type='q_halt'"),
        ("universal", "gaussian", "'by_length' or None. Received: num_rec_steps_sampling=gaussian"),
    ],
)
def test_hparams_of_sampling_are_rejected(kind, settings, message):
    with pytest.raises(errors.UserError, match=message) as caught:
        examples.make(kind, f"num_rec_steps_sampling={settings}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["universal", "encoder", "tagger"])
def test_model_with_steps_by_length(kind, tmp_path):
    """The output depends neither on the batch nor on padding. `fit` trains the model.

    `fit` traces the encoder with adaptive depth. It runs the other models eagerly, because tracing
    is slow.
    """
    more = "num_rec_steps_sampling='by_length(factor=0.5)'"
    model, features = examples.make(kind, more), examples.features(kind)
    plain = examples.make(kind)
    plain.set_weights(model.get_weights())
    got = model(features)
    assert np.abs(got - plain(features)).max() > 1e-3
    for number in range(examples.B):
        one = {name: value[number : number + 1] for name, value in features.items()}
        np.testing.assert_allclose(model(one)[0], got[number], atol=1e-5)
    if kind == "universal":
        wider = {**features, "inputs": np.pad(features["inputs"], [(0, 0), (0, 3)])}
        np.testing.assert_allclose(model(wider), got, atol=1e-5)
        cached = model.generate(features, decode_length=2)
        anew = model.generate(features, decode_length=2, cache=False)
        np.testing.assert_array_equal(cached.ids, anew.ids)
        assert not model.why_source_padding_matters
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(features), got)
    model.compile(run_eagerly=kind != "encoder")
    history = model.fit(features, features["targets"], verbose=0)
    assert np.isfinite(history.history["loss"][0])


def test_steps_by_length_reject_packed_examples():
    model = examples.make(
        "tagger", "num_rec_steps_sampling=by_length,mix_with_transformer=after_ut"
    )
    ids = np.ones([1, 4], np.int32)
    packed = {"inputs": ids, "targets": ids, "inputs_segmentation": ids, "inputs_position": ids}
    with pytest.raises(ValueError, match="by_length.*Received: inputs_segmentation"):
        model.forward(packed)


def test_lognormal_poisson_model_trains():
    """`fit` runs the model with adaptive depth eagerly, because tracing it is slow.

    Other tests trace a training step of a layer that limits adaptive halting.
    """
    settings = "num_rec_steps_sampling='lognormal_poisson(mean=2, sigma=0.5)'"
    for kind in ("tagger", "adaptive"):
        model, features = examples.make(kind, settings), examples.features(kind)
        model.compile(run_eagerly=kind == "adaptive")
        history = model.fit(features, features["targets"], epochs=2, verbose=0)
        assert np.all(np.isfinite(history.history["loss"]))
        assert model.encoder.depth.steps_sampling.mean == 2.0


def test_sampling_by_length_is_part_of_the_trained_function():
    trained = hparam_schema.UniversalTransformerHParams(num_rec_steps_sampling="by_length")
    edited = trained.override("num_rec_steps_sampling=None")
    noted = hparam_schema.changes.non_defaults(trained)
    with pytest.raises(hparam_schema.HParamError, match="num_rec_steps_sampling=None"):
        hparam_schema.changes.check_as_trained(edited, noted, "hparams.json")
