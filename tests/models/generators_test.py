"""`fit` reads a Python generator only once and logs validations on different batches."""

import keras
import numpy as np
import pytest

from ut_keras import hparams, models
from ut_keras.models import generators

IDS = np.array([[3, 1], [4, 1]])


def _batches(number):
    for _ in range(number):
        yield {"targets": IDS}, IDS


@pytest.fixture(scope="module")
def model():
    """A language model with one step, because tracing is slow."""
    size = "hidden_size=4,num_heads=1,filter_size=4,num_rec_steps=1"
    hp = hparams.get("universal_transformer_tiny", size)
    model = models.get("universal_transformer", hp, vocab_sizes={"targets": 9})
    model.compile("sgd", run_eagerly=True)
    return model


class _Count(keras.callbacks.Callback):
    """Counts the batches of each epoch and of each validation."""

    def __init__(self):
        super().__init__()
        self.counts = {"train": [], "test": []}

    def on_epoch_begin(self, epoch, logs=None):
        self.counts["train"].append(0)

    def on_train_batch_end(self, batch, logs=None):
        self.counts["train"][-1] += 1

    def on_test_begin(self, logs=None):
        self.counts["test"].append(0)

    def on_test_batch_end(self, batch, logs=None):
        self.counts["test"][-1] += 1


def _count(model, *args, **kwargs):
    """Return the number of batches of each epoch and of each validation of `fit`."""
    callback = _Count()
    # With shuffle=True, Keras warns that it cannot shuffle a generator.
    model.fit(*args, verbose=0, shuffle=False, callbacks=[callback], **kwargs)
    return callback.counts


def test_generator_for_several_epochs_raises(model):
    """From the second epoch on, Keras would read only the first two batches of a generator."""
    with pytest.raises(ValueError, match=r"x must be .* steps_per_epoch .* for 3 epochs\. "):
        model.fit(_batches(5), epochs=3, verbose=0)
    arrays = {"targets": IDS}, IDS
    match = r"validation_data must be .*PyDataset\. .* for 2 epochs\. "
    for arguments in ({"epochs": 2}, {"epochs": 4, "validation_freq": 2}):
        with pytest.raises(ValueError, match=match):
            model.fit(*arrays, validation_data=_batches(5), verbose=0, **arguments)


def test_generator_that_is_read_once_gives_all_batches(model):
    counts = _count(model, _batches(5), validation_data=_batches(4))
    assert counts == {"train": [5], "test": [4]}
    assert _count(model, _batches(5), epochs=8, initial_epoch=7)["train"] == [5]
    assert _count(model, _batches(6), epochs=2, steps_per_epoch=3)["train"] == [3, 3]
    arguments = {"epochs": 3, "validation_freq": [2]}
    counts = _count(model, {"targets": IDS}, IDS, validation_data=_batches(4), **arguments)
    assert counts == {"train": [1, 1, 1], "test": [4]}


def test_generator_with_validation_steps_is_logged(model, caplog):
    """Each validation begins with the same two batches."""
    data = ({"targets": IDS}, IDS)
    arguments = {"validation_data": _batches(9), "validation_steps": 2, "verbose": 0}
    model.fit(*data, **arguments)
    assert not caplog.messages
    model.fit(*data, epochs=2, **{**arguments, "validation_data": _batches(9)})
    [line] = caplog.messages
    assert "validation_data should be" in line and "the first two batches" in line


class _Numbered(keras.utils.PyDataset):
    """Nine batches. The first id of a batch is its number."""

    def __len__(self):
        return 9

    def __getitem__(self, index):
        ids = np.array([[index, 1]])
        return {"targets": ids}, ids


@pytest.mark.parametrize(
    ("setting", "steps", "is_logged"),
    [
        ({"workers": 2}, 2, True),
        ({"workers": 1, "use_multiprocessing": True}, 2, True),
        ({"workers": 1}, 2, False),
        ({"workers": 2}, None, False),
    ],
)
def test_validations_on_different_batches_are_logged(caplog, setting, steps, is_logged):
    """Keras keeps the batches that the workers of a `PyDataset` loaded in advance."""
    generators.check_epochs(
        {"epochs": 2, "validation_data": _Numbered(**setting), "validation_steps": steps}
    )
    assert ["validation_data should have workers=1" in line for line in caplog.messages] == (
        [True] if is_logged else []
    )
