"""Shuffles more records than fit into memory, by T2T's way: in buckets that do.

    buckets = Buckets(folder, num_buckets=10)
    for record in records:
        buckets.add(rng.randrange(10), record)       in memory; in files as soon as there are many
    for bucket in buckets.close():
        for record in bucket.read(seed):             shuffled; without a seed in their order

A bucket is shuffled in memory. The order depends on the seed and the records only.
"""

import dataclasses
import os
import random
import struct
from collections.abc import Iterable

from ut_keras.files import file_error

_MEMORY = 64 << 20  # bytes of records that are held until they go to files
_LENGTH = struct.Struct("<I")
_OVERHEAD = 48  # bytes that Python adds to a record in a list


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Some of the records, in memory or in a file."""

    count: int
    records: tuple = ()  # of bytes; or
    path: str | None = None

    def read(self, seed: int | str | None = None) -> Iterable[bytes]:
        """Returns the records; shuffled if there is a seed."""
        records = self.records if self.path is None else _stream(self.path)
        if seed is None:
            return records
        records = list(records)
        random.Random(seed).shuffle(records)
        return records


class Buckets:
    """Takes records in, and puts them into files of a folder from `memory` bytes on."""

    def __init__(self, folder: str, num_buckets: int, memory: int = _MEMORY) -> None:
        self._folder = folder
        self._memory = memory
        self._pending: list[list[bytes]] = [[] for _ in range(num_buckets)]
        self._counts = [0] * num_buckets  # of those in files
        self._bytes = 0

    def add(self, number: int, record: bytes) -> None:
        """Puts bytes into the bucket of a number."""
        self._pending[number].append(record)
        self._bytes += len(record) + _OVERHEAD
        if self._bytes > self._memory:
            self._write()

    def close(self) -> list[Bucket]:
        """Returns the list of all `Bucket`s; nothing may be added any more."""
        if not any(self._counts):
            return [Bucket(len(records), tuple(records)) for records in self._pending]
        self._write()
        return [
            Bucket(count, path=self._path(number)) if count else Bucket(0)
            for number, count in enumerate(self._counts)
        ]

    def _write(self):
        os.makedirs(self._folder, exist_ok=True)
        for number, records in enumerate(self._pending):
            if records:
                path = self._path(number)
                with file_error.named(path), open(path, "ab") as file:
                    for record in records:
                        file.write(_LENGTH.pack(len(record)))
                        file.write(record)
                self._counts[number] += len(records)
                records.clear()
        self._bytes = 0

    def _path(self, number):
        return os.path.join(self._folder, str(number))


def _stream(path):
    with file_error.named(path), open(path, "rb") as file:
        while length := file.read(_LENGTH.size):
            yield file.read(*_LENGTH.unpack(length))
