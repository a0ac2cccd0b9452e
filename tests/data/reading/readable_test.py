import bz2
import lzma
import os

import pytest
import tensorflow as tf

from tests.data import flipped_bits
from tests.data.reading.small_files import (
    assert_data_error,
    batches,
    example,
    rows,
    write,
)
from ut_keras.data.features import FeatureSpec
from ut_keras.data.reading import readable
from ut_keras.errors import DataError


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_damaged_file_is_named(tmp_path, damage):
    files = write(tmp_path, [example(5) for _ in range(60)], num_shards=3)
    with open(files[1], "rb") as file:
        content = bytearray(file.read())
    if damage == "truncated":
        content = content[:-9]
    else:
        content[len(content) // 2] ^= 8
    with open(files[1], "wb") as file:
        file.write(content)
    assert_data_error(rf"A TFRecord file .*{files[1]}", files)


def _compressed(kind):
    def rewrite(path):
        records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type=kind)) as writer:
            for record in records:
                writer.write(record)

    return rewrite


def _packed_by(module):
    def rewrite(path):
        with open(path, "rb") as file:
            content = file.read()
        with open(path, "wb") as file:
            file.write(module.compress(content))

    return rewrite


def _replaced(content):
    def rewrite(path):
        with open(path, "wb") as file:
            file.write(content)

    return rewrite


OTHER_FORMATS = {
    "GZIP-compressed": _compressed("GZIP"),
    "ZLIB-compressed": _compressed("ZLIB"),
    "BZIP2-compressed": _packed_by(bz2),
    "XZ-compressed": _packed_by(lzma),
    "a ZIP archive": _replaced(b"PK\x03\x04" + b"\0" * 40),
    "an HTML or XML page": _replaced(b"\n<!DOCTYPE html>\n<html><body>404</body></html>\n"),
    "text, 'the first line'": _replaced("the first line\nä\n".encode()),
    "text, 'no'": _replaced(b"no\n"),
    "a Git LFS pointer": _replaced(b"version https://git-lfs.github.com/spec/v1\noid 0\n"),
}


@pytest.mark.parametrize("kind, rewrite", OTHER_FORMATS.items(), ids=OTHER_FORMATS)
def test_file_of_another_format_is_named(tmp_path, kind, rewrite):
    """The file may contain good data, so the message must not advise the user to remove it."""
    files = write(tmp_path, [example(5)] * 60, num_shards=3)
    rewrite(files[1])
    with pytest.raises(DataError, match=rf"Received: {files[1]}, which is {kind}") as error:
        batches(files)
    assert "\n" not in str(error.value) and "Remove" not in str(error.value)
    assert ("Decompress" in str(error.value)) == kind.endswith("compressed")


def test_empty_shard_is_accepted(tmp_path):
    files = write(tmp_path, [example(5), example(6)], num_shards=2)
    open(files[0], "wb").close()
    assert rows(batches(files, training=True)) == [example(6)["inputs"]]


def test_dataset_without_examples_raises(tmp_path):
    files = write(tmp_path, [example(5), example(6)], num_shards=2)
    for file in files:
        open(file, "wb").close()
    assert_data_error("Expected examples in 2 file", files)


def test_dataset_with_only_long_examples_raises(tmp_path):
    files = write(tmp_path, [example(33), example(40)])
    assert_data_error("all 2 examples were longer than max_length=32", files, training=True)


def test_ids_out_of_range_raise(tmp_path):
    bad = {"inputs": [2, 1], "targets": [2, 1000, 1]}
    files = write(tmp_path, [example(5)] * 20 + [bad] + [example(5)] * 20, num_shards=2)
    pattern = rf"'targets' must hold ids in \[0, 1000\).*from 1 to 1000 in {files[0]}"
    assert_data_error(pattern, files)
    files = write(tmp_path, [{"inputs": [2, -1, 1], "targets": [1]}])
    assert_data_error("'inputs' must hold ids.*from -1 to 2", files)


def test_missing_feature_raises(tmp_path):
    files = write(tmp_path, [example(5), {"inputs": [1]}])
    assert_data_error(rf"the feature 'targets'.*{files[0]}", files)


def test_missing_feature_gets_its_default(tmp_path):
    files = write(tmp_path, [{"targets": [1], "extra": [4]}, {"targets": [1]}])
    specs = {"targets": FeatureSpec(5), "extra": FeatureSpec(5, "class_label", default=2)}
    ((features, _),) = batches(files, specs=specs)
    assert features["extra"].tolist() == [[4], [2]]


def test_wrong_number_of_values_raises(tmp_path):
    specs = {
        "inputs": FeatureSpec(9, "sentences", (3, 2)),
        "targets": FeatureSpec(5, "class_label"),
    }
    files = write(tmp_path, [{"inputs": [2, 3, 0, 0], "targets": [0]}])
    assert_data_error(rf"'inputs' must hold 6 ids.*Received: 4 in {files[0]}", files, specs=specs)
    files = write(tmp_path, [{"inputs": [2, 3, 0, 0, 0, 0], "targets": [0, 1]}])
    assert_data_error("'targets' must hold 1 ids", files, specs=specs)


def test_records_of_another_type_raise(tmp_path):
    files = [str(tmp_path / "other")]
    with tf.io.TFRecordWriter(files[0]) as writer:
        writer.write(b"no example")
    assert_data_error(f"must be a tf.train.Example.* different record, in {files[0]}", files)


@pytest.mark.parametrize(
    "part",
    [
        "record",
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("size", "its checksum", "checksum")),
    ],
)
def test_bit_flipped_after_indexing_is_detected(tmp_path, part):
    files = write(tmp_path, [example(5)] * 20, num_shards=2)
    assert batches(files, training=True)
    place = {"size": 0, "its checksum": 8, "record": 20, "checksum": -1}[part]
    with flipped_bits.flipped(files[1], 8 * (place % os.path.getsize(files[1]))):
        assert_data_error(f"A TFRecord file .* {files[1]}", files, training=True)
        assert_data_error(f"A TFRecord file .* {files[1]}", files)


def test_errors_passes_other_exceptions_through():
    with pytest.raises(tf.errors.InvalidArgumentError), readable.errors():
        tf.debugging.Assert(False, ["something else"])
