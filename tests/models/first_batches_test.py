"""Tests of the checks of first batches. Each batch must be read exactly once."""

import collections
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras import hparams, models
from ut_keras.data.features import FeatureSpec
from ut_keras.models import first_batches, universal_transformer

SIZE = "hidden_size=4,num_heads=1,filter_size=4,num_rec_steps=1"


class _Record:
    """Records the batches that `check` gets."""

    def __init__(self):
        self.batches = []

    def check(self, x, y, weights):
        self.batches.append((x, y, weights))


class _Reject:
    def check(self, x, y, weights):
        raise ValueError("wrong batch")


def test_generator_gives_all_batches_and_stays_open():
    record, given = _Record(), [({"inputs": np.array([i])}, np.array([i])) for i in range(5)]
    generator = (batch for batch in given)
    observed = first_batches.observed(generator, record.check)
    assert record.batches == [(*given[0], None)]
    assert [next(observed), next(observed)] == given[:2]
    observed.close()
    assert list(generator) == given[2:]
    assert len(record.batches) == 1
    assert list(first_batches.observed((_ for _ in ()), record.check)) == []


def test_dataset_gives_all_batches():
    """The source is read once per epoch. The shapes and the number of batches stay the same."""
    record, reads = _Record(), []

    def source():
        for number in range(3):
            reads.append(number)
            yield {"inputs": [number, 0]}, [number], tf.ragged.constant([[1], []])

    signature = (
        {"inputs": tf.TensorSpec([2], tf.int32)},
        tf.TensorSpec([None], tf.int32),
        tf.RaggedTensorSpec([2, None], tf.int32),
    )
    dataset = tf.data.Dataset.from_generator(source, output_signature=signature)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(3))
    observed = first_batches.observed(dataset, record.check)
    assert observed.element_spec == dataset.element_spec and observed.cardinality() == 3
    for _ in range(2):
        reads.clear()
        found = [(x["inputs"].numpy().tolist(), y.numpy().tolist()) for x, y, _ in observed]
        assert found == [([number, 0], [number]) for number in range(3)] and reads == [0, 1, 2]
    [(x, y, weights)] = record.batches
    assert x["inputs"].tolist() == [0, 0] and y.tolist() == [0] and weights is None
    endless = first_batches.observed(tf.data.Dataset.range(2).repeat(), record.check)
    assert endless.cardinality() == tf.data.INFINITE_CARDINALITY


def test_first_batch_of_grain_is_checked():
    class Dataset(list):
        __module__ = "grain._src.python.dataset.dataset"

    record, batches = _Record(), Dataset([({"inputs": np.array([i])}, i) for i in range(2)])
    assert first_batches.observed(batches, record.check) is batches
    assert record.batches == [(*batches[0], None)]
    assert first_batches.observed(Dataset(), record.check) == []
    assert len(record.batches) == 1


def test_module_grain_of_a_user_is_not_read():
    class Batches(list):
        __module__ = "grain"

    record, batches = _Record(), Batches([({"inputs": np.array([1])}, 1)])
    assert first_batches.observed(batches, record.check) is batches
    assert not record.batches


class _Tensor:
    """Has the methods of a tensor of torch that Keras and the checks call."""

    __module__ = "torch"

    def __init__(self, values):
        self.values = np.array(values)
        self.shape, self.dtype = self.values.shape, self.values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values

    def cpu(self):
        return self

    detach = cpu


class DataLoader:
    """Has the attributes of torch's `DataLoader` that Keras reads."""

    __module__ = "torch.utils.data.dataloader"

    def __init__(self, dataset):
        self.dataset, self.batch_size, self.reads = dataset, 1, []

    def __len__(self):
        return len(self.dataset)

    def __iter__(self):
        self.reads.append(0)
        for x, y in self.dataset:
            self.reads[-1] += 1
            yield [{name: _Tensor(ids) for name, ids in x.items()}, _Tensor(y)]


class OwnLoader(DataLoader):
    __module__ = "__main__"


class BatchLoader(DataLoader):
    """A loader whose dataset contains complete batches, as from the user's `collate_fn`."""

    def __iter__(self):
        yield from self.dataset


@pytest.fixture
def torch(monkeypatch):
    """Let Keras import a module `torch` with the loader above."""
    module = types.ModuleType("torch")
    module.utils = types.SimpleNamespace(data=types.SimpleNamespace(DataLoader=DataLoader))
    module.as_tensor = lambda value: value if isinstance(value, _Tensor) else _Tensor(value)
    monkeypatch.setitem(sys.modules, "torch", module)


@pytest.mark.parametrize("loader", [DataLoader, OwnLoader])
def test_first_batch_of_a_torch_loader_is_checked(torch, loader):
    """The check begins no loop of its own, which would change the order of a shuffling loader."""
    record = _Record()
    batches = loader([({"inputs": [[i]]}, [[i]]) for i in range(3)])
    observed = first_batches.observed(batches, record.check)
    assert batches.reads == [] and isinstance(observed, loader) and len(observed) == 3
    for _ in range(2):
        assert [y.values.tolist() for _, y in observed] == [[[0]], [[1]], [[2]]]
    assert batches.reads == [3, 3]
    [(x, y, weights)] = record.batches
    assert x["inputs"].tolist() == y.tolist() == [[0]] and weights is None
    assert type(batches) is loader


def test_methods_check_the_first_batch_of_a_torch_loader(torch, caplog):
    loader = DataLoader(list(_batches()))
    model = _model()
    model.fit(loader, verbose=0, shuffle=False)
    assert int(model.optimizer.iterations) == 3
    for method, words in (
        (None, ("padding='post'", "do not shift", "EOS, the id 1")),
        (model.evaluate, ("padding='post'", "do not shift")),
        (model.predict, ("padding='post'",)),
    ):
        if method:
            caplog.clear()
            method(loader, verbose=0)
        assert all(sum(word in line for line in caplog.messages) == 1 for word in words)


class _Frame:
    """Has the methods of a DataFrame of pandas that the checks call.

    The real one has no attribute `dtype`, so Keras rejects it in the batches of a generator.
    """

    __module__ = "pandas"

    def __init__(self, values):
        self.values = np.array(values)
        self.shape = self.values.shape

    def to_numpy(self):
        return self.values


class _Series:
    """Has the method of a Series of Polars that NumPy calls."""

    def __init__(self, values):
        self.values = np.array(values)

    def __array__(self, dtype=None, copy=None):
        return self.values


class _Batches(keras.utils.PyDataset):
    def __init__(self, batches):
        super().__init__()
        self.batches, self.begun, self.ended = batches, 0, 0

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]

    def on_epoch_begin(self):
        self.begun += 1

    def on_epoch_end(self):
        self.ended += 1


IDS = np.array([[[2 + number, 3, 1], [4, 1, 0]] for number in range(3)])
WEIGHTS = np.array([[number, 1.0] for number in range(3)])


def _batches_of(make, container=dict):
    """Return three batches whose arrays `make` converts."""
    return [
        (container({"inputs": make(ids), "targets": make(ids)}), make(ids), make(weights))
        for ids, weights in zip(IDS, WEIGHTS, strict=True)
    ]


def _assert_plain(batches):
    """Check that batches equal the batches of `_batches_of`, with arrays in dicts."""
    for (x, y, weights), expected in zip(batches, _batches_of(np.array), strict=True):
        assert type(x) is dict and x.keys() == {"inputs", "targets"}
        for found, ids in (
            (x["inputs"], expected[1]),
            (x["targets"], expected[1]),
            (y, expected[1]),
        ):
            assert isinstance(found, np.ndarray) and found.tolist() == ids.tolist()
        assert isinstance(weights, np.ndarray) and weights.tolist() == expected[2].tolist()


@pytest.mark.parametrize("make", [_Frame, _Series, _Tensor])
@pytest.mark.parametrize("container", [dict, collections.UserDict])
def test_batches_get_arrays_and_dicts(make, container):
    """The tokenizers of Hugging Face return a `UserDict`."""
    batches, record = _batches_of(make, container), _Record()
    _assert_plain(first_batches.observed((batch for batch in batches), record.check))
    _assert_plain(record.batches + _batches_of(np.array)[1:])
    dataset = first_batches.observed(_Batches(batches), record.check)
    _assert_plain([dataset[index] for index in range(dataset.num_batches)])


def test_fit_reads_objects_of_other_libraries_in_batches():
    """The loss is the same as with arrays, and Keras calls the methods of a `PyDataset`."""
    model, batches = _model(), _batches_of(_Frame, collections.UserDict)
    expected = model.evaluate(_Batches(_batches_of(np.array)), verbose=0)
    assert model.evaluate((batch for batch in batches), verbose=0) == expected
    dataset = _Batches(batches)
    model.fit(dataset, verbose=0)
    assert dataset.begun == 1 and int(model.optimizer.iterations) == 3
    assert dataset.ended >= 1  # Keras also calls this method before the first epoch


@pytest.mark.parametrize("make", [np.array, _Frame, _Tensor])
def test_batches_of_a_torch_loader_get_tensors_and_dicts(torch, make):
    """Keras calls the method `cpu` of every leaf, and arrays do not have this method."""
    record, loader = _Record(), BatchLoader(_batches_of(make, collections.UserDict))
    found = list(first_batches.observed(loader, record.check))
    assert all(isinstance(y, _Tensor) and isinstance(x["inputs"], _Tensor) for x, y, _ in found)
    _assert_plain([tf.nest.map_structure(np.asarray, batch) for batch in found])
    _assert_plain(record.batches + _batches_of(np.array)[1:])


def test_batches_of_a_torch_loader_may_be_dicts(torch):
    """Keras would read a batch that is a dict as a tuple of its keys."""
    loader = BatchLoader([x for x, _, _ in _batches_of(_Tensor)])
    model = _model()
    assert model.predict(loader, verbose=0).shape == (6, 3, 9)
    with pytest.raises(ValueError, match=r"^y must be the targets.*Received: None"):
        model.evaluate(loader, verbose=0)


def test_weights_of_single_examples_name_the_missing_batch_axis():
    """A dataset without `batch` yields a scalar weight."""
    dataset = ((x, x["inputs"], weights[0]) for x, _, weights in _single_examples())
    with pytest.raises(ValueError, match=r"array of shape \(\)\. .*batch them"):
        _model().evaluate(dataset, verbose=0)


def _single_examples():
    return [
        ({"inputs": ids[0], "targets": ids[0]}, ids[0], weights)
        for ids, weights in zip(IDS, WEIGHTS, strict=True)
    ]


def test_tensors_in_a_generator_are_checked():
    features = {"inputs": tf.constant([[5, 9, 1]]), "targets": tf.constant([[5, 6, 1]])}
    record = _Record()
    first_batches.observed((batch for batch in [(features, features["targets"])]), record.check)
    [(x, y, _)] = record.batches
    assert isinstance(x["inputs"], np.ndarray) and isinstance(y, np.ndarray)


def test_error_of_the_check_ends_the_reading():
    reject = _Reject()
    dataset = tf.data.Dataset.from_tensors((np.array([1]), np.array([1])))
    with pytest.raises(tf.errors.InvalidArgumentError, match="wrong batch"):
        list(first_batches.observed(dataset, reject.check))
    with pytest.raises(ValueError, match="wrong batch"):
        first_batches.observed((batch for batch in dataset), reject.check)
    arrays = np.array([1])
    assert first_batches.observed(arrays, reject.check) is arrays


def _batches():
    """Yield batches that are padded on the left. The targets are shifted, and have no EOS."""
    features = {"inputs": np.array([[0, 3, 4], [5, 6, 7]]), "targets": np.full((2, 3), 5)}
    for number in (6, 7, 8):
        yield features, np.full((2, 3), number)


def _model():
    names = dict.fromkeys(["inputs", "targets"], 9)
    model = models.get(
        "universal_transformer", hparams.get("universal_transformer_tiny", SIZE), vocab_sizes=names
    )
    model.compile("sgd", run_eagerly=True)
    return model


def _data(kind):
    if kind == "generator":
        return _batches()
    first = next(_batches())
    signature = tf.nest.map_structure(lambda ids: tf.TensorSpec(ids.shape, tf.int64), first)
    return tf.data.Dataset.from_generator(_batches, output_signature=signature)


@pytest.mark.parametrize("kind", ["generator", "dataset"])
def test_fit_logs_what_it_finds_in_the_first_batch(kind, caplog):
    model, data = _model(), _data(kind)
    epochs = 1 if kind == "generator" else 2
    model.fit(data, epochs=epochs, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations) == 3 * epochs
    for words in ("padding='post'", "do not shift", "EOS, the id 1"):
        assert sum(words in message for message in caplog.messages) == 1


@pytest.mark.parametrize("kind", ["generator", "dataset"])
def test_evaluate_and_predict_log_what_they_find_in_the_first_batch(kind, caplog):
    """`predict` ignores the targets. Only the first validation checks its data."""
    model = _model()
    model.evaluate(_data(kind), verbose=0)
    for words, times in (("padding='post'", 1), ("do not shift", 1), ("EOS, the id 1", 0)):
        assert sum(words in message for message in caplog.messages) == times
    caplog.clear()
    assert model.predict(_data(kind), verbose=0).shape == (6, 3, 9)
    assert ["padding='post'" in message for message in caplog.messages] == [True]
    caplog.clear()
    ids = np.array([[5, 6, 1]])
    features = {"inputs": ids, "targets": ids}
    epochs = 1 if kind == "generator" else 2
    model.fit(features, ids, validation_data=_data(kind), epochs=epochs, verbose=0)
    assert sum("padding='post'" in message for message in caplog.messages) == 1


def test_fit_checks_arrays_for_validation_once_and_before_training(caplog):
    model, ids = _model(), np.array([[5, 6, 1]])
    features, wrong = {"inputs": ids, "targets": ids}, next(_batches())
    model.fit(features, ids, validation_data=wrong, epochs=3, verbose=0)
    assert sum("padding='post'" in message for message in caplog.messages) == 1
    validation = features, ids, np.array([-1.0])
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        model.fit(features, ids, validation_data=validation, verbose=0)
    assert int(model.optimizer.iterations) == 3


def test_batch_methods_check_their_first_batch(caplog):
    """The second call of a method logs nothing. Only training needs targets with EOS."""
    model, batch = _model(), next(_batches())
    for method, missing_eos in ((model.test_on_batch, 0), (model.train_on_batch, 1)):
        for is_first in (1, 0):
            caplog.clear()
            method(*batch)
            for words, times in (
                ("padding='post'", is_first),
                ("do not shift", is_first),
                ("EOS, the id 1", is_first * missing_eos),
            ):
                assert sum(words in message for message in caplog.messages) == times


def test_predict_on_batch_checks_the_features_of_its_first_batch(caplog):
    model, (features, _) = _model(), next(_batches())
    for _ in range(2):
        model.predict_on_batch(features)
    assert ["padding='post'" in message for message in caplog.messages] == [True]


@pytest.mark.parametrize(("method", "more"), [("fit", {"shuffle": False}), ("evaluate", {})])
def test_negative_weight_in_the_first_batch_of_a_dataset_raises(method, more):
    """Without this error, the loss would be NaN."""
    ids = np.array([[5, 6, 1]])
    batch = ({"inputs": ids, "targets": ids}, ids, np.array([-1.0]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="sample_weight must be finite"):
        getattr(_model(), method)(tf.data.Dataset.from_tensors(batch), verbose=0, **more)


class _TakesFourElements(universal_transformer.UniversalTransformer):
    """A model whose `train_step` reads batches that Keras' `train_step` would reject."""

    def train_step(self, data):
        x, y, weights, factor = data
        return {"loss": factor[0] * super().train_step((x, y, weights))["loss"]}


@pytest.mark.parametrize("kind", ["generator", "dataset"])
def test_fit_accepts_other_batches_for_a_train_step_of_a_user(kind):
    names = {name: FeatureSpec(9, "symbol") for name in ("inputs", "targets")}
    model = _TakesFourElements(hparams.get("universal_transformer_tiny", SIZE), names)
    model.compile("sgd", run_eagerly=True)
    ids = np.array([[5, 6, 1]])
    batch = ({"inputs": ids, "targets": ids}, ids, np.ones([1, 3]), np.zeros(1, np.float32))
    dataset = tf.data.Dataset.from_tensors(batch)
    data = {"generator": (batch for _ in range(1)), "dataset": dataset}[kind]
    assert model.fit(data, shuffle=False, verbose=0).history["loss"] == [0.0]


class _TakesTwoTargets(universal_transformer.UniversalTransformer):
    """A model whose steps read two kinds of targets. One of them has ids of another vocabulary."""

    def train_step(self, data):
        x, y = data[:2]
        return {**super().train_step((x, y["targets"])), "most": tf.reduce_max(y["other"])}

    def test_step(self, data):
        x, y = data[:2]
        return {**super().test_step((x, y["targets"])), "most": tf.reduce_max(y["other"])}


def test_batch_methods_accept_other_batches_for_steps_of_a_user():
    names = {name: FeatureSpec(9, "symbol") for name in ("inputs", "targets")}
    model = _TakesTwoTargets(hparams.get("universal_transformer_tiny", SIZE), names)
    model.compile("sgd", run_eagerly=True)
    ids = np.array([[5, 6, 1]])
    batch = ({"inputs": ids, "targets": ids}, {"targets": ids, "other": ids + 90})
    assert model.train_on_batch(*batch, return_dict=True)["most"] == 96
    assert model.test_on_batch(*batch, return_dict=True)["most"] == 96
