import contextlib
import hashlib
import os
import signal

import pytest
import tensorflow as tf

from ut_keras.data import tfrecords
from ut_keras.data.features import FeatureSpec
from ut_keras.data.reading import input_pipeline, readable
from ut_keras.process import interruption
from ut_keras.training import distribution, epochs

_DATA_DIR = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "data_dir")


def _make_epoch(number):
    """Return a dataset of the three numbers 10 * number + (0, 1, 2)."""
    return tf.data.Dataset.range(10 * number, 10 * number + 3)


def _epochs(position=None):
    made = epochs.Epochs(_make_epoch, distribution.get_strategy(devices=["CPU:0"]))
    if position is not None:
        for name, value in position.items():
            made.position[name].assign(value)
        made.read_position()
    return made


def _take(iterator, count):
    return [int(next(iterator)) for _ in range(count)]


def test_epochs_are_consecutive():
    assert _take(_epochs(), 7) == [0, 1, 2, 10, 11, 12, 20]


def test_signal_while_reading_stops_is_not_ignored(monkeypatch):
    @contextlib.contextmanager
    def errors():
        try:
            yield
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(readable, "errors", errors)
    made = _epochs()
    with pytest.raises(interruption.StoppedBySignal), interruption.RaiseOnSignal():
        next(made)
        made.close()


def test_epochs_resume_from_every_position():
    expected = _take(_epochs(), 10)
    for position in (0, 2, 3, 4, 6):
        first = _epochs()
        _take(first, position)
        first.write_position()
        second = _epochs({name: variable.numpy() for name, variable in first.position.items()})
        assert _take(second, 2) == expected[position : position + 2], position
        first.close()
        second.close()


def test_close_keeps_the_position():
    iterator = _epochs()
    for expected in ([0, 1], [2, 10], [11]):
        assert _take(iterator, len(expected)) == expected
        iterator.close()


def test_element_spec_consumes_no_batch():
    iterator = _epochs()
    assert iterator.element_spec.dtype == tf.int64
    assert _take(iterator, 2) == [0, 1]


# The following tests read batches from files. One dataset has the batches of all epochs.


def _epoch_of_files(number, static_shapes=False, seed=None):
    specs = {"inputs": FeatureSpec(1000), "targets": FeatureSpec(1000)}
    settings = input_pipeline.InputSettings(512, max_length=64, static_shapes=static_shapes)
    files = tfrecords.find(_DATA_DIR, "algorithmic_reverse_binary40", "dev")
    if seed is not None:
        return input_pipeline.make_batches(files, specs, settings, True, 2, seed)
    seed = (7 * 1000003 + number) % 2**31
    return input_pipeline.make_dataset(files, specs, settings, True, 2, seed)


def _epochs_of_files(static_shapes=False, position=(0, 0)):
    def make_epoch(number):
        assert number == 0
        return _epoch_of_files(0, static_shapes, lambda passed: (7 * 1000003 + passed) % 2**31)

    made = epochs.Epochs(make_epoch, distribution.get_strategy(devices=["CPU:0"]))
    for name, value in zip(("epoch", "batch"), position, strict=True):
        made.position[name].assign(value)
    made.read_position()
    return made


def _arrays(batch):
    features, targets = batch
    return [*((name, features[name].numpy()) for name in sorted(features)), ("", targets.numpy())]


def _bytes(batches):
    """Return each batch as bytes, including the names and shapes of its arrays."""
    return [
        b"".join(repr((name, a.shape)).encode() + a.tobytes() for name, a in _arrays(batch))
        for batch in batches
    ]


@pytest.mark.slow  # faster tests cover the positions with small files
@pytest.mark.parametrize("static_shapes, digest", [(False, "48ef7df3a8a4"), (True, "e921059ee223")])
def test_indexed_batches_cover_all_epochs(static_shapes, digest):
    expected = [_bytes(_epoch_of_files(number, static_shapes)) for number in range(3)]
    count = len(expected[0])
    expected = sum(expected, [])
    # Earlier versions of ut_keras made one dataset per epoch. `digest` is the hash of the batches
    # in these versions, because runs with older checkpoints must resume with the same batches.
    assert hashlib.sha256(b"".join(expected)).hexdigest()[:12] == digest
    made = _epochs_of_files(static_shapes)
    assert made.element_spec == _epoch_of_files(0, static_shapes).element_spec
    assert _bytes(next(made) for _ in expected) == expected
    made.write_position()
    assert [int(made.position[name]) for name in ("epoch", "batch")] == [2, count]
    # The three positions are inside an epoch, at its end and after its end. A position is after the
    # end if the epoch had more batches when the checkpoint was saved.
    for position, first in (((1, 4), count + 4), ((0, count), count), ((1, count + 9), 2 * count)):
        resumed = _epochs_of_files(static_shapes, position)
        assert _bytes(next(resumed) for _ in range(2)) == expected[first : first + 2]
        resumed.write_position()
        expected_place = divmod(first, count)[0], first % count + 2
        assert tuple(int(resumed.position[name]) for name in ("epoch", "batch")) == expected_place
        resumed.close()
    made.close()


def test_other_order_resumes_at_the_next_epoch():
    def make(seed, position=None):
        def make_epoch(number):
            return _epoch_of_files(number, seed=lambda passed: seed + passed)

        made = epochs.Epochs(make_epoch, distribution.get_strategy(devices=["CPU:0"]))
        for name, value in (position or {}).items():
            made.position[name].assign(value)
        return made, made.read_position()

    first, message = make(5)
    assert message is None
    for _ in range(3):
        next(first)
    first.write_position()
    position = {name: int(value) for name, value in first.position.items()}
    assert position["epoch"] == 0 and position["batch"] == 3 and position["order"] > 0

    def position_of(made):
        made.write_position()
        return int(made.position["epoch"]), int(made.position["batch"])

    same, message = make(5, position)
    assert message is None and position_of(same) == (0, 3)
    other, message = make(6, position)
    assert message.endswith("the beginning of epoch 1")
    assert position_of(other) == (1, 0)
    assert int(other.position["order"]) not in (0, position["order"])
    older, message = make(6, {**position, "order": 0})
    assert message is None and position_of(older) == (0, 3)
