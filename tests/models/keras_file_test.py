"""Every model variant can be saved as a `.keras` file and loaded again in Keras' safe mode."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ut_keras
from tests.decoding import cache_test
from tests.inference import export_models
from tests.models import examples
from ut_keras.data.features import FeatureSpec
from ut_keras.errors import DataError
from ut_keras.models import universal_transformer

SYMBOLS = {"inputs": FeatureSpec(9), "targets": FeatureSpec(9)}
CLASSES = {"inputs": FeatureSpec(9), "targets": FeatureSpec(4, "class_label")}
STORY = {
    "inputs": FeatureSpec(9, "sentences", (4, 5)),
    "targets": FeatureSpec(9, "class_label"),
}
PROMPTS = {"targets": FeatureSpec(9)}
# The variants `act_copy_…` differ from other variants only in the states of halted positions. Files
# do not contain these states, so this test skips the variants.
_VARIANTS = [
    name
    for name in (*cache_test.VARIANTS, *cache_test.NOT_CACHED)
    if not name.startswith("act_copy_")
]
_KINDS = {
    "classes": ("basic", CLASSES),
    "prompts": ("act", PROMPTS),
    "encoder_classes": ("encoder", CLASSES),
    "encoder_symbols": ("encoder", SYMBOLS),
    "plain_encoder": ("plain_encoder", CLASSES),
    "story": ("encoder", STORY),
    "lstm": ("lstm_plain", SYMBOLS),
    "lstm_prompts": ("lstm_plain", PROMPTS),
    "lstm_attention": ("lstm_attention", SYMBOLS),
    "neural_gpu": ("neural_gpu", SYMBOLS),
    "diagonal_neural_gpu": ("diagonal_neural_gpu", SYMBOLS),
    "neural_gpu_classes": ("neural_gpu", CLASSES),
}
MODELS = {**{name: (name, SYMBOLS) for name in _VARIANTS}, **_KINDS}
# These variants have the same variables as "act" or "classes". The recurrence of "classes" is
# "basic".
_NO_OTHER_VARIABLES = ("act_copy", "stick_breaking_copy", "basic")


def _features(specs):
    random = np.random.RandomState(0)
    shapes = {name: spec.shape or (5,) for name, spec in specs.items()}
    if specs["targets"].modality == "class_label":
        shapes["targets"] = (1,)
    return {
        name: random.randint(2, specs[name].vocab_size, size=(2, *shape)).astype(np.int32)
        for name, shape in shapes.items()
    }


def _model(name):
    model = export_models.variant_model(*MODELS[name])
    export_models.randomize(model, seed=1)
    return model


@pytest.mark.parametrize(
    "name",
    [
        *cache_test.some_slow([n for n in _VARIANTS if n not in _NO_OTHER_VARIABLES]),
        *(pytest.param(name, marks=pytest.mark.slow) for name in _NO_OTHER_VARIABLES),
        *_KINDS,
    ],
)
def test_save_and_load(name, tmp_path):
    model, features = _model(name), _features(MODELS[name][1])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    assert [v.path for v in loaded.weights] == [v.path for v in model.weights]
    logits = model(features, training=False)
    np.testing.assert_array_equal(loaded(features, training=False), logits)
    assert np.isfinite(logits).all() and np.std(logits) > 0.01


@pytest.mark.parametrize("name", ["mixed", "act", "story", "lstm_attention"])
def test_save_and_load_weights(name, tmp_path):
    """A model can load weights from a checkpoint of TensorFlow and from a file of Keras."""
    model = _model(name)
    loaded = type(model).from_config(model.get_config())
    saved = tf.train.Checkpoint(model=model).save(tmp_path / "checkpoint")
    tf.train.Checkpoint(model=loaded).restore(saved).assert_consumed()
    _assert_same_weights(loaded, model)

    export_models.randomize(loaded, seed=2)
    model.save_weights(tmp_path / "model.weights.h5")
    loaded.load_weights(tmp_path / "model.weights.h5")
    _assert_same_weights(loaded, model)


def test_optimizer_is_kept_after_saving_an_h5_file(tmp_path):
    """Keras removes the optimizer from the arguments of `compile` when it writes the file."""
    model, features = examples.make("universal"), examples.features("universal")
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.5)
    model.compile(keras.optimizers.SGD(schedule, momentum=0.25))
    model(features)
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.h5")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert model.with_steps(2).optimizer is model.optimizer


def test_load_weights_rejects_file_with_more_weights(tmp_path):
    """Keras itself would load the common layers, and ignore the others."""
    deep = examples.make("language_model", "num_hidden_layers=2")
    model = examples.make("language_model", "num_hidden_layers=1")
    deep.compile("sgd")
    deep.optimizer.build(deep.trainable_variables)
    before = model.get_weights()
    deep.save_weights(tmp_path / "deep.weights.json", max_shard_size=1e-5)  # several files
    deep.save_weights(tmp_path / "deep.weights.h5")
    deep.save(tmp_path / "deep.keras")
    for name in ("deep.weights.json", "deep.weights.h5", "deep.keras"):
        with pytest.raises(ValueError, match=rf"{name} must contain.* Received: .*layer_1"):
            model.load_weights(tmp_path / name)
        for old, new in zip(before, model.get_weights(), strict=True):
            np.testing.assert_array_equal(new, old)
    deep.load_weights(tmp_path / name)
    model.load_weights(tmp_path / name, skip_mismatch=True)
    np.testing.assert_array_equal(model.softmax.embedding, deep.softmax.embedding)


def test_load_weights_rejects_file_with_fewer_weights(tmp_path):
    """Keras would load the layers that both have, and raise an error afterwards."""
    small = examples.make("language_model", "num_hidden_layers=1")
    model = examples.make("language_model", "num_hidden_layers=2")
    small.softmax.embedding.assign_add(tf.ones_like(small.softmax.embedding))
    small.save_weights(tmp_path / "small.weights.h5")
    before = model.get_weights()
    with pytest.raises(ValueError, match=r"must contain all weights.* without .*layer_1"):
        model.load_weights(tmp_path / "small.weights.h5")
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(new, old)
    with pytest.warns(UserWarning, match="could not be loaded"):
        model.load_weights(tmp_path / "small.weights.h5", skip_mismatch=True)
    np.testing.assert_array_equal(model.softmax.embedding, small.softmax.embedding)


def test_load_weights_names_weights_of_other_shapes(tmp_path):
    """The error of Keras would be "expected 1 variables, but received 0", without the shapes."""
    small = examples.make("language_model", "filter_size=8")
    model = examples.make("language_model", "filter_size=16")
    small.save_weights(tmp_path / "small.weights.json", max_shard_size=1e-5)  # several files
    small.save_weights(tmp_path / "small.weights.h5")
    small.save(tmp_path / "small.keras")
    before = model.get_weights()
    for name in ("small.weights.json", "small.weights.h5", "small.keras"):
        with pytest.raises(ValueError, match=rf"{name} must .* instead of") as raised:
            model.load_weights(tmp_path / name)
        width = small.hparams.hidden_size
        assert f"({width}, 8) instead of ({width}, 16)" in str(raised.value)
        for old, new in zip(before, model.get_weights(), strict=True):
            np.testing.assert_array_equal(new, old)
    small.load_weights(tmp_path / name)


def _assert_same_weights(one, other):
    for a, b in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=a.path)


@pytest.mark.parametrize(
    "name", ["transformer", "act", "classes", "encoder_classes", "lstm_attention"]
)
def test_summary_lists_layers(name):
    model = export_models.variant_model(*MODELS[name])
    lines = []
    model.summary(print_fn=lines.append)
    text = "".join(lines)
    assert f"{model.count_params():,}" in text
    for layer in model.layers:
        assert layer.name[:20] in text


class UsersClassifier(keras.Model):
    """A user's model with a model of ut_keras inside it."""

    def __init__(self, core, **kwargs):
        super().__init__(**kwargs)
        self.core = core
        self.head = keras.layers.Dense(2)

    def call(self, features, training=None):
        return self.head(self.core(features, training=training))

    def get_config(self):
        return {**super().get_config(), "core": keras.saving.serialize_keras_object(self.core)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "core": keras.saving.deserialize_keras_object(config["core"])})


@pytest.mark.parametrize("name", ["basic", "story"])
def test_users_model_with_a_model_inside_is_loaded(name, tmp_path):
    """Keras builds the user's model with floats. If this fails, the head gets no weights."""
    model, features = UsersClassifier(_model(name)), _features(MODELS[name][1])
    outputs = model(features)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"UsersClassifier": UsersClassifier}
    )
    np.testing.assert_array_equal(loaded(features), outputs)


class WithLateHead(universal_transformer.UniversalTransformer):
    """A model with a layer that Keras builds at the first call."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.head = keras.layers.Dense(3)

    def call(self, features, *args, **kwargs):
        return self.head(super().call(features, *args, **kwargs))


class WithNumpyHead(WithLateHead):
    """A model that cannot be called with symbolic tensors."""

    def call(self, features, *args, **kwargs):
        return self.head(super().call(features, *args, **kwargs).numpy())


def test_layers_that_the_first_call_builds_are_loaded(tmp_path):
    """Keras itself would skip the weights of a `Dense` that is not built."""
    plain, features = _model("basic"), _features(SYMBOLS)
    model = WithLateHead.from_hparams(plain.hparams, plain.specs)
    outputs = model(features)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"WithLateHead": WithLateHead}
    )
    np.testing.assert_array_equal(loaded(features), outputs)
    other = WithLateHead.from_hparams(plain.hparams, plain.specs)
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other(features), outputs)
    with pytest.raises(ValueError, match="WithNumpyHead.__init__ must build the layer dense"):
        WithNumpyHead.from_config(model.get_config())


def test_load_folder_of_save(tmp_path):
    model, features = _model("act"), _features(SYMBOLS)
    model.save(tmp_path / "folder", zipped=False)
    loaded = ut_keras.load(tmp_path / "folder")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded(features), model(features))
    (tmp_path / "folder" / "model.weights.h5").unlink()
    with pytest.raises(DataError, match="keras.models.load_model reads a complete folder"):
        ut_keras.load(tmp_path / "folder")
