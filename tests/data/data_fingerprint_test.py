import os
import shutil

from ut_keras.data import data_fingerprint, tfrecords


def _write(folder, examples=200, length=800, first=1):
    os.makedirs(folder, exist_ok=True)
    paths = tfrecords.shard_paths(folder, "p", "train", 2)
    tfrecords.write(({"targets": [first + i] * length} for i in range(examples)), paths)
    return paths


def test_is_of_what_the_files_hold(tmp_path):
    files = _write(tmp_path / "a")
    here = data_fingerprint.of(files)
    total = sum(os.path.getsize(file) for file in files)
    assert here.startswith(f"2 files, {total:,} bytes, sha256 ") and total > 4 * (1 << 15)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    os.utime(files[0], (0, 0))
    assert data_fingerprint.of(tfrecords.find(tmp_path / "b", "p", "train")) == here
    others = [
        files[::-1],
        files[:1],
        _write(tmp_path / "shorter", examples=199),
        _write(tmp_path / "other ids", first=2),
        _write(tmp_path / "small", examples=2, length=2),
    ]
    assert len({here, *map(data_fingerprint.of, others)}) == 1 + len(others)
