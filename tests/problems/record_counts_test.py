"""Training checks that files have as many records as data generation wrote."""

import json
import os
import re
import types

import pytest

from ut_keras.data import tfrecords
from ut_keras.data.writing import generation_plan
from ut_keras.errors import DataError
from ut_keras.problems import packed, problem
from ut_keras.text import text_encoder

HPARAMS = types.SimpleNamespace(batch_size=64, max_length=32)


class Numbers(problem.Problem):
    """A problem of 1,000 examples with one number each."""

    name = "numbers"
    num_train_shards = 3

    def feature_encoders(self, data_dir):
        encoder = text_encoder.TokenTextEncoder(tokens=[f"{i}" for i in range(10)])
        return {"inputs": encoder, "targets": encoder}

    def generate_samples(self, split, data_dir, tmp_dir, seed):
        for i in range(1000):
            yield {"inputs": f"{i % 10}", "targets": f"{i // 10 % 10}"}


class NumbersPacked(packed.Packed, Numbers):
    name = "numbers_packed"
    packed_length = 8


def _generate(made, folder):
    made.generate_data(str(folder), num_processes=1)
    return {split: tfrecords.find(str(folder), made.name, split) for split in ("train", "dev")}


def _read(made, folder, split):
    return made.dataset(split, str(folder), HPARAMS)


def _keep_records(path, count):
    """Cut a file exactly after the given number of records."""
    tfrecords.write(list(tfrecords.read(path))[:count], [path])


def _forget_counts(folder, name, split):
    """Rewrite the origin file in the form of an earlier version.

    In this form, the file contains the number of samples, but no numbers of records.
    """
    path = generation_plan.origin_path(str(folder), name, split)
    with open(path, encoding="utf-8") as file:
        origin = json.load(file)
    del origin["records"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(origin, file)


def _assert_rejected(made, folder, split, path, expected, received):
    pattern = rf"{re.escape(path)} must hold .*{expected}.* Received: {received}\."
    with pytest.raises(DataError, match=pattern) as error:
        _read(made, folder, split)
    assert "\n" not in str(error.value)
    assert generation_plan.origin_path(str(folder), made.name, split) in str(error.value)


@pytest.mark.parametrize("made", [Numbers(), NumbersPacked()], ids=lambda made: made.name)
def test_dataset_rejects_file_cut_after_record(tmp_path, made):
    files = _generate(made, tmp_path)
    for split in ("train", "dev"):
        assert _read(made, tmp_path, split) is not None
        *_, last = files[split]
        count = len(list(tfrecords.read(last)))
        _keep_records(last, 77)
        _assert_rejected(made, tmp_path, split, last, f"{count:,}", 77)


@pytest.mark.parametrize("split, kept, share", [("dev", 77, "1,000"), ("train", 332, "333 or 334")])
def test_dataset_counts_samples_of_earlier_versions(tmp_path, split, kept, share):
    files = _generate(Numbers(), tmp_path)
    _forget_counts(tmp_path, "numbers", split)
    assert _read(Numbers(), tmp_path, split) is not None
    _keep_records(files[split][-1], kept)
    _assert_rejected(Numbers(), tmp_path, split, files[split][-1], share, kept)


def test_dataset_counts_samples_in_total(tmp_path):
    """Two files have 333 records each, and the third file has 334 records."""
    files = _generate(Numbers(), tmp_path)
    _forget_counts(tmp_path, "numbers", "train")
    [longest] = [path for path in files["train"] if len(list(tfrecords.read(path))) == 334]
    _keep_records(longest, 333)
    with pytest.raises(DataError, match="must hold 1,000 records.* Received: 999"):
        _read(Numbers(), tmp_path, "train")


def test_dataset_rejects_another_number_of_files(tmp_path):
    files = _generate(Numbers(), tmp_path)["train"]
    paths = tfrecords.shard_paths(str(tmp_path), "numbers", "train", 2)
    for path, renamed in zip(files, paths, strict=False):
        os.rename(path, renamed)
    os.remove(files[2])
    with pytest.raises(DataError, match="must have 3 files.* Received: 2"):
        _read(Numbers(), tmp_path, "train")


def test_dataset_rejects_additional_file(tmp_path):
    _generate(Numbers(), tmp_path)
    added = tmp_path / "numbers-train-00003-of-00003"
    tfrecords.write([{"inputs": [3], "targets": [3]}], [str(added)])
    with pytest.raises(DataError, match="from 0 to 2. Received: 00003"):
        _read(Numbers(), tmp_path, "train")


def test_dataset_reads_files_without_record_of_generation(tmp_path):
    """T2T's data folders have no file that describes the data generation."""
    files = _generate(Numbers(), tmp_path)
    os.remove(generation_plan.origin_path(str(tmp_path), "numbers", "dev"))
    _keep_records(files["dev"][0], 77)
    assert sum(len(targets) for _, targets in _read(Numbers(), tmp_path, "dev")) == 77


def test_machines_add_their_counts(tmp_path):
    """Each machine stores the counts of the files that it writes."""
    for task in (2, 0, 1, 3):
        Numbers().generate_data(str(tmp_path), tasks=[task], num_processes=1)
    path = generation_plan.origin_path(str(tmp_path), "numbers", "train")
    with open(path, encoding="utf-8") as file:
        records = json.load(file)["records"]
    assert list(records) == ["0", "1", "2"] and sum(records.values()) == 1000
    assert _read(Numbers(), tmp_path, "train") is not None
