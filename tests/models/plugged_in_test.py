"""Parts of a model that a user writes as plain Keras layers."""

import keras
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import hparams, models, parts
from ut_keras.layers.basic import plugged_in
from ut_keras.layers.depth import input_injection
from ut_keras.layers.halting import halting


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
