"""`fit` logs a warning if all epochs have the same order of examples."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras import hparams, models
from ut_keras.models import epoch_order
from ut_keras.ops import private_api

IDS = np.arange(1, 9)[:, np.newaxis]


@pytest.fixture(scope="module")
def model():
    """A small language model that runs eagerly, because tracing is slow."""
    size = "hidden_size=4,num_heads=1,filter_size=4,num_rec_steps=1"
    hp = hparams.get("universal_transformer_tiny", size)
    model = models.get("universal_transformer", hp, vocab_sizes={"targets": 9})
    model.compile("sgd", run_eagerly=True)
    return model


@pytest.fixture
def orders(model, monkeypatch):
    """A list to which each step of training appends the ids of its batch."""
    batches = []
    train_step = model.train_step

    def recorded(data):
        batches.append(keras.utils.unpack_x_y_sample_weight(data)[1].numpy().ravel().tolist())
        return train_step(data)

    monkeypatch.setattr(model, "train_step", recorded)
    monkeypatch.setattr(model, "train_function", None)
    return batches


@pytest.fixture
def seed(monkeypatch):
    """A global seed of TensorFlow, which is removed after the test."""
    before = private_api.context.global_seed()
    tf.random.set_seed(1)
    yield
    private_api.context.set_global_seed(before)


DATASET = tf.data.Dataset.from_tensor_slices(({"targets": IDS}, IDS)).shuffle(8).batch(8)


@pytest.mark.parametrize(
    ("arguments", "is_logged"),
    [
        ({"x": {"targets": IDS}, "y": IDS}, True),
        ({"x": {"targets": tf.constant(IDS)}, "y": IDS, "initial_epoch": 1}, True),
        ({"x": {"targets": IDS}, "y": IDS, "shuffle": False}, False),
        ({"x": {"targets": IDS}, "y": IDS, "initial_epoch": 2}, False),
        ({"x": {"targets": IDS}, "y": IDS, "shuffle": 1}, True),
        ({"x": {"targets": IDS}, "y": IDS, "steps_per_epoch": 2}, True),
        ({"x": {"targets": IDS}, "y": IDS, "validation_split": 0.25, "batch_size": 3}, True),
        ({"x": {"targets": IDS}, "y": IDS, "validation_split": 0.5}, False),  # a single batch
        ({"x": {"targets": IDS}, "y": IDS, "batch_size": 8}, False),
        ({"x": DATASET}, False),
    ],
)
# Keras warns that it does not shuffle a dataset.
@pytest.mark.filterwarnings("ignore:.shuffle=True. was passed:UserWarning")
@pytest.mark.usefixtures("seed")
def test_equal_orders_are_logged(model, orders, arguments, is_logged, caplog):
    if "y" in arguments:
        arguments = {"batch_size": 4, **arguments}
    model.fit(**arguments, epochs=3, verbose=0)
    assert ("the same order" in caplog.text) == is_logged
    if is_logged:
        assert orders[0] + orders[1] != sorted(orders[0] + orders[1])
        assert len(orders) in (4, 6) and orders == orders[:2] * (len(orders) // 2)
    elif arguments["x"] is DATASET:
        assert len({tuple(order) for order in orders}) > 1


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize(("epochs", "is_logged"), [(4, False), (5, True)])
def test_equal_orders_are_logged_after_a_complete_pass(model, orders, epochs, is_logged, caplog):
    """With `steps_per_epoch=1`, four epochs use the four batches once."""
    x, steps = {"targets": IDS}, {"steps_per_epoch": 1, "epochs": epochs}
    model.fit(x, IDS, batch_size=2, verbose=0, **steps)
    assert ("the same order" in caplog.text) == is_logged
    assert sorted(sum(orders[:4], [])) == IDS.ravel().tolist()
    assert orders[4:] == orders[: epochs - 4]


def test_orders_without_a_seed_differ(model, orders, caplog):
    before = private_api.context.global_seed()
    private_api.context.set_global_seed(None)
    try:
        model.fit({"targets": IDS}, IDS, epochs=4, batch_size=4, verbose=0)
    finally:
        private_api.context.set_global_seed(before)
    assert "same order" not in caplog.text
    assert len({tuple(order) for order in orders}) > 1


@pytest.mark.usefixtures("seed")
def test_arrays_without_examples_are_not_logged(caplog):
    epoch_order.log_equal_epochs({"x": {"targets": IDS[:0]}, "steps_per_epoch": 1, "epochs": 2})
    assert not caplog.text
