"""Which files of a split are to be written, and what those that are present are made of.

    with claimed(data_dir, "my_problem", {"train": 10, "dev": 1}, seed, tasks) as missing:
        for split, shards in missing.items():
            …                                                          see generation.py

    .ut_keras-records/datagen.<problem>-train.json
                            {"random_seed": 1, "shards": 10, "samples": …, "checksum": …}

The JSON file, the origin of a split (`own_files`), is written before the split's first file, and
stays. The seed and a checksum of all samples tell a later run whether it can resume. The file also
has the number of samples that were skipped while reading, and why. When the files are written, it
gets the number of records in each: `check_counts` compares these with what training reads.
"""

import contextlib
import dataclasses
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ut_keras import process
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.files import json_file, own_files, path_lock

KEYS = ("random_seed", "shards")  # of an origin


@dataclasses.dataclass(frozen=True)
class Split:
    """What is to be written."""

    data_dir: str
    filename: str  # what the files' names begin with
    name: str  # "train", "dev" or "test"
    num_shards: int  # files
    random_seed: int  # the user's

    @property
    def seed(self) -> int:
        """int. The user's seed, for this split alone."""
        # Python's own hash of a string differs from run to run.
        return zlib.crc32(f"{self.filename} {self.name} {self.random_seed}".encode())

    @property
    def is_shuffled(self) -> bool:
        return self.name == "train"

    @property
    def paths(self) -> list[str]:
        """The files, by shard."""
        return tfrecords.shard_paths(self.data_dir, self.filename, self.name, self.num_shards)

    @property
    def origin_path(self) -> str:
        """str. The JSON file, where it is read."""
        return origin_path(self.data_dir, self.filename, self.name)

    @property
    def plan(self) -> dict[str, Any]:
        """dict. What files must have in common to belong together."""
        return {"random_seed": self.random_seed, "shards": self.num_shards}


@contextlib.contextmanager
def claimed(
    data_dir: str,
    filename: str,
    num_shards: Mapping[str, int],
    random_seed: int,
    tasks: Sequence[int] | None = None,
) -> Iterator[dict[Split, list[int]]]:
    """Context of what is missing, as `plan` returns it, in which no other process writes that.

    Raises:
        LockedError: if another process writes one of the files.
        DataError: as `plan`.
    """
    for name, number in num_shards.items():
        for path in tfrecords.shard_paths(data_dir, filename, name, number):
            if os.path.lexists(path):  # and is not locked again
                path_lock.remove_leftover(path)
    arguments = (data_dir, filename, num_shards, random_seed, tasks)
    process.allow_open_files(sum(num_shards.values()))  # a lock for each
    with contextlib.ExitStack() as locks:
        for split, shards in plan(*arguments).items():
            for path in (split.paths[shard] for shard in shards):
                locks.enter_context(path_lock.held(path, "Data must be generated"))
        # Another process may have written some of it just before.
        yield plan(*arguments)


def plan(
    data_dir: str,
    filename: str,
    num_shards: Mapping[str, int],
    random_seed: int,
    tasks: Sequence[int] | None = None,
) -> dict[Split, list[int]]:
    """Returns what is missing.

    Args:
        filename: str. What the files' names begin with.
        num_shards: dict from the name of a split to its number of files.
        tasks: list of int. The files that are wanted, counted over the splits from 0 on; the others
            may be made by other machines at the same time. None wants all.
    Returns:
        dict from `Split` to the list of its shards that are to be written; no empty ones.
    Raises:
        DataError: if present are no such tasks, or other files where only some are wanted.
    """
    total = sum(num_shards.values())
    outside = [task for task in tasks or () if not 0 <= task < total]
    if outside or tasks == []:
        raise DataError(
            f"The tasks of {filename} must be in 0..{total - 1}, one per file of "
            f"{', '.join(num_shards)}. Received: {outside or 'none'}."
        )
    missing = {}
    first = 0
    for name, number in num_shards.items():
        split = Split(str(data_dir), filename, name, number, random_seed)
        wanted = None
        if tasks is not None:
            wanted = [task - first for task in tasks if 0 <= task - first < number]
        first += number
        if not tfrecords.is_complete(data_dir, filename, name) and wanted != []:
            missing[split] = missing_shards(split, wanted)
    return {split: shards for split, shards in missing.items() if shards}


def origin_path(data_dir: str, filename: str, split: str) -> str:
    """Returns the path of the JSON file that says what a split is made of."""
    return own_files.find(data_dir, _origin_name(filename, split), KEYS)


def remove_origin(split: Split) -> None:
    """Removes the JSON file, if there is one."""
    own_files.remove(split.data_dir, _origin_name(split.filename, split.name), KEYS)


def _origin_name(filename, split):
    return f"datagen.{filename}-{split}.json"


def missing_shards(split: Split, shards: Sequence[int] | None = None) -> list[int]:
    """Returns the shards, among `shards` (all if None), that are not present.

    Those of another seed count as missing where all are wanted. Where only some are, others may be
    made elsewhere at the same time, and nothing is overwritten; nor is what somebody else has made.

    Raises:
        DataError: in these cases.
    """
    present = [shard for shard, path in enumerate(split.paths) if os.path.lexists(path)]
    wanted = range(split.num_shards) if shards is None else shards
    if len(present) == split.num_shards:
        return []
    own_files.check_folder(split.data_dir)
    origin = json_file.read_own(split.origin_path, KEYS)
    if not present or (origin and {**origin, **split.plan} == origin):
        return [shard for shard in wanted if shard not in present]
    if shards is None and origin:
        return list(wanted)
    raise DataError(
        f"The files {split.filename}-{split.name}-* in {split.data_dir!r} must have this seed and "
        f"number: {split.plan}. Received: {origin or 'files of unknown origin'}. Remove the files "
        "to generate them again."
    )


def write_origin(split: Split, origin: dict[str, Any]) -> None:
    """Writes the JSON file.

    Raises:
        DataError: if present are files of other samples.
    """
    known = json_file.read_own(split.origin_path, KEYS)
    stays = any(os.path.exists(path) for path in split.paths)
    if stays and known and known.get("checksum") != origin["checksum"]:
        raise DataError(
            f"The samples must be the {known.get('samples')} samples with checksum "
            f"{known.get('checksum')} from which the files {split.filename}-{split.name}-* in "
            f"{split.data_dir!r} were made. Received: {origin['samples']} samples, checksum "
            f"{origin['checksum']}. Remove the files to generate them again."
        )
    records = {}
    if known and {**known, **split.plan} == known:
        there = {f"{shard}" for shard, path in enumerate(split.paths) if os.path.exists(path)}
        records = {shard: n for shard, n in _recorded(known).items() if shard in there}
    _write(split, {**split.plan, **origin, "records": records})


def add_counts(split: Split, counts: Mapping[int, int]) -> None:
    """Adds the number of records of each new shard to the JSON file.

    Other machines may do the same for their shards at the same time. A count that is lost so is not
    compared with anything.
    """
    origin = json_file.read_own(split.origin_path, KEYS) or split.plan
    records = {**_recorded(origin), **{str(shard): count for shard, count in counts.items()}}
    records = dict(sorted(records.items(), key=lambda item: int(item[0])))
    _write(split, {**origin, "records": records})


def check_counts(files: Sequence[str], counts: Sequence[int], is_one_each: bool) -> None:
    """Checks that the files of a split hold as many records as were written to them.

    Files without an origin beside them, such as T2T's, are not checked.

    Args:
        files: list of str, all files of the split, in their order.
        counts: list of int, how many records each holds.
        is_one_each: bool. Whether each sample became one record. The number of samples then tells
            the number of records where the origin does not: earlier versions did not write it.
    Raises:
        DataError: if a file holds more or fewer, or if the origin is of more or fewer files.
    """
    filename, split = tfrecords.parse_path(files[0])
    path = origin_path(os.path.dirname(files[0]), filename, split)
    origin = json_file.read_own(path, KEYS)
    if origin is None:
        return
    advice = (
        f"Remove the files of this split and {path} and generate the data again; if the files were "
        "changed on purpose, remove the latter only"
    )
    if origin["shards"] != len(files):
        raise DataError(
            f"{filename}-{split} must have {origin['shards']} files, as {path} says. "
            f"Received: {len(files)}. {advice}."
        )
    recorded = _recorded(origin)
    found: Any = origin.get("samples")
    samples = found if is_one_each and isinstance(found, int) else None
    for shard, (file, count) in enumerate(zip(files, counts, strict=True)):
        expected = [recorded[str(shard)]] if str(shard) in recorded else []
        if samples is not None and not expected:  # each shard has one of so many neighbours
            share = samples // len(files)
            expected = [share, share + 1] if samples % len(files) else [share]
        if expected and count not in expected:
            raise DataError(
                f"{file} must hold {' or '.join(f'{number:,}' for number in expected)} records, as "
                f"{path} says. Received: {count:,}. {advice}."
            )
    if samples is not None and sum(counts) != samples:
        raise DataError(
            f"{filename}-{split} must hold {samples:,} records, as {path} says. "
            f"Received: {sum(counts):,}. {advice}."
        )


def _recorded(origin):
    """{shard: number of its records} of an origin, as far as it says."""
    records = origin.get("records")
    items = records.items() if isinstance(records, dict) else ()
    return {shard: n for shard, n in items if shard.isdigit() and isinstance(n, int)}


def _write(split, origin):
    name = _origin_name(split.filename, split.name)
    own_files.write(split.data_dir, name, origin, KEYS, indent=2)
