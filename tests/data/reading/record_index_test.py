import os
import re
import resource
import shutil
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.data import flipped_bits
from ut_keras.data import tfrecords
from ut_keras.data.reading import record_index
from ut_keras.errors import DataError


def _write(folder, count=50, num_shards=3):
    paths = tfrecords.shard_paths(folder, "p", "train", num_shards)
    tfrecords.write([{"targets": [i] * (1 + i % 7)} for i in range(count)], paths)
    return paths


def _lengths_of(files, records):
    del files
    return tf.io.parse_example(
        records, {"targets": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int32)}
    )["targets"].row_lengths()


def _get(files, key=""):
    record_index._indexes.clear()
    return record_index.get(files, _lengths_of, key)


def _targets(record):
    return list(tf.train.Example.FromString(record).features.feature["targets"].int64_list.value)


def test_read_returns_any_records(tmp_path):
    files = _write(tmp_path)
    index = _get(files)
    assert len(index) == 50
    of_files = [[example["targets"] for example in tfrecords.read(file)] for file in files]
    expected = sum(of_files, [])
    assert index.lengths.tolist() == [len(ids) for ids in expected]
    numbers = np.random.RandomState(0).permutation(50)
    found_files, records = index.read(numbers)
    assert [_targets(record) for record in records] == [expected[number] for number in numbers]
    for number, file in zip(numbers, found_files, strict=True):
        assert expected[number] in of_files[file]


def test_index_of_empty_files_is_empty(tmp_path):
    files = _write(tmp_path, count=2, num_shards=4)
    index = _get([files[2], *files])
    assert index.read([1])[0].tolist() == [2]
    assert _targets(index.read([1])[1][0]) == [1, 1]
    assert len(_get(files[2:])) == 0


@pytest.mark.parametrize(
    ("copied", "kept", "note"),
    [
        (1, None, "train-00000-of-00003 and .*train-00001-of-00003 have the same records"),
        (None, 3, "train-00002-of-00003 has 3 records, and .*train-00000-of-00003 has 17"),
        (None, None, ""),
    ],
)
def test_check_shares_notes_copied_and_incomplete_files(tmp_path, capsys, copied, kept, note):
    """T2T does not store how many examples each of its files has."""
    files = _write(tmp_path)
    if copied:
        shutil.copy(files[0], files[copied])
    if kept:
        tfrecords.write(list(tfrecords.read(files[2]))[:kept], files[2:])
    index = _get(files)
    index.check_shares()
    index.check_shares()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == bool(note)
    assert not note or re.search(note, lines[0])


@pytest.mark.parametrize("replaced", ["train", "dev"])
def test_check_shares_notes_a_file_that_replaced_a_file_of_another_split(
    tmp_path, capsys, replaced
):
    files = _write(tmp_path)
    dev = tfrecords.shard_paths(tmp_path, "p", "dev", 1)
    tfrecords.write([{"targets": [9] * (1 + i % 7)} for i in range(16)], dev)
    tfrecords.write([{"targets": [9]}] * 16, tfrecords.shard_paths(tmp_path, "q", "dev", 1))
    for split in (files, dev):
        _get(split).check_shares()
    assert not capsys.readouterr().out
    train = files[1]
    shutil.copy(*((dev[0], train) if replaced == "train" else (train, dev[0])))
    for split in (files, dev):
        _get(split).check_shares()
    [line] = capsys.readouterr().out.splitlines()
    assert f"{dev[0]} and {train} have the same records" in line


def test_index_raises_the_limit_of_open_files(tmp_path):
    files = _write(tmp_path, num_shards=50)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 30, limits[1]))
        index = _get(files)
        assert len(index.read(np.arange(50))[1]) == 50
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_get_makes_an_index_once(tmp_path, monkeypatch):
    files = _write(tmp_path)
    index = _get(files)
    assert record_index.get(files, None, "") is index
    assert not list(tmp_path.rglob("record_index*"))
    tfrecords.write([{"targets": [1]}], files[:1])
    assert len(record_index.get(files, _lengths_of, "")) != len(index)


def test_get_keeps_a_few_indexes_in_memory(tmp_path, monkeypatch):
    """A process keeps the indexes of training and evaluation, and frees older indexes."""
    scans, scan = [], record_index._scan
    monkeypatch.setattr(record_index, "_scan", lambda *args: scans.append(args) or scan(*args))
    record_index._indexes.clear()
    for name in "abcdef":
        (tmp_path / name).mkdir()
    several = [_write(tmp_path / name, count=2, num_shards=1) for name in "abcdef"]
    for files in several[:2] * 3 + several:
        record_index.get(files, _lengths_of, "")
    assert len(scans) == 6
    record_index.get(several[0], _lengths_of, "")
    assert len(scans) == 7


def test_index_time_is_that_of_reading(tmp_path, monkeypatch, capsys):
    """The reported time does not include tracing, which can take longer than reading."""
    monkeypatch.setattr(record_index, "_RECORDS_WORTH_KEEPING", 1)

    def slowly_traced(files, records):
        time.sleep(1.0)
        return _lengths_of(files, records)

    [file] = _write(tmp_path, count=1, num_shards=1)
    record_index.get([file], slowly_traced, "")
    assert capsys.readouterr().out.startswith("Indexed 1 record of 1 file in 0 s")


def test_get_saves_index_of_many_records_only(tmp_path, monkeypatch, capsys):
    """The number of records decides whether an index is saved.

    A decision by time would depend on the load of the machine.
    """
    monkeypatch.setattr(record_index, "_RECORDS_WORTH_KEEPING", 50)
    _get(_write(tmp_path, count=49))
    assert capsys.readouterr().out == "" and not list(tmp_path.rglob("record_index*"))
    _get(_write(tmp_path, count=50))
    assert "Indexed 50 records" in capsys.readouterr().out
    assert len(list(tmp_path.rglob("record_index*"))) == 1


def test_get_finds_saved_index_by_any_spelling_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(record_index, "_RECORDS_WORTH_KEEPING", 0)
    folder = tmp_path / "data"
    folder.mkdir()
    index = _get(_write(folder))
    monkeypatch.setattr(record_index, "_scan", None)
    monkeypatch.chdir(tmp_path)
    os.symlink("data", "link")
    names = [os.path.basename(file) for file in index.files]
    for spelled in ("data", "./data", "data/../data", "link", str(tmp_path / "link")):
        files = [os.path.join(spelled, name) for name in names]
        assert _get(files).read([17])[1] == index.read([17])[1]
    os.rename("data", "moved")
    assert len(_get([os.path.join("moved", name) for name in names])) == 50


def test_get_distinguishes_folders_with_equal_files(tmp_path):
    """Files in two folders can have the same name, size and time, but different records."""
    record_index._indexes.clear()
    indexes = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        [file] = tfrecords.shard_paths(folder, "p", "train", 1)
        tfrecords.write([{"targets": [number]}], [file])
        os.utime(file, ns=(10**18, 10**18))
        indexes.append(record_index.get([file], _lengths_of, ""))
    assert [_targets(index.read([0])[1][0]) for index in indexes] == [[1], [2]]


def test_get_saves_index_that_took_long(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record_index, "_RECORDS_WORTH_KEEPING", 0)
    files = _write(tmp_path)
    index = _get(files, key="a")
    assert "Indexed 50 records of 3 files" in capsys.readouterr().out
    (kept,) = tmp_path.rglob("record_index*")
    # The index must not be next to the data files. T2T reads every file whose name begins with the
    # name of a split, and other packages may read all files in the folder.
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        os.path.basename(file) for file in files
    ]
    monkeypatch.setattr(record_index, "_scan", None)
    again = _get(files, key="a")
    assert again.lengths.tolist() == index.lengths.tolist()
    assert again.read([17])[1] == index.read([17])[1]
    with pytest.raises(TypeError):  # `_scan` is None, but a new index needs a scan
        _get(files, key="b")
    # Earlier versions stored the index next to the data files.
    os.rename(kept, tmp_path / kept.name)
    assert _get(files, key="a").path == str(tmp_path / kept.name)


def test_read_detects_every_flipped_bit(tmp_path):
    """The test flips bits in the record sizes, in the records and in their checksums."""
    files = _write(tmp_path, count=12, num_shards=2)
    index = _get(files)
    everything = np.arange(len(index))
    with open(files[1], "rb") as file:
        content = file.read()
    size = int.from_bytes(content[:8], "little")
    first_record = range(8 * (12 + size + 4))
    for bit in [*first_record, *flipped_bits.bit_numbers(len(content), 100)]:
        with (
            flipped_bits.flipped(files[1], bit),
            pytest.raises(DataError, match=f"checksum, at byte .* {files[1]}"),
        ):
            index.read(everything)
    assert len(index.read(everything)[1]) == 12


def test_read_detects_truncated_file(tmp_path):
    files = _write(tmp_path)
    index = _get(files)
    os.truncate(files[2], os.path.getsize(files[2]) - 5)
    with pytest.raises(DataError, match=f"checksum, at byte .* {files[2]}"):
        index.read(np.arange(len(index)))


def test_get_replaces_damaged_index(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record_index, "_RECORDS_WORTH_KEEPING", 0)
    files = _write(tmp_path)
    _get(files)
    (kept,) = tmp_path.rglob("record_index*")
    whole = kept.read_bytes()
    for damaged in (b"", whole[:100], b"x" * 300):
        kept.write_bytes(damaged)
        assert len(_get(files)) == 50
        assert f"{kept} is damaged" in capsys.readouterr().out
        assert kept.read_bytes() == whole
    for bit in flipped_bits.bit_numbers(len(whole), 20):
        with flipped_bits.flipped(kept, bit):
            assert record_index._load(kept) is None
    assert record_index._load(kept) is not None


def test_get_works_in_read_only_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record_index, "_RECORDS_WORTH_KEEPING", 0)
    files = _write(tmp_path)

    def fail(*_, **__):
        raise PermissionError

    monkeypatch.setattr(np, "savez", fail)
    assert len(_get(files)) == 50
    assert "record_index-" not in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, files))


def test_index_rejects_files_that_changed_size(tmp_path):
    files = _write(tmp_path)
    index = _get(files)
    sizes = np.diff(index._offsets) - 16
    with open(files[1], "ab") as file:
        file.write(b"more")
    with pytest.raises(DataError, match=f"{files[0]}"):
        record_index.RecordIndex(files, sizes, index.lengths, "")
