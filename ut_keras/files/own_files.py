"""The folder in which ut_keras keeps its own records of a data_dir.

    data_dir/.ut_keras-records/datagen.<problem>-train.json    what a split was made of
    data_dir/.ut_keras-records/record_index-<digest>.npz       where each record lies

A package may read every file of data_dir as data. So data_dir itself has only the files that T2T
writes, and lock files, which are empty and must stand beside the files that they lock. Earlier
versions wrote the records into data_dir itself. They are still read there, and they are removed
when the record is written again.
"""

import contextlib
import os
from collections.abc import Collection, Mapping
from typing import Any

from ut_keras.errors import UserError
from ut_keras.files import json_file, path_lock

_FOLDER = ".ut_keras-records"


def path(data_dir: str, name: str) -> str:
    """Return the path that a record is written to."""
    return os.path.join(data_dir, _FOLDER, name)


def find(data_dir: str, name: str, keys: Collection[str] = ()) -> str:
    """Return the path that a record is read from: the path of `path` or of an earlier version.

    Args:
        data_dir: str, the data folder.
        name: str, the file name of the record.
        keys: keys of the JSON object. A file of that name without them is not a record.
    """
    found, earlier = path(data_dir, name), os.path.join(data_dir, name)
    if not os.path.lexists(found) and os.path.isfile(earlier):
        with contextlib.suppress(UserError, OSError):
            if not keys or json_file.read_own(earlier, keys):
                return earlier
    return found


def check_folder(data_dir: str) -> None:
    """Raise `UserError` if the name of the folder belongs to a file of the user."""
    folder = os.path.join(data_dir, _FOLDER)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise path_lock.foreign(folder)


def make_folder(data_dir: str) -> None:
    """Make the folder of the records; raise `OSError` if that fails."""
    os.makedirs(os.path.join(data_dir, _FOLDER), exist_ok=True)


def write(
    data_dir: str, name: str, values: Mapping[str, Any], keys: Collection[str], indent: int | None
) -> None:
    """Write a record as one JSON object, and remove the record of an earlier version."""
    earlier = find(data_dir, name, keys)
    make_folder(data_dir)
    json_file.write(path(data_dir, name), values, indent=indent)
    if earlier != path(data_dir, name):
        _remove(earlier)


def remove(data_dir: str, name: str, keys: Collection[str]) -> None:
    """Remove a record if it exists, and the folder if it is then empty."""
    _remove(find(data_dir, name, keys))
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(data_dir, _FOLDER))


def _remove(record):
    with contextlib.suppress(FileNotFoundError):
        os.remove(record)
