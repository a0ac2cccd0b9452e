"""Raw text files: found in tmp_dir or in an archive, and read line by line.

A member of an archive, such as `dev/newstest2013.en` of `dev.tgz`, is looked for in tmp_dir:
unpacked as T2T leaves it (`dev/newstest2013.en`), by its bare name (`newstest2013.en`) unless that
may be anybody's (`train.tsv`), and in the archive, which is downloaded if it is not there and
unpacked into `dev.tgz.unpacked`.
"""

import glob
import os
import re
import reprlib
from collections.abc import Iterable, Iterator
from typing import Any

from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.files import json_file, unpacking
from ut_keras.problems import problem
from ut_keras.text import text_lines


class FromArchive(problem.Problem):
    """Comes before a text problem in the list of bases: a file of an archive for each split.

    Attributes:
        archive: `RawFile`.
        members: tuple of str. The names that the file of a split may have, that in the archive
            first; "{}" stands for the split.
        parts: dict from split to what stands for it.
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
        """Returns the path of the file of a split, after a download if need be."""
        names = (member.format(self.parts[split]) for member in self.members)
        return find(tmp_dir, self.archive, *names)


def find(tmp_dir: str | None, archive: download.RawFile, *names: str) -> str:
    """Returns the path of a file, after a download if need be.

    Args:
        archive: `RawFile` that the file is in, or the file itself.
        *names: str, the names that the file may have, relative to the archive; the first is that
            in the archive. None if it is no archive.

    Raises:
        DataError: if it cannot be had.
    """
    if not names:
        return download.fetch(tmp_dir, archive)
    return find_all(tmp_dir, archive, *_names(names))[0]


def find_all(tmp_dir: str | None, archive: download.RawFile, *patterns: str) -> list[str]:
    """Return the paths that `find_local` finds, after a download if necessary; raise as `find`."""
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
    """Returns the paths of what fits the first pattern that anything fits, unpacked, sorted."""
    for folder in (tmp_dir or "", _target(tmp_dir, archive)):
        for pattern in patterns:
            if found := glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True):
                return sorted(found)
    return []


def is_available(tmp_dir: str | None, archive: download.RawFile, *names: str) -> bool:
    """Whether nothing has to be downloaded for a file, or for those that fit a pattern."""
    if find_local(tmp_dir, archive, *_names(names)):
        return True
    archive_is_there = os.path.isfile(os.path.join(tmp_dir or "", archive.name))
    return archive_is_there and not os.path.isdir(_target(tmp_dir, archive))


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a file, which may be `.gz`, without white space around them.

    Raises:
        DataError: if a line is not UTF-8, or if the file is not complete or holds no text.
    """
    return map(str.strip, with_text(text_lines.lines(path), path))


def with_text(lines: Iterable[str], path: str) -> Iterator[str]:
    """Yields the lines of a file, which must not all be blank.

    Raises:
        DataError: names the file if they are: its copy or download was cut short.
    """
    has_text = False
    for line in lines:
        has_text = has_text or bool(line.strip())
        yield line
    if not has_text:
        raise DataError(f"{path} must contain lines of text. Received: {_empty(path)}.")


def read_json_list(path: str, key: str) -> list[Any]:
    """Returns the list that a file of one JSON object holds under a key.

    Raises:
        DataError: names the file if there is none, or an empty one.
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
    # T2T unpacks into tmp_dir itself; a folder of its own tells that all of it is there.
    part = f".{archive.part}" if archive.part else ""
    return os.path.join(tmp_dir or "", f"{archive.name}{part}.unpacked")
