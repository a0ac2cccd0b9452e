"""From the samples of a split to its files, whatever their number.

    samples --spread--> one bucket per file --shuffled, encoded--> <problem>-train-00000-of-00100

Spreading is cheap: a sample is put, as it is, into the bucket of the file that it is to be in; to
disk if there are many. Encoding is not: files are made in several processes, each of one bucket. So
the bytes depend neither on the number of processes nor on which files one run makes: several
machines can share the work, and a run that was broken off goes on with the files that it lacks.

    datagen.<problem>-train.json                    what the files are made of: generation_plan.py
    shards.<problem>-train.json                     how large the files are: shard_manifest.py

Buckets and files that are being written lie in folders of `whole_file`.
"""

import contextlib
import dataclasses
import os
import pickle
import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ut_keras import whole_file
from ut_keras.data import progress_line, shard_manifest, tfrecords
from ut_keras.data.writing import external_shuffle, generation_plan, process_pool
from ut_keras.errors import DataError

_REPORT_EVERY = 1000  # samples


def write(
    split: generation_plan.Split,
    samples: Iterable[Any],
    encode: Callable[..., Any],
    shards: Sequence[int],
    num_processes: int | None = None,
    left_out: Any = (),
) -> int:
    """Writes the files of some shards.

    Args:
        split: `generation_plan.Split`.
        samples: iterable of all samples of the split, anything that can be pickled.
        encode: function from an iterable of samples to one of records, as `tfrecords.write` takes
            them; the files are encoded one by one.
        shards: list of int, what `generation_plan.plan` says.
        num_processes: int. None takes one per processor; few samples are done in this one.
        left_out: dict from a reason to how many samples were left out for it; read at the end.

    Returns:
        The number of records written.

    Raises:
        DataError: if there are none, if a feature is empty, or if the samples are not those that
            files which are there were made of.
    """
    paths = [split.paths[shard] for shard in shards]
    _remove([*paths, split.manifest_path])
    title = f"{split.filename} {split.name}"
    buckets_of = os.path.join(split.data_dir, f"{split.filename}-{split.name}")
    with whole_file.folder(buckets_of) as folder:
        buckets, origin = _spread(split, samples, shards, f"{folder}/buckets", f"{title}, reading")
        origin["left_out"] = dict(left_out)
        generation_plan.write_origin(split, origin)
        jobs = [
            _Job(
                buckets[shard],
                split.paths[shard],
                f"{split.seed} {shard}" if split.is_shuffled else None,
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
                counts = process_pool.run(_WriteShard(encode), jobs, num_processes, line.add)
                if not sum(counts):
                    raise DataError(f"Expected records of {title}. Received: none.")
            except DataError:
                # Whoever mends the data begins anew.
                _remove(paths)
                raise
            finally:
                there = sum(map(os.path.exists, split.paths))
                if not there or (there == split.num_shards and not origin["left_out"]):
                    _remove([split.origin_path])
                if there == split.num_shards:
                    shard_manifest.write(split.manifest_path, split.paths)
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
            if not turn and split.is_shuffled:
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
    return by_shard, {"samples": count, "checksum": f"{checksum:08x}"}


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


def _remove(paths):
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
