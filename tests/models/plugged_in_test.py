"""Parts of a model that a user writes as plain Keras layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import hparams, models, parts
from ut_keras.decoding import batch_plan
from ut_keras.layers.basic import plugged_in
from ut_keras.layers.depth import input_injection
from ut_keras.layers.halting import halting
from ut_keras.layers.transition import separable_convolution, sru, transition


class Unbuilt(keras.layers.Layer):
    """A layer that has no `build` and contains a layer with weights."""

    def __init__(self, name):
        super().__init__(name=name)
        self.inner = keras.layers.Dense(16, name="inner")

    def call(self, x, *others):
        return self.inner(x)


class UnbuiltTransition(Unbuilt):
    def call(self, x):
        return self.inner(x)


class UnbuiltHalting(halting.ACTHalting):
    """A rule whose own layer is not built by the `build` of its base class."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.layers.Dense(1, name="inner")

    def halt(self, step, state):
        return self.accumulate(tf.sigmoid(self.inner(step.after))[..., 0], step, state, True)


_PARTS = {
    "transitions": lambda hp, side: UnbuiltTransition("transition"),
    "injections": lambda hp, side: Unbuilt("injection"),
    "initial_states": lambda hp, side: Unbuilt("initial_state"),
    "position_signals": lambda hp, side: Unbuilt("position"),
    "haltings": lambda hp, side: UnbuiltHalting(**halting.arguments(hp)),
}
_FIELDS = (
    "ffn_layer=plain,recurrence_input_injection=plain,recurrence_initial_state=plain,pos=plain,"
    "act_type=plain,recurrence_type=act,act_max_steps=2"
)


_BASIC = "universal_transformer_tiny"


def _model(monkeypatch, made, fields, hparams_set="adaptive_universal_transformer_tiny"):
    for registry, maker in made.items():
        monkeypatch.setitem(getattr(parts, registry)._entries, "plain", maker)
    hp = hparams.get(hparams_set, f"{examples.SIZE},{fields}")
    return models.get("universal_transformer", hp, vocab_sizes={"inputs": 13, "targets": 13})


def test_parts_without_build_have_their_weights_before_the_first_call(monkeypatch):
    model = _model(monkeypatch, _PARTS, _FIELDS)
    paths = {weight.path for weight in model.trainable_variables}
    block = "depth/block/rec_layer_0/ffn"
    for side, position in (("encoder", "source"), ("decoder", "target")):
        for name in (f"{side}/{block}/transition", f"{side}/depth/injection"):
            assert f"{name}/inner/kernel" in paths
        assert f"{side}/depth/initial_state/inner/kernel" in paths
        assert f"{position}_position/inner/kernel" in paths
    rules = [path for path in paths if path.endswith("inner/kernel")]
    assert len(rules) == 10
    # A layer in a loop must not make weights during a training step.
    count = len(model.variables)
    with tf.GradientTape() as tape:
        features = {"inputs": examples.INPUTS, "targets": examples.TARGETS}
        loss = model.inspect(features, training=True).losses["training"]
    gradients = tape.gradient(loss, [w.value for w in model.trainable_variables])
    assert len(model.variables) == count
    kernels = zip(model.trainable_variables, gradients, strict=True)
    assert all(g is not None for w, g in kernels if w.path.endswith("inner/kernel"))


def test_sequential_model_is_a_transition(monkeypatch):
    def make(hp, side):
        return keras.Sequential([keras.layers.Dense(24, "gelu"), keras.layers.Dense(16)])

    model = _model(monkeypatch, {"transitions": make}, "ffn_layer=plain", _BASIC)
    assert sum("sequential" in weight.path for weight in model.trainable_variables) == 8
    features = {"inputs": examples.INPUTS, "targets": examples.TARGETS}
    assert model(features, training=False).shape == (3, 4, 13)


class KeywordsModel(keras.Model):
    def call(self, x, **kwargs):
        return x


def test_keywords_of_a_user_class_accept_all_names():
    names = ("cache", "padding_mask", "training")
    assert plugged_in.accepts(KeywordsModel(), *names) == set(names)
    assert plugged_in.accepts(keras.Sequential(), *names) == {"training"}


class OnlyState(keras.layers.Layer):
    def call(self, state):
        return state


@pytest.mark.parametrize(
    ("registry", "fields", "message"),
    [
        ("injections", "recurrence_input_injection=plain", "injection must .* 2 pos"),
        ("position_signals", "pos=plain", "pos must .* 2 pos"),
        ("self_attentions", "self_attention_type=plain", "self_attention must .* attention_mask"),
    ],
)
def test_part_with_other_call_arguments_is_named(monkeypatch, registry, fields, message):
    with pytest.raises(ValueError, match=rf"{message}.*Received: OnlyState\.call\(state\)\.$"):
        _model(monkeypatch, {registry: lambda hp, side: OnlyState()}, fields, _BASIC)


def test_part_of_another_kind_is_named(monkeypatch):
    rule = {"haltings": lambda hp, side: OnlyState()}
    with pytest.raises(ValueError, match=r"halting must be a .*Rule\. Received: OnlyState\.$"):
        _model(monkeypatch, rule, "act_type=plain,recurrence_type=act")
    transition = {"transitions": lambda hp, side: input_injection.InputInjection}
    with pytest.raises(ValueError, match=r"must be a Keras layer\. Received: "):
        _model(monkeypatch, transition, "ffn_layer=plain")
    with pytest.raises(ValueError, match=r"ffn_layer=plain must .* Received: None\.$"):
        _model(monkeypatch, {"transitions": lambda hp, side: None}, "ffn_layer=plain")


def _keras_transition(monkeypatch, layer, hparams_set, fields):
    """Return a model with large weights, whose transition is a layer of Keras."""
    keras.utils.set_random_seed(0)
    model = _model(monkeypatch, {"transitions": layer}, f"ffn_layer=plain,{fields}", hparams_set)
    for weight in model.trainable_variables:
        weight.assign(0.7 * tf.random.stateless_normal(weight.shape, [1, 2]))
    return model


_MIXING = {
    "causal convolution": lambda hp, side: keras.layers.Conv1D(hp.hidden_size, 3, padding="causal"),
    "GRU": lambda hp, side: keras.layers.GRU(hp.hidden_size, return_sequences=True),
    "GRU in a Sequential": lambda hp, side: keras.Sequential(
        [keras.layers.GRU(8, return_sequences=True), keras.layers.Dense(hp.hidden_size)]
    ),
}


@pytest.mark.parametrize("name", _MIXING)
@pytest.mark.parametrize("halted_state", ["transform", "copy"])
def test_search_is_exact_with_keras_layers_that_read_other_positions(
    name, halted_state, monkeypatch, caplog
):
    """With a cache, such a layer would read one position at a time."""
    fields = f"act_halted_state={halted_state},act_halting_bias_init=0.5"
    hparams_set = "adaptive_universal_transformer_tiny"
    model = _keras_transition(monkeypatch, _MIXING[name], hparams_set, fields)
    features = {"inputs": examples.INPUTS}
    found = model.generate(features, decode_length=5)
    assert "in a transition reads other positions" in caplog.text
    ids = found.ids[:, 0]
    logits = model({"inputs": examples.INPUTS, "targets": ids}, training=False)
    np.testing.assert_array_equal(ids[:, 0], tf.argmax(logits[:, 0], axis=-1))
    losses = tf.nn.log_softmax(logits)
    scores = tf.gather(losses, ids, axis=2, batch_dims=2)
    ended = tf.cumsum(tf.cast(ids == 1, tf.int32), axis=1, exclusive=True) > 0
    total = tf.reduce_sum(tf.where(ended, 0.0, scores), axis=1)
    np.testing.assert_allclose(found.scores[:, 0], total, atol=1e-4)


def test_inference_computes_halted_positions_that_a_keras_layer_reads(monkeypatch):
    """In a search and in `predict`, positions that have halted are not skipped."""
    layer, fields = _MIXING["causal convolution"], "act_halted_state=copy,act_halting_bias_init=0.5"
    hparams_set = "adaptive_universal_transformer_tiny"
    model = _keras_transition(monkeypatch, layer, hparams_set, fields)
    features = {"inputs": examples.INPUTS, "targets": examples.TARGETS}
    found = model(features, training=False)
    with tf.GradientTape():  # then the model computes all positions
        expected = model(features, training=False)
    np.testing.assert_allclose(found, expected, atol=1e-5)


class UserRecurrence(keras.layers.Layer):
    """A user's layer that contains a recurrence, and accepts no mask."""

    def __init__(self):
        super().__init__()
        self.inner = keras.layers.GRU(4, return_sequences=True)

    def call(self, x):
        return self.inner(2 * x)


def _functional(*layers):
    """Return a functional model of layers that follow each other."""
    inputs = x = keras.Input((None, 4))
    for layer in layers:
        x = layer(x)
    return keras.Model(inputs, x)


@pytest.mark.parametrize(
    ("layer", "reads_padding"),
    [
        (lambda: keras.layers.Conv1D(4, 3, padding="same"), True),
        (lambda: keras.Sequential([keras.layers.Conv1D(4, 3, padding="same")]), True),
        (lambda: UnbuiltTransition("transition"), False),
        (lambda: keras.layers.Conv1D(4, 1), False),
        (lambda: keras.layers.GlobalAveragePooling1D(keepdims=True), True),
        (lambda: keras.layers.GlobalMaxPooling1D(keepdims=True), True),
        (lambda: keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True)), False),
        (lambda: keras.Sequential([keras.layers.GRU(4, return_sequences=True)]), False),
        (lambda: _functional(keras.layers.GRU(4, return_sequences=True)), False),
        # Keras passes no mask to these recurrences.
        (lambda: _functional(keras.layers.Conv1D(4, 1), keras.layers.GRU(4)), True),
        (lambda: keras.Sequential([UserRecurrence()]), True),
        (lambda: keras.Sequential([keras.layers.GRU(4), keras.layers.Softmax()]), True),
        (lambda: transition.FeedForward(8, 4), False),
        (lambda: sru.SRU(), False),
        (lambda: separable_convolution.SeparableConvFeedForward(8, 4), False),
        (lambda: None, False),
    ],
)
def test_transitions_that_read_padding(layer, reads_padding):
    assert plugged_in.reads_padding(layer()) == reads_padding


def test_sources_of_a_convolution_of_keras_are_not_padded(monkeypatch):
    """Keras' convolution reads padding, so all sources of a batch have the same length."""

    def make(hp, side):
        return keras.layers.Conv1D(
            hp.hidden_size, 3, padding="causal" if side == "decoder" else "same"
        )

    model = _keras_transition(monkeypatch, make, _BASIC, "num_rec_steps=2")
    assert "reads padding" in batch_plan.why_equal_lengths(model)
