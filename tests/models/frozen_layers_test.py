"""For fine-tuning, frozen layers stay frozen in saved files and in copies."""

import keras
import numpy as np
import pytest

from tests.models import examples
from ut_keras import layers
from ut_keras.layers.basic import layer as layer_lib
from ut_keras.optimizers import adam


def _trained(model):
    return [variable.path for variable in model.trainable_variables]


def _small():
    """Return a small model, because the tests trace its training step several times.

    The model is a classifier with an encoder of one layer.
    """
    return examples.make("plain_encoder", "num_hidden_layers=1")


@pytest.mark.parametrize("kind", ["adaptive", "lstm"])
def test_frozen_parts_stay_frozen(kind, tmp_path):
    """Frozen parts stay frozen in a loaded model and in a clone.

    The optimizer of the loaded model continues from its saved state.
    """
    model = examples.make(kind)
    everything = _trained(model)
    model.encoder.trainable = False
    model.compile(adam.Adam(0.01), run_eagerly=True)
    features = examples.features(kind)
    model.train_on_batch(features, features["targets"])
    assert 0 < len(_trained(model)) < len(everything)

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert _trained(loaded) == _trained(keras.models.clone_model(model)) == _trained(model)
    assert not loaded.encoder.trainable and loaded.decoder.trainable
    assert int(loaded.optimizer.iterations) == 1
    for a, b in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(a, b)


def test_frozen_weight_stays_frozen(tmp_path):
    """Keras itself does not save `trainable` of a single weight."""
    model = examples.make("plain_encoder")
    everything = _trained(model)
    model.encoder.weights[1].trainable = False
    model.compile(adam.Adam(0.01), run_eagerly=True)
    features = examples.features("plain_encoder")
    model.train_on_batch(features, features["targets"])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert len(_trained(model)) == len(everything) - 1
    assert _trained(loaded) == _trained(keras.models.clone_model(model)) == _trained(model)
    assert int(loaded.optimizer.iterations) == 1
    loaded.encoder.trainable = True
    assert _trained(loaded) == everything


def test_part_of_a_frozen_part_is_trained():
    """A clone trains the same part as the model. The clone of a frozen model is frozen."""
    model = examples.make("adaptive")
    model.encoder.trainable = False
    model.encoder.depth.block.trainable = True
    copy = keras.models.clone_model(model)
    assert _trained(copy) == _trained(model)
    assert any("encoder" in path for path in _trained(copy))
    model.trainable = False
    assert not keras.models.clone_model(model).trainable_variables


@pytest.mark.parametrize("make", [_small, lambda: _small().encoder], ids=["model", "layer"])
@pytest.mark.parametrize("value", [True, False])
def test_trainable_reaches_parts_that_have_the_other_value(make, value):
    """Keras itself does nothing if `trainable` of the whole already has the value."""
    whole = make()
    whole.trainable = value
    part = next(layer for layer in whole._flatten_layers() if str(layer.path).endswith("/v"))
    part.trainable = not value
    part.weights[0].trainable = not value
    assert {weight.trainable for weight in whole.weights} == {True, False}
    whole.trainable = value
    assert {weight.trainable for weight in whole.weights} == {value}


class _Counter(keras.layers.Layer):
    """Is always frozen, and counts the assignments to `trainable`."""

    assignments = 0

    @property
    def trainable(self):
        return False

    @trainable.setter
    def trainable(self, value):
        self.assignments += 1


class _Nested(layer_lib.Layer):
    def __init__(self, levels):
        super().__init__()
        self.levels = levels
        self.inner = _Nested(levels - 1) if levels else _Counter()


def test_trainable_visits_each_part_once():
    """Otherwise the time would double with each level of layers."""
    whole = _Nested(levels=8)
    counter = whole._flatten_layers()[-1]
    before = counter.assignments
    whole.trainable = True
    assert counter.assignments == before + 1
    assert all(layer.trainable for layer in whole._flatten_layers() if layer is not counter)


@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
def test_training_uses_trainable_set_after_an_earlier_call(method):
    """A layer can be frozen or unfrozen between two calls, without `compile`.

    Keras itself ignores the change, because the train function contains the old updates.
    """
    model, features = _small(), examples.features("plain_encoder")
    model.compile(adam.Adam(0.01))

    def is_changed():
        before = [weight.numpy() for weight in model.encoder.weights]
        if method == "fit":
            model.fit(features, features["targets"], verbose=0)
        else:
            model.train_on_batch(features, features["targets"])
        after = [weight.numpy() for weight in model.encoder.weights]
        return any((a != b).any() for a, b in zip(before, after, strict=True))

    assert is_changed()
    model.encoder.trainable = False
    assert not is_changed()
    model.encoder.trainable = True
    assert is_changed()


def test_fit_rejects_a_layer_that_the_optimizer_does_not_know():
    """The optimizer has no moments for a layer that was frozen when the optimizer was built."""
    model, features = _small(), examples.features("plain_encoder")
    model.encoder.trainable = False
    model.compile(adam.Adam(0.01))
    model.fit(features, features["targets"], verbose=0)
    model.encoder.trainable = True
    with pytest.raises(ValueError, match="encoder.*only be called for the variables"):
        model.fit(features, features["targets"], verbose=0)
    model.compile(adam.Adam(0.01))
    model.fit(features, features["targets"], verbose=0)


def test_layer_made_with_trainable_false(tmp_path):
    model = keras.Sequential([layers.FeedForward(8, 4, trainable=False), keras.layers.Dense(1)])
    model.build((None, None, 4))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded, keras.models.clone_model(model)):
        assert len(_trained(each)) == 2  # the last layer has two weights
        each.layers[0].trainable = True
        assert len(_trained(each)) == 6
