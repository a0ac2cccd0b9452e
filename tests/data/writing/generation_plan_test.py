import os
import resource

import pytest

from ut_keras.data import tfrecords
from ut_keras.data.writing import generation_plan
from ut_keras.errors import DataError
from ut_keras.files import json_file, own_files, path_lock

NUM_SHARDS = {"train": 3, "dev": 1, "test": 1}


def _plan(tmp_path, tasks=None, seed=5):
    plan = generation_plan.plan(tmp_path, "p", NUM_SHARDS, seed, tasks)
    return {split.name: shards for split, shards in plan.items()}


def test_plan_of_empty_folder_has_all_files(tmp_path):
    assert _plan(tmp_path) == {"train": [0, 1, 2], "dev": [0], "test": [0]}


def test_plan_counts_tasks_over_all_splits(tmp_path):
    assert _plan(tmp_path, [4]) == {"test": [0]}
    assert _plan(tmp_path, [1, 2, 3]) == {"train": [1, 2], "dev": [0]}


@pytest.mark.parametrize("tasks, received", [([5], r"\[5\]"), ([-1, 0], r"\[-1\]"), ([], "none")])
def test_plan_rejects_unknown_tasks(tmp_path, tasks, received):
    with pytest.raises(DataError, match=rf"must be in 0\.\.4.*train, dev, test.*{received}"):
        _plan(tmp_path, tasks)


def test_plan_skips_complete_split_with_other_number_of_files(tmp_path):
    for path in tfrecords.shard_paths(tmp_path, "p", "train", 7):
        open(path, "w").close()
    assert _plan(tmp_path) == {"dev": [0], "test": [0]}
    assert _plan(tmp_path, [0]) == {}


def test_split_seeds_differ():
    seeds = {
        generation_plan.Split("d", name, split, 1, seed).seed
        for name in ("p", "q")
        for split in ("train", "dev")
        for seed in (1, 2)
    }
    assert len(seeds) == 8


def test_claimed_removes_leftover_locks(tmp_path):
    there, missing = tfrecords.shard_paths(tmp_path, "p", "dev", 2)
    open(there, "w").close()
    split = generation_plan.Split(str(tmp_path), "p", "dev", 2, 5)
    generation_plan.write_origin(split, {"checksum": "0"})
    locks = [path_lock.beside(path, "lock") for path in (there, missing)]
    for lock in locks:
        path_lock.try_lock(lock).close()
    with path_lock.held(missing, "x"):
        with pytest.raises(path_lock.LockedError):
            generation_plan.claimed(tmp_path, "p", {"dev": 2}, 5).__enter__()
        assert [os.path.exists(lock) for lock in locks] == [False, True]


def test_claimed_raises_the_limit_of_open_files(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 30, limits[1]))
        with generation_plan.claimed(str(tmp_path), "p", {"train": 100}, 1) as missing:
            assert [len(shards) for shards in missing.values()] == [100]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_write_origin_keeps_counts_of_existing_files(tmp_path):
    split = generation_plan.Split(str(tmp_path), "p", "train", 3, 5)
    origin = {"samples": 6, "checksum": "0"}
    generation_plan.write_origin(split, origin)
    tfrecords.write([{"targets": [1]}] * 2, split.paths[1:2])
    generation_plan.add_counts(split, {2: 9, 1: 2})
    generation_plan.write_origin(split, origin)
    generation_plan.check_counts(split.paths, [7, 2, 9], is_one_each=False)
    with pytest.raises(DataError, match=f"{split.paths[1]} must hold 2 records.* Received: 3"):
        generation_plan.check_counts(split.paths, [7, 3, 9], is_one_each=False)
    other = generation_plan.Split(str(tmp_path), "p", "train", 3, random_seed=6)
    generation_plan.write_origin(other, origin)
    generation_plan.check_counts(split.paths, [7, 3, 9], is_one_each=False)


@pytest.mark.parametrize(
    "damaged", [{"records": [1]}, {"records": {"x": 1}}, {"records": {"0": "1"}}, {"samples": "1"}]
)
def test_check_counts_ignores_invalid_origin(tmp_path, damaged):
    split = generation_plan.Split(str(tmp_path), "p", "train", 1, 5)
    own_files.make_folder(str(tmp_path))
    json_file.write(split.origin_path, {**split.plan, **damaged})
    generation_plan.check_counts(split.paths, [7], is_one_each=True)
