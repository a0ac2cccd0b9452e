"""The samples of all splits, of one call: what `is_generate_per_split = False` asks for.

    sample 0, 1, 2, … -> file 0, 1, …, 8 (train), 9 (dev), 0, 1, …

As in T2T, a sample belongs to the file whose turn it is, and so to that file's split. All are kept
until they are written, out of sight of a package that reads whatever lies in a folder: a second
call may yield other samples, or these in another order, and then training would see what is
evaluated on.

    datagen.<problem>-splits.json     what the pass was, while some splits are written and some not
"""

import itertools
import json
import os
import pickle
import tempfile
from collections.abc import Iterator
from typing import Any

from ut_keras.data import tfrecords
from ut_keras.data.writing import generation
from ut_keras.errors import DataError
from ut_keras.files import json_file, whole_file


class OnePass:
    """Keeps the samples, by split.

    Args:
        samples: `generation.Samples`.
        num_shards: dict from split to its number of files, in T2T's order.
        directory: str. Where there is room for them.
    """

    def __init__(
        self, samples: generation.Samples, num_shards: dict[str, int], directory: str
    ) -> None:
        self._num_shards = dict(num_shards)
        self._files = {
            split: tempfile.TemporaryFile(dir=directory)  # noqa: SIM115, closed in `close`
            for split in num_shards
        }
        turns = [split for split, number in num_shards.items() for _ in range(number)]
        for split, record in zip(itertools.cycle(turns), samples.records(), strict=False):
            self._files[split].write(record)
        self._identity = {"shards": self._num_shards, **samples.identity}

    def read(self, split: str) -> Iterator[Any]:
        """Yields the samples of a split, from the first on."""
        file = self._files[split]
        file.seek(0)
        while True:
            try:
                yield pickle.load(file)
            except EOFError:
                return

    def check_same(self, data_dir: str, filename: str) -> None:
        """Checks that splits which are there are of this pass.

        Raises:
            DataError: if they are of another, or it cannot be told.
        """
        path = _path(data_dir, filename)
        there = [
            split for split in self._num_shards if tfrecords.is_complete(data_dir, filename, split)
        ]
        known = json_file.read_own(path, self._identity)
        if there and known != self._identity:
            raise DataError(
                f"All splits of {filename} must be made of one pass over its samples, or training "
                f"sees what is evaluated on. Received: {', '.join(there)} in {data_dir!r}, "
                f"{'of another pass' if known else 'of an unknown one'}; remove those files."
            )

    def keep(self, data_dir: str, filename: str) -> None:
        """Writes what the pass is, for a run that goes on where this one was stopped."""
        path = _path(data_dir, filename)
        with whole_file.writing(path) as file:
            json.dump(self._identity, file)
            file.write("\n")

    def close(self, data_dir: str, filename: str) -> None:
        """Lets go of the samples, and of the record if all splits are there."""
        for file in self._files.values():
            file.close()
        path = _path(data_dir, filename)
        if os.path.exists(path) and all(
            tfrecords.is_complete(data_dir, filename, split) for split in self._num_shards
        ):
            os.remove(path)


def _path(data_dir, filename):
    return os.path.join(data_dir, f"datagen.{filename}-splits.json")
