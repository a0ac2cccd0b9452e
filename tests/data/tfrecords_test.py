import os
import shutil

import pytest
import tensorflow as tf

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError

T2T_DATA_DIR = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "data_dir")


def test_file_names_match_t2t():
    paths = tfrecords.shard_paths("d", "my_problem", "train", 2)
    assert paths == ["d/my_problem-train-00000-of-00002", "d/my_problem-train-00001-of-00002"]


def test_read_returns_written_examples(tmp_path):
    paths = tfrecords.shard_paths(tmp_path, "p", "train", 2)
    examples = [{"inputs": [i, 1], "targets": [300 + i]} for i in range(5)]
    assert tfrecords.write(examples, paths) == 5
    assert tfrecords.find(tmp_path, "p", "train") == paths
    assert list(tfrecords.read(paths[0])) == examples[::2]
    assert list(tfrecords.read(paths[1])) == examples[1::2]
    assert len(os.listdir(tmp_path)) == 2


def test_write_leaves_no_files_after_error(tmp_path):
    def examples():
        yield {"inputs": [2]}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tfrecords.write(examples(), tfrecords.shard_paths(tmp_path, "p", "train", 2))
    assert os.listdir(tmp_path) == []


def test_write_rejects_empty_features(tmp_path):
    with pytest.raises(DataError, match="'inputs'.*not be empty"):
        tfrecords.write([{"inputs": []}], tfrecords.shard_paths(tmp_path, "p", "train", 1))
    assert os.listdir(tmp_path) == []


def test_serialize_is_deterministic():
    forwards = {f"feature{i}": [i] for i in range(9)}
    backwards = dict(reversed(forwards.items()))
    assert tfrecords.serialize(forwards) == tfrecords.serialize(backwards)


def test_read_accepts_files_of_t2t():
    paths = tfrecords.find(T2T_DATA_DIR, "algorithmic_reverse_binary40", "train")
    assert len(paths) == 10
    for example in tfrecords.read(paths[3]):
        assert example["inputs"][-1] == example["targets"][-1] == 1
        assert example["inputs"][-2::-1] == example["targets"][:-1]


def _assert_one_line(error):
    assert "\n" not in str(error.value)


def test_find_reports_missing_files(tmp_path):
    with pytest.raises(DataError, match="data_dir=.*--generate_data") as error:
        tfrecords.find(tmp_path / "absent", "p", "train")
    _assert_one_line(error)
    with pytest.raises(DataError, match="files p-train-.*--generate_data") as error:
        tfrecords.find(tmp_path, "p", "train")
    _assert_one_line(error)
    with pytest.raises(DataError, match="one of train, dev, test.*'eval'") as error:
        tfrecords.find(tmp_path, "p", "eval")

    paths = tfrecords.shard_paths(tmp_path, "p", "train", 3)
    tfrecords.write([{"inputs": [2]}] * 3, paths)
    # `find` ignores files of another problem whose name begins with the same letters.
    tfrecords.write([{"inputs": [2]}], tfrecords.shard_paths(tmp_path, "p-train", "train", 1))
    assert tfrecords.find(tmp_path, "p", "train") == paths
    os.remove(paths[1])
    with pytest.raises(DataError, match="missing: p-train-00001-of-00003") as error:
        tfrecords.find(tmp_path, "p", "train")
    _assert_one_line(error)
    tfrecords.write([{"inputs": [2]}], tfrecords.shard_paths(tmp_path, "p", "train", 1))
    with pytest.raises(DataError, match="of-00001 and of-00003") as error:
        tfrecords.find(tmp_path, "p", "train")
    _assert_one_line(error)


def _write_numbers(folder, examples=200, length=800, first=1):
    os.makedirs(folder, exist_ok=True)
    paths = tfrecords.shard_paths(folder, "p", "train", 2)
    tfrecords.write(({"targets": [first + i] * length} for i in range(examples)), paths)
    return paths


def test_fingerprint_depends_on_content(tmp_path):
    files = _write_numbers(tmp_path / "a")
    here = tfrecords.fingerprint(files)
    total = sum(os.path.getsize(file) for file in files)
    assert here.startswith(f"2 files, {total:,} bytes, sha256 ") and total > 4 * (1 << 15)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    os.utime(files[0], (0, 0))
    assert tfrecords.fingerprint(tfrecords.find(tmp_path / "b", "p", "train")) == here
    others = [
        files[::-1],
        files[:1],
        _write_numbers(tmp_path / "shorter", examples=199),
        _write_numbers(tmp_path / "other ids", first=2),
        _write_numbers(tmp_path / "small", examples=2, length=2),
    ]
    assert len({here, *map(tfrecords.fingerprint, others)}) == 1 + len(others)


def test_other_format_is_none_for_uncompressed_files(tmp_path):
    """The size of the first record may look like the first bytes of a compressed file."""
    for number, (first, second) in enumerate([(0x78, 0x01), (0x78, 0x9C), (0x1F, 0x8B)]):
        path = tfrecords.shard_paths(tmp_path, f"p{number}", "dev", 1)[0]
        record = b"\0" * (first + (second << 8))
        with tf.io.TFRecordWriter(path) as writer:
            writer.write(record)
        with open(path, "rb") as file:
            assert file.read(2) == bytes([first, second])
        assert tfrecords.other_format(path) is None
        with open(path, "r+b") as file:  # now the checksum is wrong
            file.seek(9)
            file.write(b"\xff\xff")
        assert tfrecords.other_format(path) is None
    open(path, "wb").close()
    assert tfrecords.other_format(path) is None


def test_find_names_the_other_data_of_the_folder(tmp_path):
    tfrecords.write([{"inputs": [2]}], tfrecords.shard_paths(tmp_path, "old_name", "train", 2))
    tfrecords.write([{"inputs": [2]}], tfrecords.shard_paths(tmp_path, "old_name", "dev", 1))
    with pytest.raises(DataError) as error:
        tfrecords.find(tmp_path, "new_name", "train")
    assert "which has none. It has files of old_name-dev, old_name-train." in str(error.value)
    assert "override dataset_filename" in str(error.value)
    with pytest.raises(DataError) as error:
        tfrecords.find(tmp_path, "old_name", "test")
    assert "old_name-train. Generate the data" in str(error.value)
    os.remove(tmp_path / "old_name-dev-00000-of-00001")
    with pytest.raises(DataError, match="old_name-train. To train without .*--schedule=train"):
        tfrecords.find(tmp_path, "old_name", "dev")


def test_find_does_not_suggest_to_rename_unshuffled_files(tmp_path):
    """A generation of a T2T package that was stopped leaves such files. They can be incomplete."""
    (tmp_path / "name-unshuffled-train-00000-of-00001").touch()
    with pytest.raises(DataError) as error:
        tfrecords.find(tmp_path, "name", "train")
    assert "a generation did not finish. Generate the data" in str(error.value)
    assert "rename" not in str(error.value)
    with pytest.raises(DataError, match="which has none. Generate the data"):
        tfrecords.find(tmp_path, "new_name", "train")


def test_find_rejects_an_incomplete_copy_of_an_unshuffled_file(tmp_path):
    """T2T writes the copy under its final name. A file may end after any record."""
    final = tfrecords.shard_paths(tmp_path, "name", "train", 2)
    unshuffled = tfrecords.shard_paths(tmp_path, "name-unshuffled", "train", 2)
    examples = [{"inputs": [2, i]} for i in range(8)]
    tfrecords.write(examples, final)
    tfrecords.write(examples[::-1], unshuffled)
    os.remove(unshuffled[0])
    assert tfrecords.find(tmp_path, "name", "train") == final
    tfrecords.write(examples[:3], final[1:])
    advice = f"remove both files and generate .* only remove {unshuffled[1]}"
    with pytest.raises(DataError, match=f"{final[1]} must have the .* {advice}"):
        tfrecords.find(tmp_path, "name", "train")
    tfrecords.write(examples, tfrecords.shard_paths(tmp_path, "name-unshuffled", "train", 9))
    os.remove(unshuffled[1])
    assert tfrecords.find(tmp_path, "name", "train") == final


def test_find_accepts_generated_files_next_to_unshuffled_files(tmp_path):
    """An error about unshuffled files advises to generate the data. The sizes then differ."""
    problem = problems.get("algorithmic_reverse_binary40")
    counts = problem.shards_to_generate(None)
    for split, count in counts.items():
        paths = tfrecords.shard_paths(tmp_path, f"{problem.filename}-unshuffled", split, count)
        tfrecords.write([{"inputs": [2, 1], "targets": [2, 1]}], paths)
    with pytest.raises(DataError, match="did not finish. Generate the data"):
        problem.split_files("train", tmp_path)
    problem.generate_data(tmp_path, max_cases=20)
    for split, count in counts.items():
        assert len(problem.split_files(split, tmp_path)) == count


def test_find_names_compressed_files(tmp_path):
    (tmp_path / "name-train-00000-of-00002.gz").touch()
    with pytest.raises(DataError, match=r"such as name-train-00000-of-00002\.gz\. Decompress"):
        tfrecords.find(tmp_path, "name", "train")
    with pytest.raises(DataError, match="which has none. Generate the data"):
        tfrecords.find(tmp_path, "other_name", "train")


def test_find_in_a_folder_without_data_names_no_other_data(tmp_path):
    (tmp_path / "notes-train.txt").touch()
    with pytest.raises(DataError, match=r"which has none\. Generate the data"):
        tfrecords.find(tmp_path, "name", "train")
