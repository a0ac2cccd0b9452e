"""`models.get` creates a model by its name."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import errors, hparams, models, problems, registry
from ut_keras.data.features import FeatureSpec


class _Problem:
    """An object with the members of a `Problem` that a model uses."""

    target_space_id = 7

    def feature_specs(self, data_dir):
        assert data_dir == "some/folder"
        return {"inputs": FeatureSpec(9), "targets": FeatureSpec(3, "class_label")}


def test_names_are_listed():
    assert models.names() == [
        "diagonal_neural_gpu",
        "lstm_seq2seq",
        "lstm_seq2seq_attention",
        "lstm_seq2seq_attention_bidirectional_encoder",
        "lstm_seq2seq_bidirectional_encoder",
        "neural_gpu",
        "transformer",
        "transformer_encoder",
        "universal_transformer",
        "universal_transformer_encoder",
    ]


def test_names_loads_no_tensorflow():
    code = (
        "import sys; from ut_keras import models; models.names(); models.check_name('transformer');"
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_get_lists_nearest_names():
    with pytest.raises(registry.UnknownNameError, match="universal_transformer"):
        models.check_name("universal_transfromer")


def test_get_reads_features_of_problem():
    hp = hparams.get("transformer_tiny", "hidden_size=8,num_heads=2")
    model = models.get("transformer", hp, _Problem(), "some/folder")
    assert model.class_labels
    assert model.target_space_id == 7
    assert model.name == "transformer"
    assert model.source_embedding.vocab_size == 9
    assert model.class_label_head.num_classes == 3


@pytest.mark.parametrize("name", ["transformer", "transformer_encoder"])
def test_get_logs_that_a_decoder_predicts_the_class(name, caplog):
    hp = hparams.get("transformer_tiny", "hidden_size=8,num_heads=2")
    models.get(name, hp, _Problem(), "some/folder")
    messages = [record.getMessage() for record in caplog.records if record.name == "ut_keras"]
    if name == "transformer":
        [message] = messages
        assert "use transformer_encoder" in message
    else:
        assert not messages


@pytest.mark.parametrize("name", ["classify", "translate", "encoders"])
def test_model_names_the_run_for_texts(name):
    hp = hparams.get("transformer_tiny", "hidden_size=8,num_heads=2")
    model = models.get("transformer", hp, vocab_sizes={"inputs": 8, "targets": 8})
    with pytest.raises(
        AttributeError, match=rf"{name} .*ut_keras.load\(path, problem=.*run.{name}"
    ):
        getattr(model, name)
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="'Transformer' object has no attribute 'clasify'"):
        _ = model.clasify


@pytest.mark.parametrize(
    "arguments", [{}, {"problem": _Problem(), "vocab_sizes": {"targets": 3}}], ids=["none", "both"]
)
def test_get_requires_problem_or_vocab_sizes(arguments):
    with pytest.raises(ValueError, match="vocab_sizes .*Received: problem="):
        models.get("transformer", hparams.get("transformer_tiny"), **arguments)


_SIZES = {"inputs": 8, "targets": 8}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda hp: models.get("transformer", hp.to_dict(), vocab_sizes=_SIZES), "a dict"),
        (lambda hp: models.get("transformer", "transformer_tiny", vocab_sizes=_SIZES), "a str"),
        (lambda hp: models.get("transformer", None, vocab_sizes=_SIZES), "a NoneType"),
        (lambda hp: models.get("transformer", hp, "tiny_algo", "data"), "'tiny_algo'"),
        (lambda hp: models.get("transformer", hp, _Problem, "data"), "_Problem"),
        (lambda hp: models.get("transformer", hp, vocab_sizes=[8, 8]), r"\[8, 8\]"),
        (lambda hp: models.get(["transformer"], hp, vocab_sizes=_SIZES), "Unknown model: "),
        (lambda hp: hparams.get(["transformer_tiny"]), "nearest names?: .*transformer_tiny"),
        (lambda hp: hparams.get("transformer_tiny", ["num_heads=2"]), r"\['num_heads=2'\]"),
        (lambda hp: hparams.get("transformer_tiny", None), "None"),
        (lambda hp: problems.get(["tiny_algo"]), "nearest names?: .*tiny_algo"),
        (lambda hp: problems.get(None), "Unknown problem: None"),
    ],
)
def test_get_rejects_other_objects(make, message):
    with pytest.raises(errors.UserError, match=message) as caught:
        make(hparams.get("transformer_tiny"))
    assert "\n" not in str(caught.value)


def test_models_reject_ids_out_of_range():
    hp = hparams.get("transformer_tiny", "hidden_size=8,filter_size=8,num_heads=2")
    model = models.get("transformer", hp, vocab_sizes={"inputs": 8, "targets": 9})
    good, bad = [[2, 3, 1]], [[2, 9, 1]]
    message = r"^inputs must be ids in \[0, 8\). Received: 9\.$"
    for ask in (model.inspect, model.generate, model.score):
        with pytest.raises(ValueError, match=message):
            ask({"inputs": bad, "targets": good})
    with pytest.raises(ValueError, match=r"^targets must be ids in \[0, 9\)"):
        model.score({"inputs": good, "targets": bad})
    with pytest.raises(ValueError, match=r"inputs must be ids in \[0, 8\). Received: 9"):
        model({"inputs": np.array(bad), "targets": np.array(good)})


@pytest.mark.parametrize("name", ["inputs", "targets"])
def test_score_in_a_graph_rejects_ids_above_int32(name):
    """The test uses an id whose lower 32 bits are a valid id."""
    hp = hparams.get("transformer_tiny", "hidden_size=8,filter_size=8,num_heads=2")
    model = models.get("transformer", hp, vocab_sizes={"inputs": 8, "targets": 9})
    features = dict.fromkeys(["inputs", "targets"], tf.constant([[2, 1]], tf.int64))
    score = tf.function(model.score, autograph=False)
    assert np.isfinite(score(features))
    with pytest.raises(tf.errors.InvalidArgumentError, match=str(2**31 - 1)):
        score({**features, name: tf.constant([[2**32 + 5, 1]], tf.int64)})


@pytest.mark.parametrize("kind", ["universal", "encoder", "tagger"])
def test_inspect_rejects_features_that_do_not_fit(kind):
    model, features = examples.shared(kind), examples.features(kind)
    size = model.specs["targets"].vocab_size
    wrong = {
        f"targets must be ids in \\[0, {size}\\). Received: {size}": {
            "targets": np.full_like(features["targets"], size)
        },
        "inputs must .* targets, 3. Received: 1": {"inputs": features["inputs"][:1]},
        "inputs must .* targets, 2. Received: 3": {"targets": features["targets"][:2]},
    }
    for message, changed in wrong.items():
        with pytest.raises(ValueError, match=message):
            model.inspect({**features, **changed})
    with pytest.raises(ValueError, match="features must .*targets.* Received: "):
        model.inspect({"inputs": features["inputs"]})
    with pytest.raises(ValueError, match="training must be True or False. Received: 'x'"):
        model.inspect(features, training="x")
    for value in (True, "x", 0, 1.5):
        with pytest.raises(ValueError, match=f"num_steps must be .*Received: {value!r}"):
            model.inspect(features, num_steps=value)
    with pytest.raises(ValueError, match="num_steps must be .*Received: None"):
        model.with_steps(None)


def test_replaced_layer_is_used_after_earlier_calls():
    """Keras itself would still predict with the old layer, which is in the compiled function."""
    features = examples.features("universal")
    other = examples.make("universal")
    for variable in other.encoder.trainable_variables:
        variable.assign(-variable)

    def results(model):
        searched = model.generate(features, decode_length=3)
        loss = model.evaluate(features, features["targets"], verbose=0, return_dict=True)["loss"]
        predicted = model.predict(features, verbose=0)
        return [predicted, model.score(features), searched.scores, loss]

    model, expected = examples.make("universal"), examples.make("universal")
    model.compile()
    expected.compile(run_eagerly=True)  # only the functions of `model` can be outdated
    expected.encoder = other.encoder
    before = results(model)
    model.encoder = other.encoder
    for old, new, right in zip(before, results(model), results(expected), strict=True):
        np.testing.assert_allclose(new, right, rtol=1e-5, atol=1e-5)
        assert np.abs(np.subtract(old, right)).max() > 1e-3

    model.num_steps = 2
    for new, right in zip(results(model), results(expected.with_steps(2)), strict=True):
        np.testing.assert_allclose(new, right, rtol=1e-5, atol=1e-5)


def test_replaced_layer_is_used_after_an_export():
    """An export traces functions of its own. The outdated function must not return after it."""
    features, other = examples.features("universal"), examples.make("universal")
    for variable in other.encoder.trainable_variables:
        variable.assign(-variable)
    model = examples.make("universal")
    before = model.generate(features, decode_length=3)
    model.encoder = other.encoder
    with model.compiled_functions.without_decoding():  # as in an export
        expected = model.generate(features, decode_length=3)
    found = model.generate(features, decode_length=3)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    assert np.abs(found.scores - before.scores).max() > 1e-3


@pytest.mark.slow
def test_fit_with_callback_that_changes_the_depth():
    """The train function of `fit` contains the old depth, so `fit` warns."""
    model, features = examples.make("universal"), examples.features("universal")
    model.compile("sgd")
    deepen = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: setattr(model, "num_steps", 1 + epoch)
    )
    arguments = {"x": features, "y": features["targets"], "epochs": 2, "verbose": 0}
    with pytest.warns(UserWarning, match="num_steps was changed during fit"):
        model.fit(**arguments, callbacks=[deepen])
    traced = model.train_function
    model.fit(**arguments)
    assert model.train_function is not traced
