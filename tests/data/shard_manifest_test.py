"""A file that was cut off between two records, which no checksum tells."""

import os
import shutil

import pytest

from ut_keras.data import shard_manifest, tfrecords
from ut_keras.data.writing import generation, generation_plan
from ut_keras.errors import DataError


def _generate(folder, num_shards=3):
    os.makedirs(folder, exist_ok=True)
    split = generation_plan.Split(str(folder), "p", "train", num_shards, 1)
    samples = ({"targets": [number + 1] * 9} for number in range(60))
    generation.write(split, samples, iter, range(num_shards), num_processes=1)
    return split.paths


def _cut_off_the_last_record(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")  # all records have it
    os.truncate(path, os.path.getsize(path) - (12 + size + 4))
    assert len(list(tfrecords.read(path))) == 19


def test_a_cut_between_records_is_told(tmp_path):
    paths = _generate(tmp_path)
    assert tfrecords.find(tmp_path, "p", "train") == paths
    _cut_off_the_last_record(paths[1])
    with pytest.raises(DataError, match=f"{paths[1]} of .* bytes, instead of"):
        tfrecords.find(tmp_path, "p", "train")
    os.remove(paths[1])
    _generate(tmp_path)
    assert tfrecords.find(tmp_path, "p", "train") == paths


def test_is_of_the_files_whatever_their_folder_and_times(tmp_path):
    paths = _generate(tmp_path / "a")
    os.utime(paths[0], (0, 0))
    assert len(tfrecords.find(shutil.copytree(tmp_path / "a", tmp_path / "b"), "p", "train")) == 3


def test_a_folder_without(tmp_path):
    """T2T writes none."""
    paths = _generate(tmp_path)
    os.remove(shard_manifest.path(tmp_path, "p", "train"))
    _cut_off_the_last_record(paths[1])
    assert tfrecords.find(tmp_path, "p", "train") == paths


def test_comes_with_the_last_file(tmp_path):
    """Whichever machine writes it; and goes with the first of others."""
    split = generation_plan.Split(str(tmp_path), "p", "train", 2, 1)
    manifest = shard_manifest.path(tmp_path, "p", "train")
    for shard, is_there in ((1, False), (0, True), (1, True)):
        samples = ({"targets": [number + 1]} for number in range(10))
        generation.write(split, samples, iter, [shard], num_processes=1)
        assert os.path.exists(manifest) is is_there
    os.remove(split.paths[0])
    with pytest.raises(ValueError, match="a sample"):
        generation.write(split, _broken(), iter, [0], num_processes=1)
    assert not os.path.exists(manifest)


def _broken():
    raise ValueError("a sample")
    yield


@pytest.mark.parametrize("content", ["{}", '{"bytes": [1]}', '{"bytes": 3}', "[]", "x"])
def test_a_manifest_that_holds_something_else(tmp_path, content):
    paths = _generate(tmp_path)
    manifest = shard_manifest.path(tmp_path, "p", "train")
    with open(manifest, "w") as file:
        file.write(content)
    assert not tfrecords.is_complete(tmp_path, "p", "train")
    with pytest.raises(ValueError, match=f"{manifest} must"):
        tfrecords.find(tmp_path, "p", "train")
    os.remove(manifest)
    assert tfrecords.find(tmp_path, "p", "train") == paths


def _write(folder, examples=200, length=800, first=1):
    os.makedirs(folder, exist_ok=True)
    paths = tfrecords.shard_paths(folder, "p", "train", 2)
    tfrecords.write(({"targets": [first + i] * length} for i in range(examples)), paths)
    return paths


def test_is_of_what_the_files_hold(tmp_path):
    files = _write(tmp_path / "a")
    here = shard_manifest.fingerprint(files)
    total = sum(os.path.getsize(file) for file in files)
    assert here.startswith(f"2 files, {total:,} bytes, sha256 ") and total > 4 * (1 << 15)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    os.utime(files[0], (0, 0))
    assert shard_manifest.fingerprint(tfrecords.find(tmp_path / "b", "p", "train")) == here
    others = [
        files[::-1],
        files[:1],
        _write(tmp_path / "shorter", examples=199),
        _write(tmp_path / "other ids", first=2),
        _write(tmp_path / "small", examples=2, length=2),
    ]
    assert len({here, *map(shard_manifest.fingerprint, others)}) == 1 + len(others)
