"""All methods that get ids read the same objects, and raise the same errors."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples


class _DataFrame:
    """Returns objects, as a `pandas.DataFrame` of the dtype "Int64" does."""

    __module__ = "pandas"

    def __init__(self, ids):
        self.ids, self.shape = ids, ids.shape

    def to_numpy(self):
        return self.ids.astype(object)


class _Column:
    """NumPy reads an array of arrays, as for a column of lists of PyArrow."""

    def __init__(self, ids):
        self.ids = ids

    def __array__(self, dtype=None, copy=None):
        found = np.empty(len(self.ids), object)
        found[:] = list(self.ids)
        return found


METHODS = {
    "call": lambda model, features: model(features),
    "forward": lambda model, features: model.forward(features).logits,
    "inspect": lambda model, features: model.inspect(features).logits,
    "predict_on_batch": lambda model, features: model.predict_on_batch(features),
    "score": lambda model, features: model.score(features),
    "generate": lambda model, features: (
        model.generate(
            {"inputs": features["inputs"]}, decode_length=1, forced_prefix=features["inputs"]
        ).ids
    ),
}
CONVERSIONS = {
    "pandas": _DataFrame,
    "column": _Column,
    "objects": lambda ids: ids.astype(object),
    "lists": lambda ids: ids.tolist(),
    "list of arrays": list,
    "uint8": lambda ids: ids.astype("uint8"),
    "masked padding": lambda ids: np.ma.masked_equal(ids, 0),
}


def _with(conversion):
    return {name: conversion(ids) for name, ids in examples.features("adaptive").items()}


@pytest.fixture(scope="module")
def model():
    return examples.shared("adaptive")


@pytest.mark.parametrize("method", METHODS)
def test_methods_read_the_same_objects(method, model):
    expected = METHODS[method](model, examples.features("adaptive"))
    for name, conversion in CONVERSIONS.items():
        found = METHODS[method](model, _with(conversion))
        np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("conversion", "message"),
    [
        (lambda ids: np.where(ids == 5, 2**32 + 5, ids.astype("int64")), "Received: 4294967301"),
        (
            lambda ids: np.where(ids == 5, 2**32 + 5, ids.astype("int64")).tolist(),
            "Received: 4294967301",
        ),
        (lambda ids: -ids, "Received: -9"),
        (lambda ids: ids + 0.7, "Received: float64"),
        (lambda ids: ids.astype(float).tolist(), "Received: float32"),
        (lambda ids: np.where(ids == 5, None, ids), r"NoneType and int\. .*fillna\(0\)"),
        (lambda ids: np.where(ids == 5, np.nan, ids), r"\(NaN\)\. .*fillna\(0\)"),
        (lambda ids: np.ma.masked_equal(ids, 5), r"masked array with 1 of them"),
        (lambda ids: [ids[0], ids[1, :2], ids[2]], "must be sequences of the same length"),
    ],
)
def test_methods_raise_the_same_errors(method, conversion, message, model):
    """The first call of `predict_on_batch` makes more checks than the later calls."""
    for _ in range(2):
        with pytest.raises(ValueError, match=message) as caught:
            METHODS[method](model, _with(conversion))
        assert "\n" not in str(caught.value)


def test_batches_of_lists_must_have_the_same_size(model):
    features = {"inputs": [[3, 1]], "targets": [[3, 1], [4, 1]]}
    for method in ("call", "forward", "inspect", "predict_on_batch", "score"):
        with pytest.raises(ValueError, match=r"inputs must have .*Received: "):
            METHODS[method](model, features)


@pytest.mark.parametrize(
    ("conversion", "remedy"),
    [
        (lambda ids: ids.tolist(), r"np\.array\(x\['inputs'\]\)"),
        (lambda ids: [[3, 1], [4]], r"keras\.utils\.pad_sequences\(x\['inputs'\], padding='post'"),
        (lambda ids: [tf.constant([3, 1])], r"np\.array\(x\['inputs'\]\)"),
    ],
)
def test_lists_in_predict_raise_an_error(conversion, remedy, model):
    """Lists of ids can be long. Keras would treat each id as an input."""
    features = {**examples.features("adaptive"), "inputs": conversion(examples.INPUTS)}
    with pytest.raises(ValueError, match=rf"^x\['inputs'\] must be an array, such as {remedy}"):
        model.predict(features, verbose=0)


def test_batches_of_training_may_be_lists():
    """`train_on_batch` and `test_on_batch` have one small batch."""
    features = _with(lambda ids: ids.tolist())
    model = examples.make("adaptive")
    loss = model.test_on_batch(features, examples.TARGETS, return_dict=True)["loss"]
    assert (
        loss
        == model.evaluate(
            examples.features("adaptive"), examples.TARGETS, return_dict=True, verbose=0
        )["loss"]
    )
    model.train_on_batch(features, examples.TARGETS)
    with pytest.raises(ValueError, match="Received: float32"):
        model.train_on_batch(_with(lambda ids: ids.astype(float).tolist()), examples.TARGETS)


def _reading(convert):
    """Return a model whose class overrides `call`, and converts the feature `inputs` to ids."""
    model = examples.make("universal")

    class Reading(type(model)):
        def call(self, features, training=None, num_steps=None):
            ids = convert(features["inputs"])
            return super().call({**features, "inputs": ids}, training, num_steps)

    model.__class__ = Reading
    return model


@pytest.mark.parametrize(
    ("convert", "inputs"),
    [
        (lambda shares: tf.cast(tf.round(shares * 13), tf.int32), examples.INPUTS / np.float32(13)),
        (lambda shifted: shifted - 100, examples.INPUTS + 100),
        (lambda texts: tf.strings.to_number(texts, tf.int32), examples.INPUTS.astype(str)),
    ],
)
def test_own_call_reads_other_features(convert, inputs):
    """A `call` of the user's class may convert floats, other numbers or texts to ids."""
    features = examples.features("universal")
    expected = examples.make("universal")(features)
    model = _reading(convert)
    features["inputs"] = inputs
    np.testing.assert_allclose(model(features), expected, atol=1e-6)
    np.testing.assert_allclose(
        model({**features, "inputs": inputs.tolist()}), expected, atol=1e-6, err_msg="lists"
    )
    if inputs.dtype.kind == "f":
        np.testing.assert_allclose(model.predict_on_batch(features), expected, atol=1e-6)
        model.train_on_batch(features, examples.TARGETS)
        model.test_on_batch(features, examples.TARGETS)
    with pytest.raises(ValueError, match="inputs must have the batch size of targets"):
        model({**features, "inputs": inputs[:1]})


def test_unread_features_may_be_tuples():
    """A `tf.data.Dataset` may yield nested features. The model does not read them."""
    model = examples.shared("universal")
    features = {**examples.features("universal"), "pairs": (np.arange(3), np.arange(3))}
    dataset = tf.data.Dataset.from_tensors((features, examples.TARGETS))
    expected = model.evaluate(examples.features("universal"), examples.TARGETS, verbose=0)
    assert model.evaluate(dataset, verbose=0) == pytest.approx(expected)
    assert model.evaluate(features, examples.TARGETS, verbose=0) == pytest.approx(expected)
    model.predict(dataset, verbose=0)
    model.predict_on_batch(features)


def test_empty_array_of_objects_keeps_its_shape(model):
    features = {name: ids[:0] for name, ids in examples.features("adaptive").items()}
    expected = model(features).shape
    assert model({name: ids.astype(object) for name, ids in features.items()}).shape == expected
