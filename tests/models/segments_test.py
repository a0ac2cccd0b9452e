"""Training in segments: `recurrence_segments`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ut_keras
from tests import seeds
from tests.layers import layer_checks
from tests.models import examples
from ut_keras import hparam_schema, hparams, models, optimizers
from ut_keras.hparam_schema import HParamError
from ut_keras.layers.depth import act, recurrence, stack
from ut_keras.layers.halting import halting
from ut_keras.layers.position import timing_signal
from ut_keras.training import distribution, train_step

M, K = 3, 2  # segments, steps of a segment
_NO_DROPOUT = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0,label_smoothing=0"
_STEPS = f"num_rec_steps={K},act_max_steps={K},recurrence_segments={M}"
_Q_HALT = "recurrence_type=act,act_type=q_halt,act_epsilon=0.5"
_INJECTED = "recurrence_input_injection=concat"
_LM = {"targets": examples.SYMBOLS}
_LM_NAMES = ("universal_transformer", "universal_transformer_tiny")


def _make(kind, *settings):
    """Return a model with perturbed weights, and its features."""
    text = ",".join(filter(None, (_STEPS, _NO_DROPOUT, *settings)))
    if kind != "language_model":
        return examples.make(kind, text), examples.KINDS[kind][3]
    seeds.set_seed(0)
    hp = hparams.get(_LM_NAMES[1], f"{examples.SIZE},{text}")
    model = models.from_specs(_LM_NAMES[0], hp, _LM)
    random = np.random.RandomState(0)
    for variable in model.trainable_variables:
        variable.assign_add(0.1 * random.normal(size=variable.shape))
    return model, {"targets": examples.TARGETS}


def _segments(model, features):
    """Return the output of each segment in training, without updates."""
    outputs, carried = [], None
    for _ in range(M):
        outputs.append(model.forward(features, training=True, carried=carried))
        carried = outputs[-1].carried
    return outputs


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("tagger", ""),
        ("tagger", f"{_Q_HALT},act_halting_bias_init=-90"),
        ("language_model", f"{_INJECTED},mix_with_transformer='before_ut,after_ut'"),
        pytest.param("encoder", f"{_Q_HALT},act_halting_bias_init=-90", marks=pytest.mark.slow),
        pytest.param(
            "language_model",
            "step_timing_signal_type=sinusoid,position_start_index=step,add_sru=1",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_inference_equals_the_last_segment(kind, settings):
    model, features = _make(kind, settings)
    model_inputs = {name: features[name] for name in model.input_features}
    *earlier, last = (output.logits for output in _segments(model, features))
    threshold = 1.0 if "q_halt" in settings else None
    logits = model.forward(model_inputs, exit_threshold=threshold).logits
    np.testing.assert_allclose(logits, last, atol=1e-5)
    shorter = model.with_steps(K).forward(model_inputs, exit_threshold=threshold).logits
    np.testing.assert_allclose(shorter, earlier[0], atol=1e-5)
    assert np.abs(logits - earlier[-1]).max() > 1e-2


def _embedded(model, features, monkeypatch):
    """Return the embeddings and the `StepInputs` that the encoder gets."""
    found = []

    def forward(self, state, inputs):
        found.append((state, inputs))
        raise StopIteration

    with monkeypatch.context() as patched:
        patched.setattr(stack.Stack, "forward", forward)
        with pytest.raises(StopIteration):
            model.forward(features, training=True)
    return found[0]


def test_a_step_equals_manual_updates(monkeypatch):
    """The reference is a plain loop of segments, with SGD and a carried NumPy array."""
    model, features = _make("tagger", _INJECTED)
    reference, _ = _make("tagger", _INJECTED)
    start = model.get_weights()
    model.compile(keras.optimizers.SGD(0.5))
    loss = model.train_on_batch(features, features["targets"], return_dict=True)["loss"]

    depth, variables, losses = reference.encoder.depth, reference.trainable_variables, []
    targets, carried = features["targets"], None
    for _ in range(M):
        with tf.GradientTape() as tape:
            x, inputs = _embedded(reference, features, monkeypatch)
            signals = depth.timing.prepare(tf.range(targets.shape[1]), K)
            state = x if carried is None else tf.constant(carried)
            for step in range(K):
                read = tf.matmul(tf.concat([state, x], -1), depth.injection.projection.kernel)
                read = depth.timing(read, tf.constant(step), signals)
                state = depth.block.forward(read, inputs).output
            logits = reference.softmax.logits(reference.encoder.postprocess(state))
            by_position = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
            losses.append(tf.reduce_mean(by_position[targets != 0]))
        for variable, gradient in zip(variables, tape.gradient(losses[-1], variables), strict=True):
            if gradient is not None:
                variable.assign_sub(0.5 * tf.convert_to_tensor(gradient))
        carried = state.numpy()

    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-6)
    got = model.get_weights()
    assert model.optimizer.iterations == M
    for value, expected in zip(got, reference.get_weights(), strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-6)
    assert max(np.abs(a - b).max() for a, b in zip(got, start, strict=True)) > 0.1


def test_gradient_stops_between_segments():
    """The embeddings have a gradient in the first segment only, because there is no injection."""
    for settings in ("", f"{_Q_HALT},act_halting_bias_init=-90"):
        model, features = _make("tagger", settings, "shared_embedding_and_softmax_weights=0")
        with tf.GradientTape(persistent=True) as tape:
            first, second, _ = _segments(model, features)
            values = [tf.reduce_sum(tf.square(out.logits)) for out in (first, second)]
        table = model.source_embedding.trainable_variables[0]
        assert np.abs(tf.convert_to_tensor(tape.gradient(values[0], table))).max() > 0
        assert tape.gradient(values[1], table) is None
        kernel = model.encoder.depth.block.trainable_variables[0]
        assert np.abs(tape.gradient(values[1], kernel)).max() > 0


def test_fit_and_trainer_have_the_same_numbers():
    """They agree on losses, weights, the number of updates and the learning rate.

    `fit` runs the model eagerly. Another test compares its traced update with manual updates.
    """
    schedule = "learning_rate_schedule=constant*linear_decay,learning_rate_constant=0.01"
    settings = (_INJECTED, schedule, "learning_rate_decay_steps=4,clip_grad_norm=1.0")
    fitted, features = _make("tagger", *settings)
    fitted.compile(optimizers.get(fitted.hparams, train_steps=4), run_eagerly=True)
    history = fitted.fit(features, features["targets"], epochs=2, verbose=0).history

    strategy = distribution.get_strategy(devices=["CPU:0"])
    with strategy.scope():
        trained, _ = _make("tagger", *settings)
        optimizer = optimizers.get(trained.hparams, train_steps=4)
        optimizer.build(trained.trainable_variables)
    step = train_step.make_train_step(trained, optimizer, strategy, None)
    tensors = {name: tf.constant(value) for name, value in features.items()}
    results = [step((tensors, tensors["targets"])) for _ in range(2)]

    np.testing.assert_allclose([result.loss for result in results], history["loss"], rtol=1e-5)
    correct = [result.correct / result.sequences for result in results]
    np.testing.assert_allclose(correct, history["accuracy_per_sequence"])
    for value, expected in zip(trained.get_weights(), fitted.get_weights(), strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-6)
    for used in (optimizer, fitted.optimizer):
        assert used.iterations == 2 * M
        np.testing.assert_allclose(used.learning_rate, 0.01 * (4 - 2) / 4, rtol=1e-6)


@pytest.mark.parametrize("kind", ["tagger", pytest.param("encoder", marks=pytest.mark.slow)])
def test_halting_ends_the_segments(kind):
    """A segment has no loss where inference would have halted in an earlier segment."""
    model, features = _make(kind, _Q_HALT, "class_label_pooling=last")
    rule, random = model.encoder.depth.halting, np.random.RandomState(0)
    rule.set_weights([5 * random.normal(size=[16, 1]), np.array([-9.0])])
    halted_after = model.forward(features, training=False).encoder.ponder_times.numpy()
    targets, outputs = features["targets"], _segments(model, features)
    found = set()
    for number, output in enumerate(outputs):
        steps = output.encoder.steps.weights.numpy()
        has_loss = steps[..., 0].sum(0) > 0 if kind == "encoder" else steps.sum(0) > 0
        is_over = halted_after <= number * K
        np.testing.assert_array_equal(has_loss, ~is_over)
        found |= {*is_over.ravel()}
        other = np.where(is_over if kind == "tagger" else is_over[:, np.newaxis], 2, targets)
        losses, of_other = (model.loss_terms(output, t, True) for t in (targets, other))
        for name in ("training", "act_loss"):
            for term, changed in zip(losses[name], of_other[name], strict=True):
                np.testing.assert_allclose(term.numerator, changed.numerator, rtol=1e-6)
    assert found == {True, False}
    ponder_times = outputs[-1].encoder.ponder_times
    np.testing.assert_array_equal(ponder_times, -(-halted_after // K) * K)
    if kind == "encoder":  # the step of `fit` also runs segments in which all examples have halted
        model.compile()
        history = model.fit(features, targets, epochs=2, verbose=0).history
        assert np.isfinite(history["loss"]).all()


def test_segments_survive_saving_and_export(tmp_path):
    model, features = _make("tagger", _INJECTED)
    logits = model(features, training=False)
    model.save(tmp_path / "model.keras")
    loaded = ut_keras.load(tmp_path / "model.keras")
    assert loaded.hparams.recurrence_segments == loaded.num_segments == M
    np.testing.assert_array_equal(loaded(features), logits)
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    ids = {"inputs": tf.constant(features["inputs"]), "targets": tf.constant(features["targets"])}
    served_inputs = {name: ids[name] for name in model.input_features}
    np.testing.assert_allclose(served.serve(served_inputs), logits, atol=1e-5)


@pytest.mark.parametrize("settings", ["", pytest.param("add_sru=1", marks=pytest.mark.slow)])
def test_generation_with_a_cache_equals_the_full_forward_pass(settings):
    model, _ = _make("language_model", _INJECTED, settings)
    assert not model.why_not_cached
    prompts = {"targets": examples.TARGETS[:, :2]}
    cached, full = (model.generate(prompts, 3, decode_length=6, cache=c) for c in (True, False))
    np.testing.assert_array_equal(cached.ids, full.ids)
    np.testing.assert_allclose(cached.scores, full.scores, atol=1e-5)
    fewer = model.generate(prompts, 3, decode_length=6, num_steps=K)
    assert np.abs(fewer.scores - cached.scores).max() > 1e-3


@pytest.mark.parametrize("value", ["0", "-1", "65", "many", "2.5"])
def test_bad_numbers_are_rejected(value):
    with pytest.raises(HParamError, match=r"\[1, 64\]. Received: .*") as caught:
        hparams.get("universal_transformer_tiny", f"recurrence_segments={value}")
    assert value in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "settings", "values"),
    [
        ("universal", "", "recurrence_segments=3 for an encoder and a decoder"),
        ("tagger", "recurrence_type=dwa", "recurrence_segments=3 with recurrence_type='dwa'"),
        ("tagger", "recurrence_type=act", "recurrence_segments=3 with act_type='basic'"),
        (
            "tagger",
            "num_rec_steps_sampling=uniform",
            "recurrence_segments=3 with num_rec_steps_sampling=uniform",
        ),
        (
            "tagger",
            "optimizer=multistep_adam,optimizer_multistep_accumulate_steps=2",
            "recurrence_segments=3, optimizer_multistep_accumulate_steps=2",
        ),
    ],
)
def test_unsupported_combinations_are_rejected(kind, settings, values):
    with pytest.raises(HParamError, match=f"Received: {values}") as caught:
        _make(kind, settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["transformer", "transformer_encoder"])
def test_model_without_recurrence_rejects_segments(name):
    """Otherwise the learning-rate schedule would count three updates for each batch."""
    hp = hparams.get("universal_transformer_tiny", f"{examples.SIZE},recurrence_segments=3")
    specs = {"inputs": examples.SYMBOLS, "targets": examples.SYMBOLS}
    with pytest.raises(HParamError, match="recurrence_segments=3 for a Transformer") as caught:
        models.from_specs(name, hp, specs)
    assert "\n" not in str(caught.value)


def test_unsupported_calls_are_rejected():
    model, features = _make("tagger")
    targets = features["targets"]
    with pytest.raises(ValueError, match="Received: training=True"):
        model(features, training=True)
    with pytest.raises(ValueError, match="Received: 4"):
        model.with_steps(4).forward(features, training=True)
    carried = model.forward(features, training=True).carried
    with pytest.raises(ValueError, match="carried .* Received: training=False"):
        model.forward(features, carried=carried)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss)
    with pytest.raises(ValueError, match="recurrence_segments.* Received: <LossFunction"):
        model.fit(features, targets, verbose=0)
    sgd = keras.optimizers.SGD(gradient_accumulation_steps=4)
    several = keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(sgd))
    for optimizer in (sgd, several):
        model.compile(optimizer, run_eagerly=True)
        with pytest.raises(HParamError, match="accumulation_steps=4 with recurrence_segments=3"):
            model.fit(features, targets, verbose=0)


def test_layers_reject_unsupported_arguments():
    def block():
        return layer_checks.make_block(8)

    def timing(repeats=True):
        return timing_signal.StepTimingSignal(K, repeats=repeats)

    with pytest.raises(ValueError, match="Received: 0"):
        recurrence.BasicRecurrence(block(), timing(), K, num_segments=0)
    with pytest.raises(ValueError, match="num_segments=2 with repeats=False"):
        recurrence.BasicRecurrence(block(), timing(repeats=False), K, num_segments=2)
    with pytest.raises(ValueError, match="Received: num_segments=2"):
        recurrence.BasicRecurrence(block(), timing(), K, num_segments=2, steps_sampling="uniform")
    with pytest.raises(ValueError, match="num_segments=2 with ACTHalting"):
        act.AdaptiveComputationTime(block(), timing(), halting.ACTHalting(K), num_segments=2)


def test_layer_call_rejects_training_in_segments():
    """A call in training would take K steps, and a call at inference M · K steps."""
    timing = timing_signal.StepTimingSignal(K, repeats=True)
    layer = recurrence.BasicRecurrence(layer_checks.make_block(8), timing, K, num_segments=M)
    x = np.ones([1, 4, 8], "float32")
    assert layer(x).shape == x.shape
    with pytest.raises(ValueError, match=f"Received: num_segments={M}"):
        layer(x, training=True)
    wrapped = keras.Sequential([keras.layers.Dense(8), stack.Stack(layer)])
    with pytest.raises(ValueError, match=f"Received: num_segments={M}"):
        wrapped(x, training=True)


def test_resuming_requires_the_same_number_of_segments():
    saved = hparams.get("universal_transformer_tiny", "recurrence_segments=2")
    with pytest.raises(HParamError, match="recurrence_segments=3 instead of 2"):
        hparam_schema.check_same_architecture(saved, saved.override("recurrence_segments=3"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", ["activation_dtype=bfloat16", "recompute_grad=1", "recurrence_backprop_steps=1"]
)
def test_xla_trains_like_a_graph(settings):
    weights, losses = [], []
    for jit_compile in (False, True):
        model, features = _make("tagger", _INJECTED, settings)
        model.compile(keras.optimizers.SGD(0.1), jit_compile=jit_compile)
        losses.append(model.train_on_batch(features, features["targets"], return_dict=True)["loss"])
        weights.append(model.get_weights())
    tolerance = 3e-2 if "bfloat16" in settings else 1e-5
    np.testing.assert_allclose(losses[1], losses[0], rtol=tolerance)
    for value, expected in zip(*weights, strict=True):
        np.testing.assert_allclose(value, expected, atol=tolerance)
