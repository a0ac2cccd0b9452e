"""Store samples of all splits, for problems with `is_generate_per_split = False`.

    sample 0, 1, 2, … -> file 0, 1, …, 8 (train), 9 (dev), 0, 1, …

Such a problem yields the samples of all splits in one pass. As in T2T, the samples go to the files
in turn, and a sample belongs to the split of its file. This module stores all samples until they
are in the files, because a second pass may yield other samples or another order. Training would
then see evaluation data. The storage file has no name in the folder, so that a package that reads
every file of the folder does not find it.

    .ut_keras-records/datagen.<problem>-splits.json
                                identifies the pass until all splits are written
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
    """Stores the samples of one pass by split.

    Args:
        samples: `generation.Samples`. The samples of all splits.
        num_shards: dict from split to its number of files, in T2T's order.
        data_dir: str. Folder of the data files. The samples are stored on the same disk.
        filename: str. Beginning of the names of the data files, before the split.
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
        """Yield the samples of a split, beginning with the first one."""
        file = self._files[split]
        file.seek(0)
        while True:
            try:
                yield pickle.load(file)
            except EOFError:
                return

    def check_same(self) -> None:
        """Check that the existing splits come from this pass.

        Raises:
            DataError: if they come from another pass or from an unknown pass.
        """
        existing = self._written()
        path = own_files.find(self._data_dir, self._record, self._identity)
        known = json_file.read_own(path, self._identity)
        if existing and known != self._identity:
            raise DataError(
                f"All splits of {self._filename} must come from one pass over its samples, or "
                f"training sees evaluation data. Received: {', '.join(existing)} in "
                f"{self._data_dir!r}, "
                f"{'from another pass' if known else 'from an unknown pass'}. Remove these files."
            )

    def write_record(self) -> None:
        """Write the record of the pass, so that an interrupted generation can be resumed."""
        own_files.write(self._data_dir, self._record, self._identity, self._identity, indent=None)

    def close(self) -> None:
        """Delete the samples, and also the record if all splits exist."""
        for file in self._files.values():
            file.close()
        if len(self._written()) == len(self._files):
            own_files.remove(self._data_dir, self._record, self._identity)

    def _written(self):
        where = (self._data_dir, self._filename)
        return [split for split in self._files if tfrecords.is_complete(*where, split)]
