import collections
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras import hparams, models
from ut_keras.data.features import FeatureSpec
from ut_keras.models import array_checks

SPECS = models.get(
    "universal_transformer",
    hparams.get("universal_transformer_tiny"),
    vocab_sizes={"inputs": 9, "targets": 9},
).specs
SEQUENCES = [[3, 4, 1], [5, 1], [6, 7, 8, 1]]


@pytest.mark.parametrize(("padding", "lines"), [("pre", 1), ("post", 0)])
def test_padding_on_the_left_is_logged(padding, lines, caplog):
    """Keras' `pad_sequences` pads on the left by default."""
    ids = keras.utils.pad_sequences(SEQUENCES, padding=padding)
    x, y, _ = array_checks.first_batch({"inputs": keras.ops.convert_to_tensor(ids)}, ids)
    array_checks.check(SPECS, x, y)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == lines
    assert all("inputs" in message and "padding='post'" in message for message in messages)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([[0, 0, 3], [4, 5, 6]], True),
        ([[0, 0, 3], [4, 5, 0]], False),  # a sequence that begins with the id 0
        ([[0, 0, 0], [4, 5, 6]], False),
        ([[0, 0, 0]], False),
        (np.zeros([0, 3]), False),
        (np.zeros([2, 0]), False),
        ([0, 1], False),
    ],
)
def test_is_padded_on_left(ids, expected):
    assert array_checks.is_padded_on_left(np.array(ids)) == expected


@pytest.mark.parametrize(
    ("x", "y", "lines"),
    [
        ([[3, 4, 1]], [[3, 4, 1]], 0),
        ([[3, 4, 1]], [[0, 4, 1]], 0),  # no loss at the first position
        ([[3, 4]], [[4, 1]], 1),  # shifted by the user, as in Keras' tutorials
    ],
)
def test_shifted_targets_are_logged(x, y, lines, caplog):
    """The model shifts the decoder input itself, so a user's shift would be the second one."""
    array_checks.check(SPECS, {"inputs": np.array([[5, 6]]), "targets": np.array(x)}, np.array(y))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == lines
    assert all("targets" in message and "shifts" in message for message in messages)
    caplog.clear()
    array_checks.check(SPECS, {"targets": np.array(x)}, np.array(y), reads_targets=False)
    assert not caplog.records


@pytest.mark.parametrize(("names", "lines"), [(("inputs", "targets"), 1), (("targets",), 0)])
def test_inputs_of_a_language_model_are_logged(names, lines, caplog):
    ids = np.array([[5, 6]])
    array_checks.check({"targets": SPECS["targets"]}, dict.fromkeys(names, ids), ids)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == lines
    assert all("language model" in message for message in messages)


@pytest.mark.parametrize(
    ("targets", "names", "lines"),
    [
        ([[3, 4, 0]], ("inputs", "targets"), 1),
        ([[3, 4, 1], [3, 4, 5]], ("inputs", "targets"), 0),  # a text that was cut
        ([[3, 4, 0]], ("targets",), 0),
    ],
)
def test_targets_without_end_are_logged_by_fit(targets, names, lines, caplog):
    """The model has one step and runs eagerly, because tracing is slow."""
    size = "hidden_size=4,num_heads=1,filter_size=4,num_rec_steps=1"
    hp = hparams.get("universal_transformer_tiny", size)
    model = models.get("universal_transformer", hp, vocab_sizes=dict.fromkeys(names, 9))
    model.compile("sgd", run_eagerly=True)
    ids = np.array(targets)
    for method in (model.evaluate, model.fit):
        method(dict.fromkeys(names, ids), ids, verbose=0)
        found = [m for m in caplog.messages if "EOS, the id 1" in m]
        assert len(found) == (lines if method == model.fit else 0)


class _OneBatch(keras.utils.PyDataset):
    def __init__(self, *batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.batch


def test_first_batch_of_py_dataset_is_checked(caplog):
    hp = hparams.get("universal_transformer_tiny", "hidden_size=4,num_heads=1,filter_size=4")
    model = models.get("universal_transformer", hp, vocab_sizes=dict.fromkeys(SPECS, 9))
    model.compile("sgd")
    padded_on_left, shifted = np.array([[0, 3, 4], [5, 6, 7]]), np.array([[6, 7, 0]])
    features = {"inputs": padded_on_left, "targets": np.array([[5, 6, 7], [5, 6, 7]])}
    model.fit(_OneBatch(features, np.repeat(shifted, 2, axis=0)), verbose=0)
    for words in ("padding='post'", "do not shift", "EOS, the id 1"):
        assert sum(words in message for message in caplog.messages) == 1
    caplog.clear()
    unknown = np.full((2, 3), -1)
    assert model.predict(_OneBatch(features, unknown), verbose=0).shape == (2, 3, 9)
    assert not any("do not shift" in message for message in caplog.messages)
    features["inputs"] = features["inputs"] + 3
    for method in (model.fit, model.evaluate, model.predict):
        with pytest.raises(ValueError, match=r"inputs must be ids in \[0, 9\)\. Received: 10"):
            method(_OneBatch(features, features["targets"]), verbose=0)


def test_list_of_targets_names_the_array():
    hp = hparams.get("universal_transformer_tiny", "hidden_size=4,num_heads=1,filter_size=4")
    model = models.get("universal_transformer", hp, vocab_sizes={"targets": 9})
    model.compile("sgd")
    ids = np.array([[3, 1], [4, 1]])
    with pytest.raises(
        ValueError, match=r"y must be an array, such as np.array\(y\).*: a list with 4"
    ):
        model.fit({"targets": ids}, ids.tolist(), verbose=0)


def test_targets_of_different_lengths_name_the_function_that_pads():
    with pytest.raises(ValueError, match=r"keras.utils.pad_sequences\(y, padding='post'\)"):
        array_checks.single("y", [[3, 1], [4, 5, 1]])


@pytest.mark.parametrize("data", [[("a", "b")], [["a"]], np.array([["a", "b"]])])
def test_pairs_of_texts_name_the_functions_that_take_texts(data):
    with pytest.raises(ValueError, match=r"the text 'a'.*run\.dataset\(pairs\)"):
        array_checks.check_kind("x", data)


def test_class_labels_that_are_texts_name_the_function_that_numbers_them():
    with pytest.raises(ValueError, match=r"the text 'good'.*np\.unique\(y, return_inverse=True\)"):
        array_checks.check_kind("y", np.array(["good", "bad"]), are_labels=True)


def test_negative_ids_name_the_padding_unless_they_are_classes():
    ids = np.array([[3, -100]])
    with pytest.raises(ValueError, match=r"Received: -100\. Replace negative ids by 0"):
        array_checks.check(SPECS, {}, ids)
    specs = {**SPECS, "targets": FeatureSpec(9, "class_label")}
    with pytest.raises(ValueError, match=r"Received: -100\.$"):
        array_checks.check(specs, {}, ids)


def test_ids_out_of_range_raise():
    ids = np.array([[3, 9]])
    for x, y in (({"inputs": ids}, None), ({}, ids)):
        with pytest.raises(ValueError, match=r"must be ids in \[0, 9\)\. Received: 9\.$"):
            array_checks.check(SPECS, x, y)
    array_checks.check(SPECS, {"other": ids})


class _PandasObject:
    """Has the two properties of a pandas object that the checks read."""

    __module__ = "pandas"

    def __init__(self, values):
        self.values = np.array(values)

    def to_numpy(self):
        return self.values


def test_methods_read_pandas_objects():
    ids, weights = np.array([[3, 4, 1], [5, 1, 0]]), np.array([1.0, 3.0])
    hp = hparams.get("universal_transformer_tiny", "hidden_size=4,num_heads=1,filter_size=4")
    found = []
    for make in (np.array, _PandasObject):
        keras.utils.set_random_seed(1)
        model = models.get("universal_transformer", hp, vocab_sizes=dict.fromkeys(SPECS, 9))
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        x = {"inputs": make(ids), "targets": make(ids)}
        data = (x, make(ids), make(weights))
        history = model.fit(*data[:2], sample_weight=data[2], validation_data=data, verbose=0)
        evaluated = model.evaluate(*data[:2], sample_weight=data[2], verbose=0)
        found.append([history.history, evaluated, model.predict(x, verbose=0).tolist()])
    assert found[0] == found[1]
    wrong = {"inputs": _PandasObject(ids + 6), "targets": ids}
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"inputs must be ids in \[0, 9\)\. Received: 11"):
            method(wrong, ids, verbose=0)
        with pytest.raises(ValueError, match=r"must be ids in \[0, 9\)\. Received: 11"):
            method(wrong | {"inputs": ids}, _PandasObject(ids + 6), verbose=0)


@pytest.mark.parametrize(
    "make", [collections.OrderedDict, collections.UserDict, types.MappingProxyType]
)
def test_methods_read_every_mapping_and_pandas_objects_in_it(make):
    """Keras does not accept all mappings. The tokenizers of Hugging Face return a `UserDict`."""
    hp = hparams.get("universal_transformer_tiny", "hidden_size=4,num_heads=1,filter_size=4")
    model = models.get("universal_transformer", hp, vocab_sizes=dict.fromkeys(SPECS, 9))
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    ids = np.array([[3, 4, 1], [5, 1, 0]])
    given = _PandasObject(ids)
    x, y = make({"inputs": given, "targets": given}), make({"targets": given})
    expected = model.evaluate({"inputs": ids, "targets": ids}, ids, verbose=0)
    assert model.evaluate(x, y, verbose=0) == expected
    history = model.fit(x, y, validation_data=(x, given), shuffle=False, verbose=0).history
    assert history["val_loss"] == expected[:1]
    assert model.predict(x, verbose=0).shape == (2, 3, 9)
    assert model.predict_on_batch(x).shape == (2, 3, 9)
    assert model.test_on_batch(x, given) == pytest.approx(expected)
    model.train_on_batch(x, given, sample_weight=_PandasObject([1.0, 2.0]))


_LISTS = np.array([[3, 1], [4, 5, 1]], object)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (_LISTS, r"of the type list\. .*pad_sequences"),
        (np.array([1, None], object), r"of the type NoneType and int\. .*fillna\(0\)"),
        (
            type("Dataset", (), {"__module__": "datasets.arrow_dataset"})(),
            r"datasets.Dataset of Hugging Face\. columns = .*with_format",
        ),
    ],
)
def test_objects_are_rejected(value, words):
    for data in (value, {"inputs": value}):
        with pytest.raises(ValueError, match=f"^x must contain arrays.*Received: .*{words}"):
            array_checks.check_kind("x", data)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (iter([1]), r"the iterator list_iterator\. .*\(batch for batch in x\)"),
        (
            type("Pairs", (), {"__module__": "torch.utils.data.dataset"})(),
            r"Received: Pairs\. .*DataLoader\(x, batch_size=64\)",
        ),
    ],
)
def test_iterators_and_torch_datasets_are_rejected(value, words):
    with pytest.raises(ValueError, match=f"^x must be arrays.*{words}"):
        array_checks.check_kind("x", value)
    array_checks.check_kind("x", (one for one in [1]))


@pytest.mark.parametrize("name", ["inputs", "y"])
def test_missing_ids_are_rejected(name):
    """pandas and Polars convert a column with missing ints to floats with NaN."""
    ids = np.array([[3, np.nan]])
    x, y = ({}, ids) if name == "y" else ({name: ids}, None)
    with pytest.raises(ValueError, match=rf"^{name} must contain ids.*NaN\).*fillna\(0\)"):
        array_checks.check(SPECS, x, y)


@pytest.mark.parametrize("convert", [tf.RaggedTensor.from_tensor, tf.sparse.from_dense])
@pytest.mark.parametrize("loss", [None, "own"])
def test_targets_that_are_not_dense_are_rejected(convert, loss):
    ids = np.array([[3, 4, 1], [5, 1, 0]])
    hp = hparams.get("universal_transformer_tiny", "hidden_size=4,num_heads=1,filter_size=4")
    model = models.get("universal_transformer", hp, vocab_sizes=dict.fromkeys(SPECS, 9))
    own = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile("sgd", loss and own)
    x = {"inputs": ids, "targets": ids}
    with pytest.raises(ValueError, match=r"^y must be sequences.*Received: a (Ragged|Sparse)Tens"):
        model.fit(x, convert(ids), verbose=0)
    with pytest.raises(ValueError, match=r"inputs must be .*Received: a (Ragged|Sparse)Tens"):
        model.fit(x | {"inputs": convert(ids)}, ids, verbose=0)


def test_other_features_may_be_objects():
    """A `tf.data.Dataset` may also contain the texts, for example for a log."""
    hp = hparams.get("universal_transformer_tiny", "hidden_size=4,num_heads=1,filter_size=4")
    model = models.get("universal_transformer", hp, vocab_sizes=dict.fromkeys(SPECS, 9))
    ids = np.array([[3, 4, 1], [5, 1, 0]])
    x = {"inputs": ids, "targets": ids, "texts": ["a b", "c"]}
    dataset = tf.data.Dataset.from_tensors((x, ids))
    model.compile("sgd", run_eagerly=True)
    assert model.fit(dataset, shuffle=False, verbose=0).history["loss"][0] > 0
    assert model.evaluate(dataset, verbose=0)[0] > 0
    assert model.predict(dataset, verbose=0).shape == (2, 3, 9)


def test_user_modules_may_have_the_name_of_a_package():
    """Many projects have a module `datasets` of their own."""

    class Batches(keras.utils.PyDataset):
        __module__ = "datasets"

        def __getitem__(self, index):
            raise AssertionError

    array_checks.check_kind("x", Batches())


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ({"inputs": [[3, 1]], "targets": [[4, 1], [5, 1]]}, None, "batch size of targets, 2"),
        ({"inputs": [[3, 1]] * 2, "targets": [[4, 1]] * 2}, [[4, 1]], "y must have the batch size"),
        ({"inputs": [[3, 1]]}, [[4, 1], [5, 1]], "y must have the batch size of inputs, 1"),
        ({"targets": [[4, 5, 1]]}, [[4, 5]], r"the feature 'targets', \(1, 3\)\. .*\(1, 2\)"),
        ({"targets": [[4, 5, 1]]}, [4], r"the feature 'targets', \(1, 3\)\. .*\(1,\)"),
    ],
)
def test_arrays_of_different_shapes_are_rejected(x, y, message):
    """TensorFlow broadcasts a batch of one example, and reads zeros out of range on a GPU."""
    x = {name: np.array(ids) for name, ids in x.items()}
    with pytest.raises(ValueError, match=message):
        array_checks.check(SPECS, x, y and np.array(y))
