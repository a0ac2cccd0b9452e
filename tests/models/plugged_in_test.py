"""Parts of a model that a user writes as plain Keras layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import hparams, models, parts
from ut_keras.decoding import batch_plan
from ut_keras.layers.attention import attention
from ut_keras.layers.basic import plugged_in
from ut_keras.layers.depth import input_injection, transformer_layer
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


class Computed(keras.layers.Layer):
    """A layer without weights that applies a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, x):
        return self.function(x)


class ZeroScale(keras.layers.Layer):
    """A layer whose output is 0 as long as its scale has the initial value 0."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def build(self, x_shape):
        self.inner.build(x_shape)
        self.scale = self.add_weight(shape=(), initializer="zeros", name="scale")

    def call(self, x):
        return self.scale * self.inner(x)


class ComputedInjection(Computed):
    def call(self, state, inputs):
        return state + self.function(inputs)


_MIXING = {
    "causal convolution": lambda hp, side: keras.layers.Conv1D(hp.hidden_size, 3, padding="causal"),
    "GRU": lambda hp, side: keras.layers.GRU(hp.hidden_size, return_sequences=True),
    "GRU in a Sequential": lambda hp, side: keras.Sequential(
        [keras.layers.GRU(8, return_sequences=True), keras.layers.Dense(hp.hidden_size)]
    ),
    "cumulative sum": lambda hp, side: Computed(lambda x: tf.cumsum(x, axis=1)),
    "shift": lambda hp, side: Computed(lambda x: tf.pad(x, [[0, 0], [1, 0], [0, 0]])[:, :-1]),
    "number of the position": lambda hp, side: Computed(
        lambda x: x * tf.range(1.0, 1.0 + tf.cast(tf.shape(x)[1], tf.float32))[:, tf.newaxis]
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
    assert "reads other positions" in caplog.text
    ids = found.ids[:, 0]
    logits = model({"inputs": examples.INPUTS, "targets": ids}, training=False)
    np.testing.assert_array_equal(ids[:, 0], tf.argmax(logits[:, 0], axis=-1))
    losses = tf.nn.log_softmax(logits)
    scores = tf.gather(losses, ids, axis=2, batch_dims=2)
    ended = tf.cumsum(tf.cast(ids == 1, tf.int32), axis=1, exclusive=True) > 0
    total = tf.reduce_sum(tf.where(ended, 0.0, scores), axis=1)
    np.testing.assert_allclose(found.scores[:, 0], total, atol=1e-4)


def test_search_is_exact_with_an_injection_that_reads_other_positions(monkeypatch):
    def make(hp, side):
        return ComputedInjection(lambda x: tf.cumsum(x, axis=1))

    keras.utils.set_random_seed(0)
    fields = "recurrence_input_injection=plain,num_rec_steps=2"
    model = _model(monkeypatch, {"injections": make}, fields, _BASIC)
    for number, weight in enumerate(model.trainable_variables):
        weight.assign(0.7 * tf.random.stateless_normal(weight.shape, [1, number]))
    features = {"inputs": examples.INPUTS}
    found = model.generate(features, decode_length=5)
    expected = model.generate(features, decode_length=5, cache=False)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)


class CountedPosition(keras.layers.Layer):
    """A position signal that counts the positions and ignores the argument `positions`."""

    def call(self, x, positions=None):
        return x + _sines(tf.range(tf.shape(x)[1]))


class NumberedPosition(keras.layers.Layer):
    """A position signal that uses the argument `positions`."""

    def call(self, x, positions=None):
        return x + _sines(tf.range(tf.shape(x)[1]) if positions is None else positions)


def _sines(positions):
    return 3 * tf.sin(tf.cast(positions, tf.float32)[..., tf.newaxis] * tf.range(16.0))


@pytest.mark.parametrize(
    ("signal", "is_cached"), [(CountedPosition, False), (NumberedPosition, True)]
)
def test_search_is_exact_with_a_position_signal(signal, is_cached, monkeypatch, caplog):
    keras.utils.set_random_seed(0)
    made = {"position_signals": lambda hp, side: signal()}
    fields = "pos=plain,add_position_timing_signal=False,num_rec_steps=2"
    model = _model(monkeypatch, made, fields, _BASIC)
    for number, weight in enumerate(model.trainable_variables):
        weight.assign(0.7 * tf.random.stateless_normal(weight.shape, [1, number]))
    features = {"inputs": examples.INPUTS}
    found = model.generate(features, decode_length=5)
    expected = model.generate(features, decode_length=5, cache=False)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
    assert ("reads other positions" in caplog.text) != is_cached


def test_decoder_that_reads_later_positions_is_named(monkeypatch, caplog):
    def make(hp, side):
        return keras.layers.Conv1D(hp.hidden_size, 3, padding="same", name="window")

    _model(monkeypatch, {"transitions": make}, "ffn_layer=plain", _BASIC)
    assert "The transition window of the decoder reads later positions" in caplog.text


def test_decoder_that_reads_earlier_positions_is_not_named(monkeypatch, caplog):
    _model(monkeypatch, {"transitions": _MIXING["GRU"]}, "ffn_layer=plain", _BASIC)
    assert "later positions" not in caplog.text


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


_OWN_POSITION = (False, False, False)
_EARLIER = (True, False, False)
_LATER = (True, True, True)
_LATER_UNMASKED = (True, True, False)  # the layer ignores masked positions
_BY_LENGTH = _FAILS = (True, False, True)


def _reverse(x):
    return x + tf.reverse(x, axis=[1])


@pytest.mark.parametrize(
    ("make", "reads"),
    [
        (lambda: keras.layers.Conv1D(4, 1), _OWN_POSITION),
        (lambda: keras.layers.Conv1D(4, 3, padding="same"), _LATER),
        (lambda: keras.layers.Conv1D(4, 3, padding="causal"), _EARLIER),
        (lambda: keras.layers.Conv1D(4, 2, padding="causal", dilation_rate=20), _EARLIER),
        (lambda: keras.Sequential([keras.layers.Conv1D(4, 3, padding="same")]), _LATER),
        (lambda: keras.layers.SpectralNormalization(keras.layers.Dense(4)), _OWN_POSITION),
        (lambda: keras.layers.BatchNormalization(), _OWN_POSITION),
        (lambda: keras.layers.GaussianNoise(0.5), _OWN_POSITION),
        (lambda: keras.layers.GlobalAveragePooling1D(keepdims=True), _LATER_UNMASKED),
        (lambda: keras.layers.GlobalMaxPooling1D(keepdims=True), _LATER),
        (lambda: keras.layers.LayerNormalization(axis=-1), _OWN_POSITION),
        (lambda: keras.layers.UnitNormalization(axis=1), _LATER),
        (lambda: keras.layers.Softmax(axis=1), _LATER),
        (lambda: keras.layers.GRU(4, return_sequences=True), _EARLIER),
        (lambda: keras.layers.GRU(4, return_sequences=True, go_backwards=True), _LATER),
        (
            lambda: keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True)),
            _LATER_UNMASKED,
        ),
        (lambda: keras.Sequential([keras.layers.GRU(4, return_sequences=True)]), _EARLIER),
        (lambda: _functional(keras.layers.GRU(4, return_sequences=True)), _EARLIER),
        (lambda: keras.Sequential([UserRecurrence()]), _EARLIER),
        (lambda: keras.Sequential([keras.layers.Reshape((8, 4))]), _FAILS),
        (lambda: Computed(lambda x: tf.cumsum(x, axis=1)), _EARLIER),
        (lambda: Computed(_reverse), _LATER),
        (lambda: Computed(lambda x: x / tf.cast(tf.shape(x)[1], x.dtype)), _BY_LENGTH),
        (lambda: ZeroScale(keras.layers.GRU(4, return_sequences=True)), _EARLIER),
        (lambda: transition.FeedForward(8, 4), _OWN_POSITION),
        (lambda: keras.Sequential([transition.FeedForward(8, 4)]), _OWN_POSITION),
        (lambda: sru.SRU(), _OWN_POSITION),  # its method `cache_widths` declares what it reads
        (lambda: separable_convolution.SeparableConvFeedForward(8, 4), _OWN_POSITION),
        (lambda: None, _OWN_POSITION),
    ],
)
def test_positions_that_a_transition_reads(make, reads):
    layer = _layer_with(make())
    before = [weight.numpy() for weight in layer.weights]
    found = layer.transition_reads
    assert found == reads
    for value, weight in zip(before, layer.weights, strict=True):
        np.testing.assert_array_equal(value, weight)


def _layer_with(part):
    """Return a built `TransformerLayer` with a transition."""
    layer = transformer_layer.TransformerLayer(attention.MultiHeadAttention(2, 4), part)
    layer.build([None, None, 4])
    layer.forward(tf.zeros([1, 8, 4]))  # builds parts without `build`
    return layer


def test_sources_of_a_convolution_of_keras_are_not_padded(monkeypatch):
    """Keras' convolution reads padding, so all sources of a batch have the same length."""

    def make(hp, side):
        return keras.layers.Conv1D(
            hp.hidden_size, 3, padding="causal" if side == "decoder" else "same"
        )

    model = _keras_transition(monkeypatch, make, _BASIC, "num_rec_steps=2")
    assert "reads padding" in batch_plan.why_equal_lengths(model)
