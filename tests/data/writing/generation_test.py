import collections
import functools
import itertools
import json
import os
import re

import pytest

from ut_keras.data import tfrecords
from ut_keras.data.writing import external_shuffle, generation, generation_plan
from ut_keras.errors import DataError
from ut_keras.files import path_lock
from ut_keras.process import live_line

SAMPLES = [{"inputs": str(i), "targets": str(i % 10)} for i in range(200)]


def _split(tmp_path, num_shards=4, seed=5, name="train"):
    return generation_plan.Split(str(tmp_path), "p", name, num_shards, seed)


def encode(samples):
    for sample in samples:
        yield {name: [int(text) + 2, 1] for name, text in sample.items()}


def _fail_at(number, error, samples):
    for sample in samples:
        if sample["inputs"] == str(number):
            raise error
        yield {"inputs": [int(sample["inputs"])]}


def _write(split, shards=None, samples=SAMPLES, **options):
    wanted = generation_plan.missing_shards(split, shards)
    title = f"{split.filename} {split.name}, reading"
    read = generation.Samples(iter(samples), title, options.pop("max_cases", None))
    return generation.write(split, read, options.pop("encode", encode), wanted, **options)


def _content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def _inputs(path):
    return [record["inputs"][0] - 2 for record in tfrecords.read(path)]


@pytest.fixture
def few_in_memory(monkeypatch):
    """Limit the memory, so that even few samples make ut_keras write its buckets to files."""
    monkeypatch.setattr(
        external_shuffle, "Buckets", functools.partial(external_shuffle.Buckets, memory=2000)
    )


def _names_of_all_files(split):
    return sorted([*map(os.path.basename, split.paths), ".ut_keras-records"])


def test_write_shuffles_and_spreads_all_samples(tmp_path):
    split = _split(tmp_path)
    assert _write(split) == 200
    shards = [_inputs(path) for path in split.paths]
    assert [len(shard) for shard in shards] == [50] * 4
    assert sorted(i for shard in shards for i in shard) == list(range(200))
    assert all(shard != sorted(shard) for shard in shards)
    assert sorted(os.listdir(tmp_path)) == _names_of_all_files(split)
    assert generation_plan.missing_shards(split) == []


def test_write_keeps_order_of_dev(tmp_path):
    split = _split(tmp_path, num_shards=1, name="dev")
    _write(split)
    assert _inputs(split.paths[0]) == list(range(200))


def test_bytes_depend_only_on_seed(tmp_path, few_in_memory):
    def content(name, seed=5, **options):
        (tmp_path / name).mkdir()
        _write(_split(tmp_path / name, seed=seed), **options)
        return _content(tmp_path / name)

    one = content("one", num_processes=1)
    assert one == content("two", num_processes=2)
    assert one != content("other", seed=6, num_processes=1)
    (tmp_path / "tasks").mkdir()
    for task in (2, 0, 3, 1):
        assert _write(_split(tmp_path / "tasks"), [task], num_processes=1) == 50
    assert one == _content(tmp_path / "tasks")


def test_bytes_do_not_depend_on_memory(tmp_path, monkeypatch):
    _write(_split(tmp_path))
    in_memory = _content(tmp_path)
    (tmp_path / "files").mkdir()
    monkeypatch.setattr(
        external_shuffle, "Buckets", functools.partial(external_shuffle.Buckets, memory=2000)
    )
    _write(_split(tmp_path / "files"), num_processes=1)
    assert in_memory == _content(tmp_path / "files")


def test_write_resumes_interrupted_run(tmp_path, few_in_memory):
    split = _split(tmp_path)
    (tmp_path / "whole").mkdir()
    _write(_split(tmp_path / "whole"), num_processes=1)
    stop_at = _inputs(_split(tmp_path / "whole").paths[2])[10]
    with pytest.raises(KeyboardInterrupt):
        _write(
            split,
            encode=functools.partial(_fail_at, stop_at, KeyboardInterrupt()),
            num_processes=1,
        )
    # The interrupted command finished only the first two files.
    assert generation_plan.missing_shards(split) == [2, 3]
    names = sorted(os.listdir(tmp_path))
    assert names[:-1] == [
        ".ut_keras-records",
        *(os.path.basename(path) for path in split.paths[:2]),
    ]
    assert os.listdir(tmp_path / ".ut_keras-records") == ["datagen.p-train.json"]
    for path in split.paths[:2]:
        os.remove(path)  # `_fail_at` and `encode` return different records.
    _write(split, [0, 1], num_processes=1)
    times = [os.stat(path).st_mtime_ns for path in split.paths[:2]]
    assert _write(split, num_processes=1) == 100
    assert times == [os.stat(path).st_mtime_ns for path in split.paths[:2]]
    assert _content(tmp_path) == _content(tmp_path / "whole")


def _begin(tmp_path):
    split = _split(tmp_path)
    _write(split, [0, 1])
    return split


def test_resume_rejects_other_samples(tmp_path):
    split = _begin(tmp_path)
    before = _content(tmp_path)
    with pytest.raises(DataError, match="200 samples.* Received: 199 samples"):
        _write(split, samples=SAMPLES[1:])
    assert _content(tmp_path) == before


def test_origin_of_earlier_version_is_read_and_moved(tmp_path):
    """Earlier versions wrote the JSON record of a split next to the data files."""
    split = _begin(tmp_path)
    earlier = tmp_path / "datagen.p-train.json"
    os.rename(split.origin_path, earlier)
    assert split.origin_path == str(earlier)
    assert generation_plan.missing_shards(split) == [2, 3]
    with pytest.raises(DataError, match="200 samples.* Received: 199 samples"):
        _write(split, samples=SAMPLES[1:])
    assert _write(split, [2, 3]) == 100
    assert sorted(os.listdir(tmp_path)) == _names_of_all_files(split)
    assert os.listdir(tmp_path / ".ut_keras-records") == ["datagen.p-train.json"]


def test_other_seed_replaces_files_unless_tasks_are_given(tmp_path):
    _begin(tmp_path)
    other = _split(tmp_path, seed=6)
    with pytest.raises(DataError, match="'random_seed': 6.*Received: .*'random_seed': 5"):
        generation_plan.missing_shards(other, [2])
    assert generation_plan.missing_shards(other) == [0, 1, 2, 3]
    assert _write(other) == 200
    (tmp_path / "clean").mkdir()
    _write(_split(tmp_path / "clean", seed=6))
    assert _content(tmp_path) == _content(tmp_path / "clean")


def test_missing_shards_rejects_files_after_origin_is_removed(tmp_path):
    split = _begin(tmp_path)
    os.remove(split.origin_path)
    with pytest.raises(DataError, match="unknown origin"):
        generation_plan.missing_shards(split)
    with pytest.raises(DataError, match="unknown origin"):
        generation_plan.missing_shards(split, [2])


def test_progress_line_shows_size_of_samples(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(live_line, "_LOG_SECONDS", 0)
    _write(_split(tmp_path), samples=itertools.cycle(SAMPLES), max_cases=3000)
    [second] = re.findall("p train, reading: 2,000, .*", capsys.readouterr().out)
    assert re.fullmatch(r".*/s, [6-9]\d(\.\d+)? kB", second)


@pytest.mark.parametrize("samples, options", [([], {}), (SAMPLES, {"encode": lambda samples: ()})])
def test_write_rejects_empty_data(tmp_path, samples, options):
    with pytest.raises(DataError, match="p train.*Received: none"):
        _write(_split(tmp_path), samples=samples, **options)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("num_processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_write_leaves_nothing_after_data_error(tmp_path, few_in_memory, num_processes):
    with pytest.raises(DataError, match="the 150th"):
        _write(
            _split(tmp_path),
            encode=functools.partial(_fail_at, 150, DataError("the 150th")),
            num_processes=num_processes,
        )
    assert os.listdir(tmp_path) == []


def test_origin_records_skipped_samples(tmp_path):
    skipped = collections.Counter()

    def samples():
        skipped["with an empty side"] += 2
        yield from SAMPLES

    split = _split(tmp_path)
    _write(split, samples=samples(), skipped=skipped)
    with open(tmp_path / ".ut_keras-records" / "datagen.p-train.json", encoding="utf-8") as file:
        origin = json.load(file)
    assert origin["left_out"] == {"with an empty side": 2} and origin["samples"] == 200


def test_write_removes_leftovers_of_killed_runs_only(tmp_path):
    split = _split(tmp_path)
    names = [".p-train.ut_keras-00000000", ".p-train-00001-of-00004.ut_keras-00000001"]
    alive = ".p-train.ut_keras-00000002"
    for name in (*names, alive):
        (tmp_path / name).mkdir()
        path_lock.try_lock(str(tmp_path / name / "lock")).close()
    others = [f"{os.path.basename(split.paths[1])}.incomplete", "datagen.p-train.working.mine"]
    for name in others:
        (tmp_path / name).write_text("mine")
    assert generation_plan.missing_shards(split) == [0, 1, 2, 3]
    with path_lock.try_lock(str(tmp_path / alive / "lock")):
        _write(split)
    assert sorted(os.listdir(tmp_path)) == sorted([*_names_of_all_files(split), *others, alive])


def test_missing_shards_rejects_files_without_origin(tmp_path):
    """ut_keras must not replace data files that have no JSON record of ut_keras."""
    split = _split(tmp_path)
    with open(split.paths[1], "w") as file:
        file.write("mine")
    with pytest.raises(DataError, match="Received: files of unknown origin"):
        generation_plan.missing_shards(split)
    (tmp_path / "datagen.p-train.json").write_text("mine")  # a file of the user
    with pytest.raises(DataError, match="files of unknown origin"):
        generation_plan.missing_shards(split)
    (tmp_path / ".ut_keras-records").mkdir()
    with open(split.origin_path, "w") as file:
        file.write("mine")
    with pytest.raises(DataError, match="must be a record of ut_keras"):
        generation_plan.missing_shards(split)
