"""From the samples of a split to its files, whatever their number.

    samples --spread--> one bucket per file --shuffled, encoded--> <problem>-train-00000-of-00100

Spreading is cheap: a sample is put, as it is, into the bucket of the file that it is to be in; to
disk if there are many. Encoding is not: files are made in several processes, each of one bucket. So
the bytes depend neither on the number of processes nor on which files one run makes: several
machines can share the work, and a run that was broken off goes on with the files that it lacks.

    <problem>-train-00007-of-00100.incomplete     a file that is being written
    datagen.<problem>-train.working.*             buckets; removed at the end, or by the next run
    datagen.<problem>-train.json                  what the files are made of

The JSON file is written before the first file. It holds the seed and a checksum of all samples, by
which a later run knows whether it may go on. When all files are there it stays only if samples were
left out while reading; it says how many, and why.
"""

import contextlib
import dataclasses
import fcntl
import glob
import json
import os
import pickle
import random
import shutil
import tempfile
import zlib
from collections.abc import Callable

from ut_keras.data import external_shuffle, process_pool, progress_line, tfrecords
from ut_keras.data.tfrecords import DataError

_REPORT_EVERY = 1000  # samples


@dataclasses.dataclass(frozen=True)
class Split:
    """What is to be written.

    Fields:
        data_dir: str. Folder to write to.
        filename: str. What the files' names begin with.
        name: "train", "dev" or "test".
        num_shards: int. Number of files.
        seed: int or str.
        shuffle: bool.
    """

    data_dir: str
    filename: str
    name: str
    num_shards: int
    seed: int | str
    shuffle: bool

    @property
    def paths(self):
        """list of str, by shard."""
        return tfrecords.shard_paths(self.data_dir, self.filename, self.name, self.num_shards)

    @property
    def origin_path(self):
        """str. The JSON file."""
        return origin_path(self.data_dir, self.filename, self.name)


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
    if not there or (origin and _same_plan(origin, split)):
        return [shard for shard in wanted if shard not in there]
    if shards is None:
        return list(wanted)
    raise DataError(
        f"The files {split.filename}-{split.name}-* in {split.data_dir!r} must be of the same seed "
        f"and number, or be removed. Received: {origin or 'files of unknown origin'}; "
        f"wanted: {_plan(split)}."
    )


def write(split, samples, encode, shards, num_processes=None, left_out=(), import_roots=()):
    """Writes the files of some shards.

    Args:
        split: `Split`.
        samples: iterable of all samples of the split, anything that can be pickled.
        encode: function from an iterable of samples to one of dicts from feature to a list of ints;
            the files are encoded one by one.
        shards: list of int, what `missing_shards` said.
        num_processes: int. None takes one per processor; few samples are done in this one.
        left_out: dict from a reason to how many samples were left out for it; read at the end.
        import_roots: folders that `encode` is imported from, besides those of `sys.path`.

    Returns:
        The number of records written.

    Raises:
        DataError: if there are none, if a feature is empty, or if the samples are not those that
            files which are there were made of.
    """
    _remove(split.paths[shard] for shard in shards)
    with _working_folder(split) as folder:
        title = f"{split.filename} {split.name}"
        buckets, origin = _spread(split, samples, shards, folder, f"{title}, reading")
        origin["left_out"] = dict(left_out)
        _check_origin(split, origin)
        _write_json(split.origin_path, origin)
        jobs = [
            _Job(
                buckets[shard],
                split.paths[shard],
                f"{split.seed} {shard}" if split.shuffle else None,
            )
            for shard in shards
        ]
        total = sum(job.bucket.count for job in jobs)
        if not any(job.bucket.path for job in jobs):
            num_processes = 1
        elif num_processes is None:
            num_processes = process_pool.default_num_processes()
        with progress_line.ProgressLine(f"{title}, writing", total, "{:,}".format) as line:
            try:
                counts = process_pool.run(
                    _WriteShard(encode),
                    jobs,
                    num_processes,
                    line.add,
                    import_roots,
                )
                if not sum(counts):
                    raise DataError(f"Expected records of {title}. Received: none.")
            except DataError:
                # Whoever mends the data begins anew.
                _remove(job.path for job in jobs)
                raise
            finally:
                _remove(f"{job.path}.incomplete" for job in jobs)
                there = sum(map(os.path.exists, split.paths))
                if not there or (there == split.num_shards and not origin["left_out"]):
                    _remove([split.origin_path])
    return sum(counts)


def _spread(split, samples, shards, folder, title):
    """Puts every sample into the bucket of its shard; drops those of other shards.

    Of so many neighbours as there are shards, each goes to another one.
    """
    rng = random.Random(split.seed)
    numbers = {shard: number for number, shard in enumerate(shards)}
    buckets = external_shuffle.Buckets(folder, len(shards))
    order = list(range(split.num_shards))
    count, checksum = 0, 0
    with progress_line.ProgressLine(title, show="{:,}".format) as line:
        for sample in samples:
            turn = count % split.num_shards
            if not turn and split.shuffle:
                rng.shuffle(order)
            record = pickle.dumps(sample, pickle.HIGHEST_PROTOCOL)
            checksum = zlib.crc32(record, checksum)
            number = numbers.get(order[turn])
            if number is not None:
                buckets.add(number, record)
            count += 1
            if not count % _REPORT_EVERY:
                line.set(count)
    if not count:
        raise DataError(f"Expected samples of {split.filename} {split.name}. Received: none.")
    by_shard = dict(zip(shards, buckets.close(), strict=True))
    return by_shard, {**_plan(split), "samples": count, "checksum": f"{checksum:08x}"}


@dataclasses.dataclass(frozen=True)
class _Job:
    """One file: its samples, its path, and the seed to shuffle by, or None."""

    bucket: external_shuffle.Bucket
    path: str
    seed: str | None


@dataclasses.dataclass(frozen=True)
class _WriteShard:
    """What is done to a job; `encode` from samples to records."""

    encode: Callable

    def __call__(self, job, report):
        return tfrecords.write(self.encode(self._samples(job, report)), [job.path])

    def _samples(self, job, report):
        reported = 0
        for count, record in enumerate(job.bucket.read(job.seed), start=1):
            if count - reported == _REPORT_EVERY:
                report(count - reported)
                reported = count
            yield pickle.loads(record)
        report(job.bucket.count - reported)


# Where a split comes from.


def read_origin(path):
    """Returns the dict of the JSON file that says what a split is made of; None without one."""
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except (FileNotFoundError, ValueError):
        return None


def _plan(split):
    return {"seed": split.seed, "shards": split.num_shards}


def _same_plan(origin, split):
    plan = _plan(split)
    return {name: origin.get(name) for name in plan} == plan


def _check_origin(split, origin):
    """Files that are there, and stay, must be of the same samples."""
    known = read_origin(split.origin_path)
    stays = any(os.path.exists(path) for path in split.paths)
    if stays and known and known.get("checksum") != origin["checksum"]:
        raise DataError(
            f"The samples must be those that the files {split.filename}-{split.name}-* in "
            f"{split.data_dir!r} were made of; remove these to begin anew. Received: "
            f"{origin['samples']} samples, checksum {origin['checksum']}, instead of "
            f"{known.get('samples')}, checksum {known.get('checksum')}."
        )


def _remove(paths):
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


def _write_json(path, values):
    temporary = f"{path}.incomplete.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(values, file, indent=2)
        file.write("\n")
    os.replace(temporary, path)


@contextlib.contextmanager
def _working_folder(split):
    """A folder of ours alone; removes those of runs that were killed.

    A run holds a lock inside its folder, which is free as soon as it has ended.
    """
    prefix = os.path.join(split.data_dir, f"datagen.{split.filename}-{split.name}.working.")
    for folder in glob.glob(glob.escape(prefix) + "*"):
        with contextlib.suppress(OSError), open(os.path.join(folder, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
    folder = tempfile.mkdtemp(prefix=os.path.basename(prefix), dir=split.data_dir)
    try:
        with open(os.path.join(folder, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield os.path.join(folder, "buckets")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
