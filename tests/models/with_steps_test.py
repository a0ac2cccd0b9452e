"""`with_steps` changes the number of steps of a trained model, without new weights."""

import copy

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import hparam_schema, hparams, models
from ut_keras.metrics import losses
from ut_keras.models import universal_transformer

_FREE = "step_timing_signal_type=sinusoid"
_LEARNED = "step_timing_signal_type=learned"
# `VARIANTS` maps a name to (kind of example, overrides without the number of steps).
VARIANTS = {
    "basic": ("universal", _FREE),
    "gru": ("universal", "recurrence_type=gru,add_step_timing_signal=False"),
    "dwa": ("universal", f"{_FREE},recurrence_type=dwa,depth_embedding=False"),
    "mixed_sru": ("universal", f"{_FREE},mix_with_transformer=after_ut,add_sru=True"),
    "act": ("adaptive", f"{_FREE},act_halting_bias_init=-3"),
    "act_copy": ("adaptive", f"{_FREE},act_halting_bias_init=-3,act_halted_state=copy"),
    "ponder_net": ("adaptive", f"{_FREE},act_halting_bias_init=-3,act_type=ponder_net"),
    "q_halt": ("encoder", f"{_FREE},act_halting_bias_init=-9,act_type=q_halt"),
    "encoder": ("encoder", f"{_FREE},act_halting_bias_init=-3"),
}


def _make(kind, overrides, num_steps):
    field = "num_rec_steps" if kind == "universal" else "act_max_steps"
    return examples.make(kind, f"{overrides},{field}={num_steps}")


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_with_steps_matches_model_made_with_them(variant):
    kind, overrides = VARIANTS[variant]
    model, features = _make(kind, overrides, 3), examples.features(kind)
    as_ever = model.forward(features).logits
    for num_steps in (1, 5):
        wanted = _make(kind, overrides, num_steps)
        wanted.set_weights(model.get_weights())
        got = model.with_steps(num_steps)
        assert type(got) is type(model) and got.num_steps == num_steps
        found = got.inspect(features)
        np.testing.assert_allclose(found.logits, wanted.inspect(features).logits, atol=1e-6)
        if num_steps == 1:
            assert np.abs(found.logits - as_ever).max() > 1e-3
        elif found.encoder.ponder_times is not None:
            assert np.max(found.encoder.ponder_times) > 3
    if variant in ("basic", "act_copy"):
        one = model.generate(features, num_steps=5, decode_length=1)
        other = wanted.generate(features, decode_length=1)
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4)
    np.testing.assert_array_equal(model(features, num_steps=5), got(features))
    np.testing.assert_array_equal(model.forward(features).logits, as_ever)


def test_with_steps_shares_weights():
    model, features = _make("universal", _FREE, 2), examples.features("universal")
    deep = model.with_steps(4)
    before = deep(features)
    for variable in model.trainable_variables:
        variable.assign(0.5 * variable)
    assert np.abs(deep(features) - before).max() > 1e-3
    np.testing.assert_array_equal(deep.with_steps(2)(features), model(features))


def test_with_steps_is_saved(tmp_path):
    """A view with 2 of 3 steps can be saved in all formats of Keras.

    The weights of the view include the learned step signals for all 3 steps.
    """
    model, features = _make("encoder", _LEARNED, 3), examples.features("encoder")
    untouched = _make("encoder", _LEARNED, 3)
    view = model.with_steps(2)
    want = view(features)
    assert np.abs(want - model(features)).max() > 1e-4
    view.save(tmp_path / "view.keras")
    loaded = keras.models.load_model(tmp_path / "view.keras")
    same_weights_anew = keras.models.clone_model(view)
    same_weights_anew.set_weights(view.get_weights())
    for other in (loaded, same_weights_anew, copy.deepcopy(view)):
        assert other.num_steps == 2
        np.testing.assert_array_equal(other(features), want)
        np.testing.assert_array_equal(other.with_steps(3)(features), model(features))
    # Both models write the same file of weights.
    names = []
    for number, saved in enumerate((untouched, model, view)):
        file = tmp_path / f"{number}.weights.h5"
        saved.save_weights(file)
        with h5py.File(file) as groups:
            names.append([])
            groups.visit(names[-1].append)
        assert names[-1] == names[0]
    examples.make("encoder").load_weights(file)
    loaded.load_weights(file)


def test_with_steps_is_compiled_like_the_model():
    model, features = _make("encoder", _LEARNED, 2), examples.features("encoder")
    view = model.with_steps(1)
    assert not view.compiled
    assert np.isfinite(view.evaluate(features, features["targets"], verbose=0)).all()
    assert view.compiled and not model.compiled  # like fit, evaluate compiles its model
    for optimizer, loss in (("sgd", None), ("adam", "sparse_categorical_crossentropy")):
        model.compile(optimizer, loss, run_eagerly=True)
        view = model.with_steps(1)
        assert view.optimizer is model.optimizer and view.loss is model.loss
    loss = view.evaluate(features, features["targets"], verbose=0)[0]
    logits = view(features)
    wanted = keras.losses.sparse_categorical_crossentropy(features["targets"][:, 0], logits)
    ponder = tf.add_n(view.losses)
    np.testing.assert_allclose(loss, np.mean(wanted) + ponder, rtol=1e-4)


def test_sampled_steps_only_in_training():
    """A model samples its number of steps in training, and uses all steps at inference."""
    model = _make("universal", f"{_FREE},num_rec_steps_sampling=uniform", 2)
    plain = _make("universal", _FREE, 2)
    features = examples.features("universal")
    for to, source in zip(plain.trainable_variables, model.trainable_variables, strict=True):
        to.assign(source)
    np.testing.assert_array_equal(model(features), plain(features))
    model.compile(optimizer="sgd", run_eagerly=True)
    for _ in range(3):
        logs = model.train_on_batch(features, features["targets"], return_dict=True)
        assert np.isfinite(logs["loss"])
    deep = model.inspect(features, training=True).encoder.attention_weights.shape[0]
    assert 1 <= deep <= 2


@pytest.mark.parametrize(
    "kind", [pytest.param("universal", marks=pytest.mark.slow), "encoder", "tagger"]
)
def test_losses_of_several_steps_match_shorter_models(kind):
    """The loss and the gradients equal the means over two models with 2 and 3 steps."""
    settings = f"{_FREE},layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
    settings += ",recurrence_type=basic,num_rec_steps=3,label_smoothing=0.1"
    model = examples.make(kind, f"{settings},recurrence_supervised_every=2")
    plain = examples.make(kind, settings)
    features = examples.features(kind)
    targets, weights = features["targets"], np.float32([2, 0, 0.5])

    def loss_of(model, num_steps=None):
        with tf.GradientTape() as tape:
            output = model.forward(features, training=True, num_steps=num_steps)
            loss = losses.total(model.loss_terms(output, targets, True, weights))
        gradients = tape.gradient(loss, model.trainable_variables)
        return [loss, *map(tf.convert_to_tensor, gradients)]

    side = "decoder" if kind == "universal" else "encoder"
    if side == "decoder":  # only the decoder has losses of steps
        encode = plain.encoder.forward
        plain.encoder.forward = lambda x, inputs: encode(x, inputs._replace(num_steps=None))
    wanted = [loss_of(plain, num_steps) for num_steps in (2, 3)]
    for got, *want in zip(tf.function(loss_of, autograph=False)(model), *wanted, strict=True):
        np.testing.assert_allclose(got, np.mean(want, axis=0), rtol=1e-3, atol=1e-5)
    assert abs(wanted[0][0] - wanted[1][0]) > 1e-3
    # At inference, the model keeps no outputs of single steps, because only the prediction has a
    # loss. In training, `fit` computes the same loss as the trainer.
    assert getattr(model.forward(features), side).steps is None
    np.testing.assert_array_equal(model(features), plain(features))
    output = model.forward(features, training=True)
    # An encoder with a decoder has no losses after single steps.
    assert side == "encoder" or output.encoder.steps is None
    wanted = losses.total(model.loss_terms(output, targets, True))
    model.compile(run_eagerly=True)
    got = model.train_on_batch(features, targets, return_dict=True)["loss"]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_losses_of_sampled_steps():
    """Steps that the model does not take have weight 0.

    The model always runs the layers before the recurrence.
    """
    settings = "recurrence_supervised_every=2,num_rec_steps=5,num_rec_steps_sampling=uniform"
    settings += ",recurrence_type=basic,mix_with_transformer=before_ut"
    model = examples.make("adaptive_language_model", f"{_FREE},{settings}")
    features = examples.features("adaptive_language_model")
    seen = set()
    for _ in range(8):
        output = model.forward(features, training=True, record_attention=True)
        states, weights, _ = output.decoder.steps
        taken = -(-(output.decoder.attention_weights.shape[0] - 2) // 2)
        assert weights.shape[0] == 3
        np.testing.assert_allclose(weights[:taken], np.full_like(weights[:taken], 1 / taken))
        assert not np.any(weights[taken:]) and np.all(np.isfinite(states))
        np.testing.assert_allclose(states[taken - 1], output.decoder.output, rtol=1e-4, atol=1e-6)
        seen.add(taken)
    assert len(seen) > 1


@pytest.mark.parametrize(
    "more",
    [
        "recurrence_type=act",
        "recurrence_type=gru,add_step_timing_signal=False",
    ],
)
def test_losses_of_several_steps_rejects_hparams(more):
    message = "recurrence_supervised_every .*Received: recurrence_type="
    with pytest.raises(hparam_schema.HParamError, match=message):
        examples.make("universal", f"recurrence_supervised_every=2,{more}")


def test_with_steps_rejects_models_and_values():
    sizes = {"inputs": 9, "targets": 9}
    for name, hp in (("transformer", "transformer_tiny"), ("lstm_seq2seq", "lstm_seq2seq")):
        model = models.get(name, hparams.get(hp, "hidden_size=8,num_heads=2"), vocab_sizes=sizes)
        with pytest.raises(ValueError, match="^num_steps .*num_steps=4"):
            model.with_steps(4)
    learned = examples.shared("universal")
    assert learned.with_steps(2) is not learned
    with pytest.raises(ValueError, match="num_steps must .* 3, .*Received: 4"):
        learned.generate(examples.features("universal"), num_steps=4)
    with pytest.raises(ValueError, match="num_steps must be 3: .*depth_embedding.*Received: 2"):
        examples.make("universal", f"{_FREE},recurrence_type=dwa").with_steps(2)
    with pytest.raises(ValueError, match="num_steps must be .*Received: '4'"):
        learned.with_steps("4")
    with pytest.raises(ValueError, match="num_steps must be at least 1. Received: 0"):
        learned.generate(examples.features("universal"), num_steps=0)
    for method in (learned, learned.forward, learned.inspect, learned.score):
        with pytest.raises(ValueError, match="num_steps must be at least 1. Received: 0"):
            method(examples.features("universal"), num_steps=0)


class WithScale(universal_transformer.UniversalTransformer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scale = keras.layers.Dense(8, name="own_scale")
        self.scale.build([None, None, 8])


def test_with_steps_rejects_a_subclass_that_would_make_new_weights():
    plain = _make("universal", _FREE, 2)
    model = WithScale.from_hparams(plain.hparams, plain.specs)
    with pytest.raises(ValueError, match=r"Received: WithScale, .*own_scale/kernel\.$"):
        model.with_steps(3)


class WithLateScale(universal_transformer.UniversalTransformer):
    """A model with a layer that Keras builds at its first call."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scale = keras.layers.Dense(32, name="late_scale")

    def call(self, features, *args, **kwargs):
        return self.scale(super().call(features, *args, **kwargs))


class WithListOfScales(universal_transformer.UniversalTransformer):
    """The same model with its layer in a list."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scales = [keras.layers.Dense(32, name="late_scale")]

    def call(self, features, *args, **kwargs):
        return self.scales[0](super().call(features, *args, **kwargs))


@pytest.mark.parametrize("make", [WithLateScale, WithListOfScales])
def test_with_steps_rejects_a_subclass_whose_layers_are_built_at_the_first_call(make):
    plain = _make("universal", _FREE, 2)
    model = make.from_hparams(plain.hparams, plain.specs)
    with pytest.raises(ValueError, match=rf"Received: {make.__name__}, .*late_scale, which is not"):
        model.with_steps(3)
    model(examples.features("universal"))
    with pytest.raises(ValueError, match=rf"Received: {make.__name__}, .*late_scale(/kernel|, )"):
        model.with_steps(3)


class Double(keras.layers.Layer):
    def call(self, x):
        return 2 * x


class WithoutOwnWeights(universal_transformer.UniversalTransformer):
    """A model with layers that have no weights. Keras builds `Double` at its first call."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.dropout, self.double = keras.layers.Dropout(0.1), Double()


def test_with_steps_accepts_a_subclass_with_layers_without_weights():
    plain = _make("universal", _FREE, 2)
    model = WithoutOwnWeights.from_hparams(plain.hparams, plain.specs)
    assert not model.double.built
    steps = model.with_steps(3)
    assert {id(weight) for weight in steps.weights} == {id(weight) for weight in model.weights}
    for _ in range(2):  # Keras continues to track the first of these layers
        model.probe = keras.layers.Dense(3)
        model.probe.build([None, 4])
    assert model.with_steps(3).probe is model.probe


class WithFactor(universal_transformer.UniversalTransformer):
    def __init__(self, *args, factor=1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.factor = factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


def test_arguments_of_a_subclass_are_kept():
    plain = _make("universal", _FREE, 2)
    model = WithFactor.from_hparams(plain.hparams, plain.specs, factor=3.0)
    assert model.with_steps(3).factor == 3.0
    assert WithFactor.from_config(model.get_config()).factor == 3.0
    with pytest.raises(ValueError, match="other"):
        WithFactor.from_config({**model.get_config(), "other": 1})
