"""Write the samples of a split to its TFRecord files, for any number of samples.

    samples --distribute--> bucket of each file --shuffle, encode--> <problem>-train-00000-of-00100

Distributing the samples is cheap, because each sample is put unencoded into the bucket of its file.
If there are many samples, the buckets are kept on disk. Encoding is expensive, so several processes
make the files. Each file is made from one bucket.

The bytes of a file do not depend on the number of processes or on the other files that a run makes.
Therefore several machines can share the work. After an interruption, only the missing files need to
be made.

    .ut_keras-records/datagen.<problem>-train.json  describes the files: see generation_plan.py

Buckets and unfinished files are kept in folders that `whole_file` makes.
"""

import contextlib
import functools
import itertools
import os
import pickle
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ut_keras import process
from ut_keras.data import contract, tfrecords
from ut_keras.data.writing import external_shuffle, generation_plan, process_pool
from ut_keras.errors import DataError
from ut_keras.files import whole_file
from ut_keras.process import live_line

_REPORT_EVERY = 1000  # number of samples between two updates of the progress line


def write(
    split: generation_plan.Split,
    samples: "Samples",
    encode: Callable[..., Any],
    shards: Sequence[int],
    num_processes: int | None = None,
    skipped: Any = (),
    described: Mapping[str, Any] | None = None,
) -> int:
    """Write the files of some shards.

    Args:
        split: `generation_plan.Split`.
        samples: `Samples`, all samples of the split. Each sample must be picklable.
        encode: function from an iterable of samples to an iterable of records for
            `tfrecords.write`. This function is called once per file.
        shards: list of int, the shards to write, from `generation_plan.plan`.
        num_processes: int. None means one process per processor. If the samples fit into memory,
            this process encodes them itself.
        skipped: dict from a reason to the number of samples that were skipped for this reason. The
            function reads the dict after the last sample.
        described: dict of further values for the JSON file of the split, such as "side_files".
            Optional.

    Returns:
        The number of records written.

    Raises:
        DataError: in one of these cases:
            - There are no samples, or no records.
            - A sample cannot be pickled, or a feature is empty.
            - Existing files were made from other samples.
    """
    _remove([split.paths[shard] for shard in shards])
    bucket_path = os.path.join(split.data_dir, f"{split.filename}-{split.name}")
    with whole_file.temporary_folder(bucket_path) as folder:
        buckets = _distribute(split, samples, shards, f"{folder}/buckets")
        origin = {**samples.identity, "left_out": dict(skipped), **(described or {})}
        if samples.count == samples.max_samples:
            origin["max_cases"] = samples.max_samples
        generation_plan.write_origin(split, origin)
        if not any(bucket.path for bucket in buckets):
            num_processes = 1
        elif num_processes is None:
            num_processes = process.num_processors()
        return _write_shards(split, shards, buckets, encode, num_processes)


class Samples:
    """The samples of a problem, with a progress line that shows their number and size.

    Args:
        samples: iterable.
        title: str. The beginning of the progress line.
        max_samples: int. The maximum number of samples to read. None means all samples.

    Attributes:
        max_samples: int or None, the same as the argument.
        count: int. The number of samples so far.
        size, checksum: int. The number of bytes and the CRC-32 of the `records` so far.

    Raises:
        DataError: if `samples` is not an iterable of samples.
    """

    def __init__(self, samples: Iterable[Any], title: str, max_samples: int | None = None) -> None:
        contract.validated(samples, contract.SAMPLES, f"{title}: the samples")
        self._samples = itertools.islice(samples, max_samples)
        self._title = title
        self.max_samples = max_samples
        self.count = self.size = self.checksum = 0

    def __iter__(self) -> Iterator[Any]:
        with live_line.ProgressLine(self._title) as line:
            for sample in self._samples:
                self.count += 1
                if not self.count % _REPORT_EVERY:
                    line.set(self.count, live_line.size(self.size) if self.size else "")
                yield sample

    def records(self) -> Iterator[bytes]:
        """Yield each sample, pickled.

        Raises:
            DataError: if a sample cannot be pickled.
        """
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
        """The values from which a later run recognizes that it has the same samples."""
        return {"samples": self.count, "checksum": f"{self.checksum:08x}"}


def for_vocab(samples: Iterable[Any], name: str, *bounds: int | None) -> Samples:
    """Return the samples for a vocabulary, limited to the smallest of `bounds`."""
    return Samples(samples, f"{name} vocabulary, reading", min(filter(None, bounds), default=None))


def _distribute(split, samples, shards, folder):
    """Return one bucket for each of `shards`, which contains the samples of the shard.

    The samples are divided into groups of `num_shards` successive samples. Every shard gets one
    sample of each group. Samples of shards that are not in `shards` are dropped.
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


def _write_shards(split, shards, buckets, encode, num_processes):
    """Write the samples of each bucket to the file of its shard.

    If the function raises a `DataError`, it removes all these files.

    Returns:
        The number of records written.
    """
    paths = [split.paths[shard] for shard in shards]
    seeds = [f"{split.seed} {shard}" if split.is_shuffled else None for shard in shards]
    title = f"{split.filename} {split.name}"
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
            # After the user has corrected the data, the next run makes all these files again.
            _remove(paths)
            for path in paths:  # killed processes may have left temporary files
                whole_file.remove_leftovers(path)
            raise
        finally:
            # If this process makes all files, no other machine makes files.
            is_all = len(shards) == split.num_shards
            if is_all and not any(map(os.path.exists, split.paths)):
                generation_plan.remove_origin(split)
    return sum(counts)


def _write_shard(encode, job):
    """Write the samples of a bucket to a file.

    If there is a seed, shuffle the samples.
    """
    bucket, path, seed = job
    return tfrecords.write(encode(map(pickle.loads, bucket.read(seed))), [path])


def _remove(paths):
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


def summary(
    counts: Mapping[str, int], skipped: Mapping[str, int], seconds: float, data_dir: str
) -> str:
    """Return a line with the numbers of written examples and of skipped samples."""
    written = ", ".join(f"{count} {split}" for split, count in counts.items()) or "vocabulary"
    text = f"wrote {written} examples to {data_dir}"
    if seconds >= 1:
        rate = sum(counts.values()) / seconds
        text += f" in {seconds:,.0f} s, {rate:,.0f} a second"
    if skipped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
        text += f"; skipped: {reasons}"
    return text
