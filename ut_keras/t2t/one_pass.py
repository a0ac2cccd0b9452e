"""The samples of all splits, of one call: what `is_generate_per_split = False` asks for.

    sample 0, 1, 2, … -> file 0, 1, …, 8 (train), 9 (dev), 0, 1, …

As in T2T, a sample belongs to the file whose turn it is, and so to that file's split. All are kept
until they are written, out of sight of a package that reads whatever lies in a folder: a second
call may yield other samples, or these in another order, and then training would see what is
evaluated on.

    .ut_keras-records/datagen.<problem>-splits.json
                                what the pass was, while some splits are written and some not
"""

import itertools
import pickle
import tempfile
from collections.abc import Iterator
from typing import Any

from ut_keras.data import tfrecords
from ut_keras.data.writing import generation
from ut_keras.errors import DataError
from ut_keras.files import json_file, own_files


class OnePass:
    """Keeps the samples, by split.

    Args:
        num_shards: dict from split to its number of files, in T2T's order.
        data_dir: str. Where there is room for them, and their files come to be.
        filename: str. What those are called, before the split.
    """

    def __init__(
        self, samples: generation.Samples, num_shards: dict[str, int], data_dir: str, filename: str
    ) -> None:
        self._data_dir = data_dir
        self._filename = filename
        self._record = f"datagen.{filename}-splits.json"
        self._files = {
            split: tempfile.TemporaryFile(dir=data_dir)  # noqa: SIM115, closed in `close`
            for split in num_shards
        }
        turns = [split for split, number in num_shards.items() for _ in range(number)]
        for split, record in zip(itertools.cycle(turns), samples.records(), strict=False):
            self._files[split].write(record)
        self._identity = {"shards": dict(num_shards), **samples.identity}

    def read(self, split: str) -> Iterator[Any]:
        """Yields the samples of a split, from the first on."""
        file = self._files[split]
        file.seek(0)
        while True:
            try:
                yield pickle.load(file)
            except EOFError:
                return

    def check_same(self) -> None:
        """Checks that splits which are there are of this pass.

        Raises:
            DataError: if they are of another, or it cannot be told.
        """
        there = self._written()
        path = own_files.find(self._data_dir, self._record, self._identity)
        known = json_file.read_own(path, self._identity)
        if there and known != self._identity:
            raise DataError(
                f"All splits of {self._filename} must come from one pass over its samples, or "
                f"training sees evaluation data. Received: {', '.join(there)} in "
                f"{self._data_dir!r}, "
                f"{'from another pass' if known else 'from an unknown pass'}. Remove these files."
            )

    def write_record(self) -> None:
        """Writes what the pass is, for a run that goes on where this one was stopped."""
        own_files.write(self._data_dir, self._record, self._identity, self._identity, indent=None)

    def close(self) -> None:
        """Lets go of the samples, and of the record if all splits are there."""
        for file in self._files.values():
            file.close()
        if len(self._written()) == len(self._files):
            own_files.remove(self._data_dir, self._record, self._identity)

    def _written(self):
        where = (self._data_dir, self._filename)
        return [split for split in self._files if tfrecords.is_complete(*where, split)]
