import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from tests.visualize import small_models
from ut_keras.data.features import FeatureSpec
from ut_keras.visualize import observer

ENCODERS = small_models.ENCODERS
SIZE = small_models.ENCODER.vocab_size
WORDS = small_models.ids("a b c") + [1]
TARGETS = small_models.ids("d e") + [1]
BOTH = {"inputs": [WORDS], "targets": [TARGETS]}
SYMBOLS = {"inputs": FeatureSpec(SIZE), "targets": FeatureSpec(SIZE)}
ACT = f"{small_models.ADAPTIVE},act_max_steps=4"
# With this override, steps have no learned weights, so a call can take fewer steps.
COUNTED = "step_timing_signal_type=sinusoid"
UNIT = "add_step_timing_signal=False,num_rec_steps=3"

# This table maps each name to (model, overrides, specs, features).
MODELS = {
    "both": ("universal_transformer", f"num_rec_steps=3,{COUNTED}", SYMBOLS, BOTH),
    "adaptive_copy": (
        "universal_transformer",
        f"{ACT},{COUNTED},act_halted_state=copy,num_inrecurrence_layers=2",
        SYMBOLS,
        BOTH,
    ),
    "language_model": (
        "universal_transformer",
        f"{ACT},{COUNTED},act_type=accumulated",
        {"targets": FeatureSpec(SIZE)},
        {"targets": [WORDS]},
    ),
    "tagger": (
        "universal_transformer_encoder",
        f"{ACT},act_type=global,{COUNTED}",
        SYMBOLS,
        {"inputs": [WORDS], "targets": [WORDS]},
    ),
    "cell": (
        "universal_transformer_encoder",
        f"recurrence_type=lstm,use_memory_as_final_state=True,{UNIT}",
        SYMBOLS,
        {"inputs": [WORDS], "targets": [WORDS]},
    ),
    "mixed": (
        "universal_transformer",
        "num_rec_steps=3,mix_with_transformer='before_ut,after_ut',num_mixedin_layers=1",
        SYMBOLS,
        BOTH,
    ),
    "gru": ("universal_transformer", f"recurrence_type=gru,{UNIT}", SYMBOLS, BOTH),
    "dwa": ("universal_transformer", "recurrence_type=dwa,num_rec_steps=3", SYMBOLS, BOTH),
    "q_halt": (
        "universal_transformer_encoder",
        f"{ACT},act_type=q_halt",
        SYMBOLS,
        {"inputs": [WORDS], "targets": [WORDS]},
    ),
    "ponder_net": ("universal_transformer", f"{ACT},act_type=ponder_net", SYMBOLS, BOTH),
    "story": (
        "universal_transformer_encoder",
        ACT,
        {
            "inputs": FeatureSpec(SIZE, "sentences", (4, 3)),
            "targets": FeatureSpec(9, "class_label"),
        },
        {**small_models.story(), "targets": [[2]]},
    ),
    "class_with_decoder": (
        "universal_transformer",
        "recurrence_type=highway,num_rec_steps=3",
        {"inputs": FeatureSpec(SIZE), "targets": FeatureSpec(9, "class_label")},
        {"inputs": [WORDS], "targets": [[2]]},
    ),
}
FEW = ("both", "adaptive_copy", "language_model", "tagger", "story")
EACH = [
    pytest.param(name, marks=[] if name in FEW else pytest.mark.slow, id=name) for name in MODELS
]


@functools.cache
def _model(name):
    kind, changes, specs, _ = MODELS[name]
    return small_models.build(kind, changes, specs)


@functools.cache
def _seen(name):
    return observer.observe(_model(name), MODELS[name][3], ENCODERS)


def _observe(name, **options):
    return observer.observe(_model(name), MODELS[name][3], ENCODERS, **options)


def _last(seen):
    """Return the steps of the last stack, which makes the predictions."""
    return [*seen.steps.values()][-1]


@pytest.mark.parametrize("name", EACH)
def test_last_step_has_the_logits_of_the_forward_pass(name):
    features = {key: np.array(value) for key, value in MODELS[name][3].items()}
    expected = _model(name).forward(features, training=False).logits.numpy()
    found = _last(_seen(name))
    expected = expected if _model(name).class_labels else expected[0]
    # The forward pass may skip halted positions. In this case, its sums have another order.
    np.testing.assert_allclose(found.logits[-1], expected, rtol=1e-4, atol=1e-4)
    recorded = _model(name).inspect(features).logits.numpy()
    np.testing.assert_array_equal(found.logits[-1], np.reshape(recorded, expected.shape))
    assert len(found.logits) == len(found.states) == len(found.residuals) >= 2
    assert np.abs(found.logits[0] - found.logits[-1]).max() > 1e-3
    best = found.logits.argmax(axis=-1)
    if _model(name).class_labels:
        names = [[ENCODERS["targets"].decode([i]) for i in step] for step in best.tolist()]
    else:
        names = [observer.token_labels(ENCODERS["targets"], step) for step in best]
    assert [[tokens[0] for tokens in step] for step in found.top_tokens] == names
    largest = tf.reduce_max(tf.nn.softmax(found.logits), axis=-1)
    np.testing.assert_allclose(np.array(found.top_probabilities)[..., 0], largest, rtol=1e-5)


@pytest.mark.parametrize("name", ["language_model", "tagger", "both"])
def test_step_has_the_logits_of_a_call_with_fewer_steps(name):
    """A call with fewer steps changes the steps of the encoder and of the decoder.

    Therefore, the test gives the decoder the state of the encoder after all steps.
    """
    features = {key: np.array(value) for key, value in MODELS[name][3].items()}
    found = _last(_seen(name))
    for number in range(1, len(found.states)):
        if name == "both":
            encoder = _seen(name).steps["encoder"].states[-1]
            seen = observer.observe(
                _Shallow(_model(name), number),
                MODELS[name][3],
                ENCODERS,
                replace={("encoder", number): encoder},
            )
            logits = _last(seen).logits[-1]
        else:
            logits = _model(name).forward(features, training=False, num_steps=number).logits[0]
        np.testing.assert_allclose(found.logits[number - 1], logits, rtol=1e-4, atol=1e-5)


class _Shallow:
    """A model that always takes `number` steps."""

    def __init__(self, model, number):
        self._model, self._number = model, number

    def __getattr__(self, name):
        return getattr(self._model, name)

    def forward(self, features, **options):
        return self._model.forward(features, num_steps=self._number, **options)


@pytest.mark.parametrize("name", EACH)
def test_replacing_states_by_themselves_changes_nothing(name):
    seen = _seen(name)
    for stack, found in seen.steps.items():
        replace = {(stack, number + 1): state for number, state in enumerate(found.states)}
        again = _observe(name, replace=replace)
        for other, steps in seen.steps.items():
            for field in ("states", "residuals", "logits", "running"):
                got, want = getattr(again.steps[other], field), getattr(steps, field)
                np.testing.assert_array_equal(got, want, f"{stack}, {other}.{field}")
        assert again.outputs == seen.outputs


@pytest.mark.parametrize("name", EACH)
def test_replacing_a_state_changes_later_steps_only(name):
    seen = _seen(name)
    found = _last(seen)
    new = np.random.default_rng(0).normal(size=found.states[1].shape).astype("float32")
    got = _last(_observe(name, replace={2: new}))
    np.testing.assert_array_equal(got.states[0], found.states[0])
    np.testing.assert_array_equal(got.logits[0], found.logits[0])
    np.testing.assert_array_equal(got.states[1], new)
    if len(found.states) > 2 and name != "dwa":  # step t of "dwa" does not read H_{t-1}
        assert np.abs(got.states[2:3] - found.states[2:3]).max() > 1e-3
    if name not in ("dwa", "cell"):
        assert np.abs(got.logits[1] - found.logits[1]).max() > 1e-3


@pytest.mark.parametrize("name", EACH)
def test_steps_match_the_ponder_times(name):
    seen = _seen(name)
    for stack, found in seen.steps.items():
        change = np.linalg.norm(found.states[1:] - found.states[:-1], axis=-1)
        size = np.linalg.norm(found.states[1:], axis=-1)
        expected = np.where(found.running[1:], change / size, 0)
        np.testing.assert_allclose(found.residuals[1:], expected, rtol=1e-5, atol=1e-6)
        if stack not in seen.ponder:
            assert found.halting_probability is None and found.running.all()
            continue
        np.testing.assert_array_equal(found.running.sum(axis=0), seen.ponder[stack].times)
        later = ~found.running[1:]
        assert (found.halting_probability[1:][later] > 1 - 1e-6).all()
        assert not found.residuals[1:][later].any()


def test_halted_position_keeps_its_output():
    found = _last(_seen("language_model"))
    halted = ~found.running[1:]
    assert halted.any() and found.running[1].any()  # Positions halt at different steps.
    np.testing.assert_array_equal(found.logits[1:][halted], found.logits[:-1][halted])
    assert (found.logits[1:][~halted] != found.logits[:-1][~halted]).any()
    # With "copy", a halted position also keeps the state that other positions attend to.
    for found in _seen("adaptive_copy").steps.values():
        halted = ~found.running[1:]
        np.testing.assert_array_equal(found.states[1:][halted], found.states[:-1][halted])


def test_first_residual_compares_with_the_initial_state():
    features = {key: np.array(value) for key, value in BOTH.items()}
    output = _model("both").forward(features, training=False, record_steps=True)
    states = output.decoder.recorded.states.numpy()[:, 0]
    expected = np.linalg.norm(states[1] - states[0], axis=-1) / np.linalg.norm(states[1], axis=-1)
    np.testing.assert_allclose(_last(_seen("both")).residuals[0], expected, rtol=1e-5)
    assert np.abs(states[0]).max() > 0 and not states[0, 0].any()  # The first position reads no id.


def test_last_step_predicts_the_generated_tokens():
    model = _model("adaptive_copy")
    seen = observer.observe(model, {"inputs": [WORDS]}, ENCODERS)
    written = model.generate({"inputs": np.array([WORDS])}).ids.numpy()[0, 0]
    best = _last(seen).logits[-1].argmax(axis=-1)
    np.testing.assert_array_equal(best, written[: len(best)])


def test_only_the_last_stack_predicts():
    steps = _seen("both").steps
    assert list(steps) == ["encoder", "decoder"]
    assert steps["decoder"].outputs == steps["decoder"].labels == ["d", "e", "<EOS>"]
    assert not steps["encoder"].outputs and not steps["encoder"].top_tokens
    assert steps["encoder"].labels == ["a", "b", "c", "<EOS>"]
    assert _last(_seen("story")).outputs == ["prediction"]
    assert _last(_seen("story")).logits.shape[1:] == (1, 9)
    lines = repr(steps["decoder"]).splitlines()
    best = steps["decoder"].top_tokens[0][0][0]
    chance = steps["decoder"].top_probabilities[0][0][0]
    assert len(lines) == 3 and lines[0].startswith(f"step 1 of the decoder: {best}:{chance:.2f} ")
    assert repr(steps["encoder"]).startswith("step 1 of the encoder, residuals: a:")


def test_steps_omit_padding_and_other_examples():
    batch = {"inputs": [[2, 1], WORDS], "targets": [[2, 1], TARGETS]}
    batch = {key: [row + [0] * (6 - len(row)) for row in rows] for key, rows in batch.items()}
    model = _model("adaptive_copy")
    alone, found = _seen("adaptive_copy").steps, observer.observe(model, batch, example=1).steps
    output = model.forward(
        {key: np.array(value) for key, value in batch.items()}, training=False, record_steps=True
    )
    for stack, steps in found.items():
        np.testing.assert_array_equal(steps.states, alone[stack].states)
        recorded = getattr(output, stack).recorded  # the steps of the batch with padding
        states = recorded.states.numpy()[1:, 1, : len(steps.labels)]
        np.testing.assert_allclose(states[: len(steps.states)], steps.states, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["both", "language_model"])
def test_recording_works_in_a_graph(name):
    features = {key: np.array(value) for key, value in MODELS[name][3].items()}

    def forward(features):
        return _model(name).forward(features, training=False, record_steps=True).decoder.recorded

    signature = {key: tf.TensorSpec([None, None], tf.int64) for key in features}
    got = tf.function(forward, input_signature=[signature], autograph=False)(features)
    pairs = zip(tf.nest.flatten(got), tf.nest.flatten(forward(features)), strict=True)
    for x, y in pairs:
        if y is not None:  # If the number of steps is fixed, the halting values are None.
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_steps_are_recorded_only_on_request():
    assert _observe("both", steps=False).steps == {}
    assert _observe("both", attention=False).steps == {}
    assert _observe("both", attention=False, steps=True).steps and not _seen("both").ponder


def test_models_without_recurrence_have_no_steps():
    model = small_models.build("transformer", set_name="transformer_tiny")
    assert observer.observe(model, BOTH, ENCODERS).steps == {}
    with pytest.raises(ValueError, match="replace requires a recurrence.* Received: .*decoder"):
        observer.observe(model, BOTH, ENCODERS, replace={1: np.zeros([3, 16])})


@pytest.mark.parametrize(
    "replace, message",
    [
        ({0: np.zeros([3, 16])}, "key of replace must be .* Received: 0"),
        ({"2": np.zeros([3, 16])}, "key of replace must be .* Received: '2'"),
        ({("memory", 1): np.zeros([3, 16])}, r"Received: \('memory', 1\)"),
        ({1: np.zeros([4, 16])}, r"replace\[1\] must be .*\(3, 16\).* Received: shape \(4, 16\)"),
        ({1: [["a"]]}, r"Received: shape \(1, 1\) and dtype <U1"),
        ({4: np.zeros([3, 16])}, "up to 3.* Received: step 4"),
        (
            dict.fromkeys([1, ("decoder", 1)], np.zeros([3, 16])),
            r"Received: \[1, \('decoder', 1\)\]",
        ),
    ],
)
def test_unsuitable_replacement_is_rejected(replace, message):
    with pytest.raises(ValueError, match=message):
        _observe("both", replace=replace)


def test_training_rejects_recording():
    features = {key: np.array(value) for key, value in BOTH.items()}
    with pytest.raises(ValueError, match="training must be False.* Received: training=True"):
        _model("both").forward(features, training=True, record_steps=True)


def test_lstm_and_neural_gpu_have_no_steps():
    for kind in ("lstm", "neural_gpu"):
        features = examples.features(kind)
        assert observer.observe(examples.make(kind), features).steps == {}
