"""Which files of a split are to be written, and what those that are there are made of.

    for split, shards in plan(data_dir, "my_problem", {"train": 10, "dev": 1}, seed, tasks).items():
        …                                                              see generation.py

    datagen.<problem>-train.json      {"random_seed": 1, "shards": 10, "samples": …, "checksum": …}

The JSON file, the origin of a split, is written before its first file. By the seed and a checksum
of all samples a later run knows whether it may go on. When all files are there it stays only if
samples were left out while reading; it says how many, and why.
"""

import dataclasses
import json
import os
import zlib

from ut_keras import json_file, whole_file
from ut_keras.data import tfrecords
from ut_keras.data.tfrecords import DataError
from ut_keras.errors import UserError


@dataclasses.dataclass(frozen=True)
class Split:
    """What is to be written.

    Fields:
        data_dir: str. Folder to write to.
        filename: str. What the files' names begin with.
        name: "train", "dev" or "test".
        num_shards: int. Number of files.
        random_seed: int, the user's.
    """

    data_dir: str
    filename: str
    name: str
    num_shards: int
    random_seed: int

    @property
    def seed(self):
        """int. The user's seed, for this split alone."""
        # Python's own hash of a string differs from run to run.
        return zlib.crc32(f"{self.filename} {self.name} {self.random_seed}".encode())

    @property
    def is_shuffled(self):
        return self.name == "train"

    @property
    def paths(self):
        """list of str, by shard."""
        return tfrecords.shard_paths(self.data_dir, self.filename, self.name, self.num_shards)

    @property
    def origin_path(self):
        """str. The JSON file."""
        return origin_path(self.data_dir, self.filename, self.name)

    @property
    def plan(self):
        """dict. What files must have in common to belong together."""
        return {"random_seed": self.random_seed, "shards": self.num_shards}


def plan(data_dir, filename, num_shards, random_seed, tasks=None):
    """Returns what is missing.

    Args:
        data_dir: str.
        filename: str. What the files' names begin with.
        num_shards: dict from the name of a split to its number of files.
        random_seed: int.
        tasks: list of int. The files that are wanted, counted over the splits from 0 on; the others
            may be made by other machines at the same time. None wants all.

    Returns:
        dict from `Split` to the list of its shards that are to be written; no empty ones.

    Raises:
        DataError: if there are no such tasks, or other files where only some are wanted.
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


def origin_path(data_dir, filename, split):
    """Returns the path of the JSON file that says what a split is made of."""
    # T2T reads all files whose names begin with that of a split.
    return os.path.join(data_dir, f"datagen.{filename}-{split}.json")


def missing_shards(split, shards=None):
    """Returns the shards, among `shards` (all if None), that are not there.

    Those of another seed, or of unknown origin, count as missing where all are wanted. Where only
    some are, others may be made elsewhere at the same time, and nothing is overwritten.

    Raises:
        DataError: in that case.
    """
    there = [shard for shard, path in enumerate(split.paths) if os.path.exists(path)]
    wanted = range(split.num_shards) if shards is None else shards
    if len(there) == split.num_shards:
        return []
    origin = read_origin(split.origin_path)
    if not there or (origin and _fits(origin, split)):
        return [shard for shard in wanted if shard not in there]
    if shards is None:
        return list(wanted)
    raise DataError(
        f"The files {split.filename}-{split.name}-* in {split.data_dir!r} must be of the same seed "
        f"and number, or be removed. Received: {origin or 'files of unknown origin'}; "
        f"wanted: {split.plan}."
    )


def read_origin(path):
    """Returns the dict of the JSON file that says what a split is made of; None without one."""
    try:
        return json_file.read(path)
    except (FileNotFoundError, UserError):
        return None


def write_origin(split, origin):
    """Writes the JSON file.

    Raises:
        DataError: if there are files of other samples.
    """
    known = read_origin(split.origin_path)
    stays = any(os.path.exists(path) for path in split.paths)
    if stays and known and known.get("checksum") != origin["checksum"]:
        raise DataError(
            f"The samples must be those that the files {split.filename}-{split.name}-* in "
            f"{split.data_dir!r} were made of; remove these to begin anew. Received: "
            f"{origin['samples']} samples, checksum {origin['checksum']}, instead of "
            f"{known.get('samples')}, checksum {known.get('checksum')}."
        )
    with whole_file.writing(split.origin_path) as file:
        json.dump({**split.plan, **origin}, file, indent=2)
        file.write("\n")


def _fits(origin, split):
    return {name: origin.get(name) for name in split.plan} == split.plan
