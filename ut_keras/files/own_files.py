"""Where ut_keras keeps its own records of a data_dir: in a folder of their own.

    data_dir/.ut_keras-records/datagen.<problem>-train.json    what a split was made of
    data_dir/.ut_keras-records/record_index-<digest>.npz       where each record lies

A package may read every file of data_dir as data. So only the files that T2T has stand there, and
locks, which must stand beside what they lock and are empty. Earlier versions kept the records in
data_dir itself; they are found there, and leave it when they are written again.
"""

import contextlib
import os
from collections.abc import Collection, Mapping
from typing import Any

from ut_keras.errors import UserError
from ut_keras.files import json_file, path_lock

_FOLDER = ".ut_keras-records"


def path(data_dir: str, name: str) -> str:
    """Returns the path that a record is written to."""
    return os.path.join(data_dir, _FOLDER, name)


def find(data_dir: str, name: str, keys: Collection[str] = ()) -> str:
    """Returns the path that a record is read from: as `path`, or that of an earlier version.

    Args:
        keys: of a JSON object. A file without them is no record of an earlier version.
    """
    found, earlier = path(data_dir, name), os.path.join(data_dir, name)
    if not os.path.lexists(found) and os.path.isfile(earlier):
        with contextlib.suppress(UserError, OSError):
            if not keys or json_file.read_own(earlier, keys):
                return earlier
    return found


def check_folder(data_dir: str) -> None:
    """Raises `UserError` if the name of the folder is that of something else."""
    folder = os.path.join(data_dir, _FOLDER)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise path_lock.foreign(folder)


def make_folder(data_dir: str) -> None:
    """Makes the folder of the records; raises `OSError` if it cannot be made."""
    os.makedirs(os.path.join(data_dir, _FOLDER), exist_ok=True)


def write(
    data_dir: str, name: str, values: Mapping[str, Any], keys: Collection[str], indent: int | None
) -> None:
    """Writes a record of one JSON object, by which that of an earlier version goes."""
    earlier = find(data_dir, name, keys)
    make_folder(data_dir)
    json_file.write(path(data_dir, name), values, indent=indent)
    if earlier != path(data_dir, name):
        _remove(earlier)


def remove(data_dir: str, name: str, keys: Collection[str]) -> None:
    """Removes a record, if there is one, and the folder, if it was the last."""
    _remove(find(data_dir, name, keys))
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(data_dir, _FOLDER))


def _remove(record):
    with contextlib.suppress(FileNotFoundError):
        os.remove(record)
