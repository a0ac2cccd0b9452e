"""The hidden folder for the metadata files that ut_keras adds to a data_dir.

    data_dir/.ut_keras-records/datagen.<problem>-train.json    the origin of a generated split
    data_dir/.ut_keras-records/record_index-<digest>.npz       the index of the TFRecord files

Such a metadata file is called a record below. Records have their own folder, because other packages
may read every file in data_dir as data. In data_dir itself, ut_keras writes only the files that T2T
also writes, and empty lock files. A lock file must be in the same folder as the file that it locks.

Earlier versions of ut_keras wrote the records directly into data_dir. ut_keras still reads the
records of earlier versions. It removes such a record when it writes the record again.
"""

import contextlib
import os
from collections.abc import Collection, Mapping
from typing import Any

from ut_keras.errors import UserError
from ut_keras.files import json_file, path_lock

FOLDER = ".ut_keras-records"


def path(data_dir: str, name: str) -> str:
    """Return the path to which a record is written."""
    return os.path.join(data_dir, FOLDER, name)


def origin_name(filename: str, split: str) -> str:
    """Return the name of the record of the origin of a split. See `generation_plan`."""
    return f"datagen.{filename}-{split}.json"


def find(data_dir: str, name: str, keys: Collection[str] = ()) -> str:
    """Return the path from which a record is read.

    The result equals `path(data_dir, name)`, unless the record exists only where earlier versions
    wrote it.

    Args:
        data_dir: str, the data folder.
        name: str, the file name of the record.
        keys: list of str, the keys that the JSON object of an earlier version must have. A file
            with the name `name` but without these keys is not a record.
    """
    found, earlier = path(data_dir, name), os.path.join(data_dir, name)
    if not os.path.lexists(found) and os.path.isfile(earlier):
        with contextlib.suppress(UserError, OSError):
            if not keys or json_file.read_own(earlier, keys):
                return earlier
    return found


def check_folder(data_dir: str) -> None:
    """Raise `UserError` if a file has the name of the folder of the records."""
    folder = os.path.join(data_dir, FOLDER)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise path_lock.foreign(folder)


def make_folder(data_dir: str) -> None:
    """Create the folder of the records, or raise `OSError`."""
    os.makedirs(os.path.join(data_dir, FOLDER), exist_ok=True)


def write(
    data_dir: str, name: str, values: Mapping[str, Any], keys: Collection[str], indent: int | None
) -> None:
    """Write a record as a JSON object. Remove the file that an earlier version wrote."""
    earlier = find(data_dir, name, keys)
    make_folder(data_dir)
    json_file.write(path(data_dir, name), values, indent=indent)
    if earlier != path(data_dir, name):
        _remove(earlier)


def remove(data_dir: str, name: str, keys: Collection[str]) -> None:
    """Remove a record if it exists.

    Then remove the folder of the records if it is empty.
    """
    _remove(find(data_dir, name, keys))
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(data_dir, FOLDER))


def _remove(record):
    with contextlib.suppress(FileNotFoundError):
        os.remove(record)
