"""Archives, of which only what is wanted is unpacked, and no more than there may be.

    unpack(path, "tmp/corpus", ("corpus/*.en", "corpus/*.de"), most_bytes=10**9)

An archive is tar (also compressed), zip, or gzip of one file. Links, devices, names that lead out
of the folder, and whatever becomes larger than it may, are refused. Members are copied out, without
owners and permissions.
"""

import fnmatch
import functools
import gzip
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import IO

from ut_keras.errors import DataError
from ut_keras.files import file_error, whole_file

_BLOCK = 1 << 20  # bytes
# The last two: of a zip file that is encrypted, or compressed in a way that Python does not know.
_ARCHIVE_ERRORS = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error),
    *(lzma.LZMAError, ValueError, RuntimeError, NotImplementedError),
)


def unpack(path: str, directory: str, members: Sequence[str], most_bytes: int) -> str:
    """Unpacks an archive into a new folder, which is there when it is whole.

    Args:
        path: str. The archive.
        directory: str. The folder, of its own; if it is there already, nothing is done.
        members: tuple of str, patterns for the names of what is wanted; `*` is any text.
        most_bytes: int. What all files of the archive may have, unpacked.

    Returns:
        `directory`.

    Raises:
        DataError: if the archive is broken, encrypted or too large, or holds nothing that is
            wanted, or what is wanted is a link or has a name outside the folder; or the folder is a
            file.
    """
    if os.path.isdir(directory):
        return directory
    if not members or isinstance(members, str) or not all(isinstance(m, str) for m in members):
        raise DataError(
            f"The members of {os.path.basename(path)} must be a tuple of patterns such as "
            f"('*.txt',). Received: {members!r}."
        )
    if os.path.lexists(directory):
        raise DataError(
            f"{directory} must be a folder, to which {os.path.basename(path)} is unpacked. "
            "Received: a file or link. Remove it."
        )

    def copy(name, source):
        target = os.path.normpath(os.path.join(whole, name))
        if os.path.isabs(name) or not target.startswith(whole + os.sep):
            raise DataError(
                f"The names in an archive must stay inside the target folder. Received: {name!r} "
                f"in {path}."
            )
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with file_error.named(directory), open(target, "wb") as file:
            for block in file_error.blocks(source, path):
                file.write(block)
                _check_size(file.tell(), most_bytes, path)

    os.makedirs(os.path.dirname(directory) or ".", exist_ok=True)
    with whole_file.temporary_folder(directory) as temporary:
        whole = os.path.join(temporary, "whole")
        os.mkdir(whole)
        read(path, members, most_bytes, copy)
        if not os.listdir(whole):
            raise DataError(
                f"{path} must contain {' or '.join(members)}. Received: an archive without them."
            )
        if not os.path.isdir(directory):  # Another process may have been faster.
            whole_file.move_into_place([(whole, directory)])
    return directory


def read(
    path: str, members: Sequence[str], most_bytes: int, receive: Callable[[str, IO[bytes]], None]
) -> None:
    """Calls `receive` with (name, binary file) of all that is wanted, from front to back.

    Args and raised errors as of `unpack`.
    """
    file_error.check_is_file(path)
    try:
        total = 0
        for name, size, is_file, open_member in _members(path):
            total += size
            _check_size(total, most_bytes, path)
            name = name.removeprefix("./")
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in members):
                continue
            if not is_file:
                raise DataError(
                    f"An archive must contain only files and folders. Received: {name!r}, a link "
                    f"or device, in {path}."
                )
            with open_member() as file:
                receive(name, file)
    except (OSError, *_ARCHIVE_ERRORS) as error:
        is_of_system = isinstance(error, OSError) and error.errno is not None  # such as a full disk
        if is_of_system or isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} must be a complete tar, zip or gzip file without a password. Received: "
            f"{error or type(error).__name__}. Remove it to fetch it again."
        ) from error


def _members(path):
    """Yields (name, bytes, whether it is a file, function that opens it) of what is no folder."""
    if not os.path.getsize(path):
        raise EOFError("an empty file")
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            for member in archive:
                if not member.isdir():
                    read_member = functools.partial(archive.extractfile, member)
                    yield member.name, member.size, member.isfile(), read_member
            archive.fileobj.seek(archive.offset)  # two empty blocks, which a cut file lacks
            if archive.fileobj.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
                raise EOFError("the end is missing")
            while archive.fileobj.read(_BLOCK):
                pass  # what compresses it checks its sum at the end
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.filename.endswith("/"):  # `is_dir` fails without a name
                    kind = stat.S_IFMT(info.external_attr >> 16)
                    open_member = functools.partial(archive.open, info)
                    yield info.filename, info.file_size, kind in (0, stat.S_IFREG), open_member
    else:
        name = os.path.splitext(os.path.basename(path))[0]
        yield name, 0, True, functools.partial(gzip.open, path)  # whose size nothing tells


def _check_size(size, most_bytes, path):
    if size > most_bytes:
        raise DataError(f"{path} must unpack to at most {most_bytes} bytes. Received: more.")
