"""Unpack selected files from an archive, up to a maximum size.

    unpack(path, "tmp/corpus", ("corpus/*.en", "corpus/*.de"), most_bytes=10**9)

An archive is a tar file (which may be compressed), a zip file, or one gzip-compressed file. Links,
devices, names outside the target folder, and files that exceed the maximum size raise an error. The
unpacked files do not keep the owners and permissions of the archive.
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

# A file in each unpacked folder, with the size of the archive. Patterns do not match its name.
_SIZE_FILE = ".ut_keras-archive-size"
_BLOCK = 1 << 20  # maximum number of bytes that are read at once
# `zipfile` raises RuntimeError for an encrypted file, and NotImplementedError for an unknown
# compression method.
_ARCHIVE_ERRORS = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error),
    *(lzma.LZMAError, ValueError, RuntimeError, NotImplementedError),
)


def unpack(path: str, directory: str, members: Sequence[str], most_bytes: int) -> str:
    """Unpack an archive into a new folder.

    The folder gets its final name when it is complete.

    Args:
        path: str. The archive.
        directory: str. The new folder. If it exists, the function only calls `check_origin`.
        members: tuple of str, patterns for the names of the files to unpack. In a pattern, `*`
            matches any text.
        most_bytes: int. The maximum unpacked size of all files of the archive.

    Returns:
        `directory`.

    Raises:
        DataError: in one of these cases:
            - The archive is damaged, encrypted or too large.
            - `members` is not a tuple of patterns, or no file matches a pattern.
            - A matching file is a link or device, or its name leads outside the folder.
            - `directory` is a file or a broken link.
            - `directory` has the files of another archive.
    """
    if os.path.isdir(directory):
        check_origin(path, directory)
        return directory
    if not members or isinstance(members, str) or not all(isinstance(m, str) for m in members):
        raise DataError(
            f"The members of {os.path.basename(path)} must be a tuple of patterns such as "
            f"('*.txt',). Received: {members!r}."
        )
    if os.path.lexists(directory):
        raise DataError(
            f"{directory} must be a folder for the files of {os.path.basename(path)}. "
            "Received: a file or link. Remove it."
        )

    os.makedirs(os.path.dirname(directory) or ".", exist_ok=True)
    with whole_file.temporary_folder(directory) as temporary:
        whole = os.path.join(temporary, "whole")
        os.mkdir(whole)

        def copy(name, source):
            target = _path_inside(whole, name, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with file_error.named(directory), open(target, "wb") as file:
                for block in file_error.blocks(source, path):
                    file.write(block)
                    _check_size(file.tell(), most_bytes, path)

        read(path, members, most_bytes, copy)
        if not os.listdir(whole):
            raise DataError(
                f"{path} must contain {' or '.join(members)}. Received: an archive without them."
            )
        with file_error.named(directory), open(os.path.join(whole, _SIZE_FILE), "w") as file:
            file.write(f"{os.path.getsize(path)}\n")
        if not os.path.isdir(directory):  # another process may have made the folder in the meantime
            whole_file.move_into_place([(whole, directory)])
    return directory


def _path_inside(folder, name, archive):
    """Return the path in `folder` for the member `name` of an archive.

    Raises:
        DataError: if this path is outside the folder.
    """
    target = os.path.normpath(os.path.join(folder, name))
    if os.path.isabs(name) or not target.startswith(folder + os.sep):
        raise DataError(
            f"The names in an archive must stay inside the target folder. Received: {name!r} "
            f"in {archive}."
        )
    return target


def check_origin(path: str, directory: str) -> None:
    """Check that the files in a folder come from an archive.

    The function compares the size of the archive with the size that `unpack` stored in the folder.
    It checks nothing if the archive or the stored size does not exist.

    Raises:
        DataError: if another archive was unpacked to the folder.
    """
    try:
        with open(os.path.join(directory, _SIZE_FILE), encoding="utf-8") as file:
            former, size = file.read().strip(), str(os.path.getsize(path))
    except OSError:
        return
    if former != size:
        raise DataError(
            f"{directory} must have the files of {path}, which has {size} bytes. Received: the "
            f"files of an archive of {former} bytes. Remove the folder to unpack the archive again."
        )


def read(
    path: str, members: Sequence[str], most_bytes: int, receive: Callable[[str, IO[bytes]], None]
) -> None:
    """Call `receive(name, binary file)` for matching files, in archive order.

    Args:
        path, members, most_bytes: the same as for `unpack`.
        receive: function that is called once per matching file.

    Raises:
        DataError: if the archive is damaged, encrypted or too large, or if a matching file is a
            link or device.
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
        # An error of the operating system has a number, for example if the disk is full.
        is_of_system = isinstance(error, OSError) and error.errno is not None
        if is_of_system or isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} must be a complete tar, zip or gzip file without a password. Received: "
            f"{error or type(error).__name__}. Remove it to fetch it again."
        ) from error


def _members(path):
    """Yield the members of an archive, except folders.

    Yields:
        (name, size in bytes, whether the member is a regular file, function that opens the member)
    """
    if not os.path.getsize(path):
        raise EOFError("an empty file")
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            for member in archive:
                if not member.isdir():
                    read_member = functools.partial(archive.extractfile, member)
                    yield member.name, member.size, member.isfile(), read_member
            # A tar file ends with two empty blocks, which a truncated file lacks.
            archive.fileobj.seek(archive.offset)
            if archive.fileobj.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
                raise EOFError("the end is missing")
            while archive.fileobj.read(_BLOCK):
                pass  # reading to the end verifies the checksum
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.filename.endswith("/"):  # `is_dir` fails for an empty name
                    kind = stat.S_IFMT(info.external_attr >> 16)
                    open_member = functools.partial(archive.open, info)
                    yield info.filename, info.file_size, kind in (0, stat.S_IFREG), open_member
    else:
        name = os.path.splitext(os.path.basename(path))[0]
        yield name, 0, True, functools.partial(gzip.open, path)  # 0: the unpacked size is unknown


def _check_size(size, most_bytes, path):
    if size > most_bytes:
        raise DataError(f"{path} must unpack to at most {most_bytes} bytes. Received: more.")
