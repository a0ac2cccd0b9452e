"""Shuffle more records than fit into memory, in smaller buckets, as in T2T.

    buckets = Buckets(folder, num_buckets=10)
    for record in records:
        buckets.add(rng.randrange(10), record)       kept in memory, or in files if there are many
    for bucket in buckets.close():
        for record in bucket.read(seed):             shuffled if a seed is given

A bucket must fit into memory, where it is shuffled. The order depends only on the seed and the
records.
"""

import dataclasses
import os
import random
import struct
from collections.abc import Iterable

from ut_keras.files import file_error

_MEMORY = 64 << 20  # bytes of records in memory before they are written to files
_LENGTH = struct.Struct("<I")
_OVERHEAD = 48  # bytes of memory that Python adds for each record in a list


@dataclasses.dataclass(frozen=True)
class Bucket:
    """The records of one bucket, in memory or in a file."""

    count: int
    records: tuple = ()  # the records, as bytes; empty if `path` is given
    path: str | None = None

    def read(self, seed: int | str | None = None) -> Iterable[bytes]:
        """Return the records, shuffled if a seed is given."""
        records = self.records if self.path is None else _stream(self.path)
        if seed is None:
            return records
        records = list(records)
        random.Random(seed).shuffle(records)
        return records


class Buckets:
    """A collector of records in buckets.

    If the records exceed `memory` bytes, they are written to files.
    """

    def __init__(self, folder: str, num_buckets: int, memory: int = _MEMORY) -> None:
        self._folder = folder
        self._memory = memory
        self._pending: list[list[bytes]] = [[] for _ in range(num_buckets)]
        self._counts = [0] * num_buckets  # for each bucket, the number of records in its file
        self._bytes = 0

    def add(self, number: int, record: bytes) -> None:
        """Add a record, as bytes, to bucket `number`."""
        self._pending[number].append(record)
        self._bytes += len(record) + _OVERHEAD
        if self._bytes > self._memory:
            self._write()

    def close(self) -> list[Bucket]:
        """Return the list of all `Bucket`s. No records can be added afterwards."""
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
