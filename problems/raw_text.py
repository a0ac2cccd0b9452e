"""Find raw text files in tmp_dir or in an archive, and read them line by line.

For a member of an archive, such as `dev/newstest2013.en` in `dev.tgz`, these locations are searched
in this order:

1. The path in tmp_dir to which T2T unpacks the member: `dev/newstest2013.en`.
2. The file name in tmp_dir: `newstest2013.en`. File names that may belong to another dataset, such
   as `train.tsv`, are not searched.
3. The archive, which is downloaded if necessary and unpacked into `dev.tgz.unpacked`.
"""

import glob
import os
import re
import reprlib
import string
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.files import json_file, unpacking
from ut_keras.problems import problem
from ut_keras.text import text_lines

ASCII_SPACES = string.whitespace


class FromArchive(problem.Problem):
    """A mixin for text problems that read one file of an archive per split.

    This class must precede the text problem in the list of bases.

    Attributes:
        archive: `RawFile`. The archive.
        members: tuple of str. Possible names of the file of a split. The first one is the name in
            the archive. "{}" in a name is replaced by the archive's name for the split.
        parts: dict from split to the archive's name for the split, such as "valid" for "dev".
    """

    archive: download.RawFile
    members: tuple[str, ...] = ()
    parts = {"train": "train", "dev": "dev"}

    @property
    def splits(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.parts)

    @property
    def raw_files(self) -> tuple[download.RawFile, ...]:  # type: ignore[override]
        return (self.archive,)

    def path(self, split: str, tmp_dir: str | None) -> str:
        """Return the path of the file of a split. A missing file is downloaded."""
        names = (member.format(self.parts[split]) for member in self.members)
        return find(tmp_dir, self.archive, *names)


def find(tmp_dir: str | None, archive: download.RawFile, *names: str) -> str:
    """Return the path of a file. A missing file is downloaded.

    Args:
        tmp_dir: str. Folder of the raw files.
        archive: `RawFile`. The archive that contains the file, or the file itself.
        *names: str. Possible paths of the file. The first one is the path in the archive. If
            `archive` is the file itself, no names are given.

    Raises:
        DataError: if the file is not found and cannot be downloaded.
    """
    if not names:
        return download.fetch(tmp_dir, archive)
    return find_all(tmp_dir, archive, *_names(names))[0]


def find_all(tmp_dir: str | None, archive: download.RawFile, *patterns: str) -> list[str]:
    """Download the archive if necessary, and return the paths that `find_local` finds.

    Raises:
        DataError: if no file is found, or the archive cannot be downloaded.
    """
    found = find_local(tmp_dir, archive, *patterns)
    if not found:
        archive_path = download.fetch(tmp_dir, archive)
        target = _target(tmp_dir, archive)
        unpacking.unpack(archive_path, target, archive.members, archive.most_bytes)
        found = find_local(tmp_dir, archive, *patterns)
    if not found:
        raise DataError(f"{archive_path} must contain {patterns[0]}. Received: none in {target}.")
    return found


def find_local(tmp_dir: str | None, archive: download.RawFile, *patterns: str) -> list[str]:
    """Return the sorted paths of the unpacked files that match a pattern.

    The patterns are tried in the given order. Only the first pattern that matches a file is used.
    """
    target = _target(tmp_dir, archive)
    for folder in (tmp_dir or "", target):
        for pattern in patterns:
            if found := glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True):
                if folder == target:
                    unpacking.check_origin(os.path.join(tmp_dir or "", archive.name), target)
                return sorted(found)
    return []


def find_local_group(
    tmp_dir: str | None,
    archives: Sequence[download.RawFile],
    names: Sequence[Sequence[str]],
) -> list[str]:
    """Return the paths of unpacked files that are all in the same location.

    Files are in the same location if both conditions hold:

    - All files are in `tmp_dir`, or each file is in the folder of its unpacked archive.
    - The paths of all files have the same index in their sequences of `names`.

    The locations are tried in the same order as in `find_local`.

    Args:
        tmp_dir: str. Folder of the raw files.
        archives: sequence of `RawFile`, the archive of each file.
        names: sequence of sequences of str. The possible paths of each file. All sequences have the
            same length.

    Returns:
        list with one path for each file. The list is empty if no location has all files.
    """
    folders = [(tmp_dir or "", _target(tmp_dir, archive)) for archive in archives]
    for of_files in zip(*folders, strict=True):
        for name_of_files in zip(*map(_names, names), strict=True):
            paths = [os.path.join(*part) for part in zip(of_files, name_of_files, strict=True)]
            if paths and all(map(os.path.exists, paths)):
                for folder, archive in zip(of_files, archives, strict=True):
                    unpacking.check_origin(os.path.join(tmp_dir or "", archive.name), folder)
                return paths
    return []


def is_available(tmp_dir: str | None, archive: download.RawFile, *names: str) -> bool:
    """Return whether a file is available without a download.

    A file that matches a pattern in `names` is sufficient.
    """
    if find_local(tmp_dir, archive, *_names(names)):
        return True
    archive_is_there = os.path.isfile(os.path.join(tmp_dir or "", archive.name))
    return archive_is_there and not os.path.isdir(_target(tmp_dir, archive))


def read_lines(path: str, stripped: str | None = None) -> Iterator[str]:
    """Yield the `lines` of a text or `.gz` file without surrounding white space.

    Args:
        path: str. The file.
        stripped: str. The characters to remove. T2T removes only `ASCII_SPACES` where it reads
            bytes. None means all white space, which includes the no-break space.

    Raises:
        DataError: if a line is not UTF-8, or if the file is incomplete or contains no text.
    """
    return (line.strip(stripped) for line in lines(path))


def lines(path: str) -> Iterator[str]:
    """Yield the lines of a text or `.gz` file without carriage returns, as in T2T.

    Raises:
        DataError: if a line is not UTF-8, or if the file is incomplete or contains no text.
    """
    return with_text(text_lines.lines_without_carriage_returns(path), path)


def with_text(texts: Iterable[str], path: str) -> Iterator[str]:
    """Yield the lines of a file and check that at least one is not blank.

    Raises:
        DataError: if all lines are blank, for example after an incomplete download. The error
            message names the file.
    """
    has_text = False
    for line in texts:
        has_text = has_text or bool(line.strip())
        yield line
    if not has_text:
        raise DataError(f"{path} must contain lines of text. Received: {_empty(path)}.")


def version(path: str | None) -> tuple[str, int, int] | None:
    """Return values that change if a file changes.

    A cached function that reads the file takes these values as an argument, so that it reads a
    changed file again. The return value is None if the file does not exist.
    """
    try:
        status = os.stat(path or "")
    except OSError:
        return None
    return path or "", status.st_size, status.st_mtime_ns


def read_json_list(path: str, key: str) -> list[Any]:
    """Return the list under `key` in the JSON object that a file contains.

    Raises:
        DataError: if the list is missing or empty. The error message names the file.
    """
    values = json_file.read(path, DataError).get(key)
    if not isinstance(values, list) or not values:
        raise DataError(
            f"{path} must contain a JSON object with a list {key!r} that is not empty. "
            f"Received: {reprlib.repr(values)}."
        )
    return values


def _empty(path):
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return f"{size:,} bytes without text" if size else "an empty file"


def _names(names):
    bare = (os.path.basename(name) for name in names if "*" not in name)
    return (*names, *(name for name in bare if not re.fullmatch(r"(train|dev|test)\.\w+", name)))


def _target(tmp_dir, archive):
    # T2T unpacks an archive into tmp_dir itself. In ut_keras, each archive has its own folder,
    # which exists only if the archive was unpacked completely.
    part = f".{archive.part}" if archive.part else ""
    return os.path.join(tmp_dir or "", f"{archive.name}{part}.unpacked")
