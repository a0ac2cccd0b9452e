"""ut_keras detects each of 100 flipped bits in checkpoints, data files and indexes."""

import os

import pytest
import tensorflow as tf

from tests.data import flipped_bits
from tests.training import toy
from ut_keras import optimizers
from ut_keras.checkpoints import checkpoint
from ut_keras.data import features, tfrecords
from ut_keras.data.reading import input_pipeline, readable, record_index
from ut_keras.errors import DataError

_FLIPS = 100

pytestmark = pytest.mark.slow


def _bit_numbers(paths):
    """Yield `_FLIPS` pairs (file, bit), which are sampled from all bits of the files."""
    sizes = [os.path.getsize(path) for path in paths]
    for bit in flipped_bits.bit_numbers(sum(sizes), _FLIPS):
        for path, size in zip(paths, sizes, strict=True):
            if bit < 8 * size:
                yield path, bit
                break
            bit -= 8 * size


def test_flipped_bits_of_data_files_are_detected(tmp_path):
    paths = tfrecords.shard_paths(tmp_path, "p", "train", 2)
    examples = [{"inputs": [2 + n % 7] * (3 + n % 5), "targets": [2, 1]} for n in range(60)]
    tfrecords.write(examples, paths)
    specs = {name: features.FeatureSpec(9) for name in ("inputs", "targets")}
    settings = input_pipeline.InputSettings(batch_size=4096, max_length=32)
    dataset = input_pipeline.make_dataset(paths, specs, settings, training=True, seed=1)

    def read():
        with readable.errors():
            return sum(len(targets) for _, targets in dataset)

    assert read() == 60
    named = 0
    for path, bit in _bit_numbers(paths):
        with flipped_bits.flipped(path, bit):
            with pytest.raises(DataError) as error:
                read()
            named += path in str(error.value)
    assert named == _FLIPS
    assert read() == 60


def test_flipped_bits_of_indexes_are_detected(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record_index, "_RECORDS_WORTH_KEEPING", 0)
    files = tfrecords.shard_paths(tmp_path, "p", "train", 2)
    tfrecords.write([{"targets": [1] * (1 + n % 5)} for n in range(500)], files)

    def get():
        record_index._indexes.clear()
        return record_index.get(files, lambda _, records: tf.strings.length(records), "")

    expected = get().lengths.tolist()
    (kept,) = map(str, tmp_path.rglob("record_index*"))
    capsys.readouterr()
    named = 0
    for path, bit in _bit_numbers([kept]):
        with flipped_bits.flipped(path, bit):
            assert record_index._load(path) is None
        named += f"{path} is damaged" in capsys.readouterr().out
    assert named == _FLIPS
    assert record_index._load(kept)[1].tolist() == expected


def test_flipped_bits_of_checkpoints_are_detected(tmp_path):
    def make():
        model = toy.ToyModel(0.1)
        optimizer = optimizers.Adam(0.1)
        optimizer.build(model.trainable_variables)
        return checkpoint.Checkpoints(str(tmp_path), model, optimizer)

    path = make().save()
    checkpoints = make()
    assert checkpoints.restore_newest()
    named = 0
    for file, bit in _bit_numbers([f"{path}.index", f"{path}.data-00000-of-00001"]):
        with flipped_bits.flipped(file, bit):
            try:
                checkpoints.restore_newest()
                print("silent:", file, bit, os.path.getsize(file))
            except checkpoint.CheckpointError as error:
                named += path in str(error)
    assert named == _FLIPS
    assert checkpoints.restore_newest()
