"""From the samples of a split to its files, whatever their number.

    samples --spread--> one bucket per file --shuffled, encoded--> <problem>-train-00000-of-00100

Spreading is cheap: a sample is put, as it is, into the bucket of the file that it is to be in; to
disk if there are many. Encoding is not: files are made in several processes, each of one bucket. So
the bytes depend neither on the number of processes nor on which files one run makes: several
machines can share the work, and a run that was broken off goes on with the files that it lacks.

    .ut_keras-records/datagen.<problem>-train.json  what the files are made of: generation_plan.py

Buckets and files that are being written lie in folders of `whole_file`.
"""

import contextlib
import functools
import itertools
import os
import pickle
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ut_keras import process
from ut_keras.data import contract, tfrecords
from ut_keras.data.writing import external_shuffle, generation_plan, process_pool
from ut_keras.errors import DataError
from ut_keras.files import whole_file
from ut_keras.process import live_line

_REPORT_EVERY = 1000  # samples


def write(
    split: generation_plan.Split,
    samples: Iterable[Any],
    encode: Callable[..., Any],
    shards: Sequence[int],
    num_processes: int | None = None,
    left_out: Any = (),
    max_cases: int | None = None,
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
        max_cases: int. The first so many samples are taken; None takes all.
    Returns:
        The number of records written.
    Raises:
        DataError: if there are none, if a feature is empty, or if the samples are not those that
            files which are there were made of.
    """
    paths = [split.paths[shard] for shard in shards]
    _remove(paths)
    title = f"{split.filename} {split.name}"
    buckets_of = os.path.join(split.data_dir, f"{split.filename}-{split.name}")
    with whole_file.temporary_folder(buckets_of) as folder:
        samples = Samples(samples, f"{title}, reading", max_cases)
        buckets = _spread(split, samples, shards, f"{folder}/buckets")
        origin = {**samples.identity, "left_out": dict(left_out)}
        generation_plan.write_origin(split, origin)
        seeds = [f"{split.seed} {shard}" if split.is_shuffled else None for shard in shards]
        if not any(bucket.path for bucket in buckets):
            num_processes = 1
        elif num_processes is None:
            num_processes = process.num_processors()
        total = sum(bucket.count for bucket in buckets)
        with live_line.ProgressLine(f"{title}, writing", total) as line:
            try:
                counts = process_pool.run(
                    functools.partial(_write_shard, encode),
                    list(zip(buckets, paths, seeds, strict=True)),
                    num_processes,
                    done=lambda job: line.add(job[0].count),
                )
                if not sum(counts):
                    raise DataError(f"{title} must have at least one record. Received: none.")
                generation_plan.add_counts(split, dict(zip(shards, counts, strict=True)))
            except DataError:
                # Whoever mends the data begins anew.
                _remove(paths)
                for path in paths:  # of processes that were killed while they wrote
                    whole_file.remove_leftovers(path)
                raise
            finally:
                is_all = len(shards) == split.num_shards  # and no other machine makes some
                if is_all and not any(map(os.path.exists, split.paths)):
                    generation_plan.remove_origin(split)
    return sum(counts)


class Samples:
    """What a problem yields; a line says how many it were so far, and how large.

    Args:
        samples: iterable.
        title: str. What the line begins with.
        most: int. The first so many; None takes all.
    Attributes:
        count, size, checksum: int. How many, and of `records` their bytes and a CRC-32.
    Raises:
        DataError: if it is no iterable.
    """

    def __init__(self, samples: Iterable[Any], title: str, most: int | None = None) -> None:
        contract.validated(samples, contract.SAMPLES, f"{title}: the samples")
        self._samples = itertools.islice(samples, most)
        self._title = title
        self.count = self.size = self.checksum = 0

    def __iter__(self) -> Iterator[Any]:
        with live_line.ProgressLine(self._title) as line:
            for sample in self._samples:
                self.count += 1
                if not self.count % _REPORT_EVERY:
                    line.set(self.count, live_line.size(self.size) if self.size else "")
                yield sample

    def records(self) -> Iterator[bytes]:
        """Yields what can be kept of each."""
        for sample in self:
            try:
                record = pickle.dumps(sample, pickle.HIGHEST_PROTOCOL)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise DataError(
                    "A sample must be a dict of texts and numbers. Received: "
                    f"{contract.shortened(sample)}, which cannot be pickled: {error}."
                ) from error
            self.size += len(record)
            self.checksum = zlib.crc32(record, self.checksum)
            yield record

    @property
    def identity(self) -> dict[str, Any]:
        """dict. By which these samples are known again."""
        return {"samples": self.count, "checksum": f"{self.checksum:08x}"}


def for_vocab(samples: Iterable[Any], name: str, *bounds: int | None) -> Samples:
    """The samples that the vocabulary of a problem is made of, within the least of some bounds."""
    return Samples(samples, f"{name} vocabulary, reading", min(filter(None, bounds), default=None))


def _spread(split, samples, shards, folder):
    """The bucket of each shard, with its samples; those of other shards are dropped.

    Of so many neighbours as there are shards, each goes to another one.
    """
    rng = random.Random(split.seed)
    numbers = {shard: number for number, shard in enumerate(shards)}
    buckets = external_shuffle.Buckets(folder, len(shards))
    order = list(range(split.num_shards))
    for count, record in enumerate(samples.records()):
        turn = count % split.num_shards
        if not turn and split.is_shuffled:
            rng.shuffle(order)
        number = numbers.get(order[turn])
        if number is not None:
            buckets.add(number, record)
    if not samples.count:
        raise DataError(
            f"{split.filename} {split.name} must have at least one sample. Received: none."
        )
    return buckets.close()


def _write_shard(encode, job):
    """Writes a file: the samples of a bucket, shuffled by a seed if there is one, and encoded."""
    bucket, path, seed = job
    return tfrecords.write(encode(map(pickle.loads, bucket.read(seed))), [path])


def _remove(paths):
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
