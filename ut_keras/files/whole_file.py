"""Atomic writes: files and folders that exist completely or not at all.

    with writing("run/hparams.json") as file: …                    a file
    with writing_folder("served/7") as folder: …                   a folder
    with temporary_folder("run/model.index") as temporary: …       several files; `move_into_place`

While a file or folder PATH is incomplete, it is in a temporary folder next to PATH, called
.NAME.ut_keras-8f3a0c1d. The writing process holds a lock in this folder. If the process is killed,
the lock is released. The next process that writes PATH therefore recognizes the folder as a
leftover and removes it. A file gets its final name only after its content is on disk.
"""

import contextlib
import errno
import glob
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

from ut_keras.errors import UserError
from ut_keras.files import file_error, path_lock

_LOCK = "lock"  # the name of the lock in each temporary folder
_LEFTOVER = re.compile(r"\..*\.ut_keras-[0-9a-f]{8}", re.DOTALL)
# Errors of file systems on which a folder cannot be synchronized.
_FOLDER_SYNC_UNSUPPORTED = (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EACCES, errno.EISDIR)


@contextlib.contextmanager
def writing(path: str, binary: bool = False) -> Iterator[IO[Any]]:
    """Context that yields an open temporary file, which replaces `path` at the end.

    Several processes may write the same file. After an exception, the context keeps the old file
    and removes the temporary file. If `path` is not writable, or is a link to a disk that is not
    mounted, the context raises an error and does not change `path`.

    Args:
        path: str. The file.
        binary: bool. If False, the file is text in UTF-8.
    """
    text = {"encoding": "utf-8", "newline": "\n"}
    how: Any = {"mode": "wb"} if binary else {"mode": "w", **text}
    file_error.check_is_file(path)
    if os.path.lexists(path):
        open(path, "r+b").close()
    with temporary_folder(path) as temporary:
        whole = os.path.join(temporary, "whole")
        with file_error.named(path), open(whole, **how) as file:
            yield file
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, whole)  # keep the permissions of the old file
        move_into_place([(whole, path)])


def copy(source: str, path: str) -> None:
    """Copy a file to `path` atomically, by means of `writing`."""
    with open(source, "rb") as file, writing(path, binary=True) as written:
        file_error.copy(file, source, written)


@contextlib.contextmanager
def writing_folder(path: str) -> Iterator[str]:
    """Context that yields a temporary folder, which is renamed to `path` at the end.

    The context creates missing parent folders. `path` must not exist, or must be an empty folder.
    If an exception is raised, `path` is not created.
    """
    parent = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(parent, exist_ok=True)
    except FileExistsError as error:  # Python's message would be "File exists"
        number = errno.ENOTDIR
        raise NotADirectoryError(number, os.strerror(number), parent) from error
    with temporary_folder(path) as temporary:
        whole = os.path.join(temporary, "whole")
        os.mkdir(whole)
        yield whole
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, whole)
        move_into_place([(whole, path)])


def break_hard_links(path: str) -> None:
    """Replace a file by a copy if the file has other hard links.

    For example, `cp -al` makes hard links. Code that appends to a file must call this function
    first. `writing` does not call it, because `writing` always makes a new file.
    """
    if os.path.exists(path) and os.stat(path).st_nlink > 1:
        copy(path, os.path.realpath(path))


def check_writable(directory: str) -> None:
    """Create a folder if it is missing, and check that files can be written to it.

    Raises:
        OSError: if the folder cannot be created or is not writable.
    """
    os.makedirs(directory, exist_ok=True)
    with file_error.user_error_context(directory):
        tempfile.TemporaryFile(dir=directory).close()


@contextlib.contextmanager
def temporary_folder(path: str) -> Iterator[str]:
    """Create a temporary folder next to `path`, and remove it after the `with` block.

    The context yields the folder. The folder contains a file called "lock", which must not be
    removed.
    """
    remove_leftovers(path)
    lock = made = None
    try:
        while lock is None:
            temporary = path_lock.beside(path, secrets.token_hex(4))
            with file_error.user_error_context(path):
                os.mkdir(temporary)
                made = temporary
                # Another process may remove the folder as a leftover before it is locked.
                with contextlib.suppress(FileNotFoundError):
                    lock = path_lock.try_lock(os.path.join(made, _LOCK))
        with lock:
            yield temporary
    finally:
        if made:
            shutil.rmtree(made, ignore_errors=True)


def move_into_place(pairs: Iterable[tuple[str, str]], obsolete: str | None = None) -> None:
    """Give finished files their final names, in the given order.

    Args:
        pairs: list of (source, target), paths of files or folders on the same disk. The
            sources are first synchronized to the disk.
        obsolete: str, path of a file that is removed before the first source is renamed.
    """
    for source, _ in pairs:
        _sync(source)
    if obsolete:
        with contextlib.suppress(FileNotFoundError):
            os.remove(obsolete)
    for source, target in pairs:
        os.replace(source, target)
    for name in dict.fromkeys(os.path.dirname(target) for _, target in pairs):
        _sync_folder(name)


def remove_leftovers(path: str) -> None:
    """Remove the temporary folders that killed processes left for a path.

    Args:
        path: str. In this path, `*` matches any text.
    """
    pattern = glob.escape(path_lock.beside(path, "")).replace("[*]", "*")
    for name in glob.glob(f"{pattern}*"):
        if not _LEFTOVER.fullmatch(os.path.basename(name)) or os.path.islink(name):
            continue
        with contextlib.suppress(OSError, UserError):
            if lock := path_lock.try_lock(os.path.join(name, _LOCK), make=False):
                with lock:  # the process that wrote the folder has ended
                    shutil.rmtree(name, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(name)  # a process was killed before it could lock the folder


def _sync(path):
    """Wait until the disk has stored a file, or a folder with its contents."""
    if not os.path.isdir(path):
        _sync_file(path)
    for name, _, files in os.walk(path):
        for file in files:
            _sync_file(os.path.join(name, file))
        _sync_folder(name)


def _sync_file(path):
    with file_error.named(path), open(path, "rb") as file:
        os.fsync(file.fileno())


def _sync_folder(path):
    try:
        descriptor = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _FOLDER_SYNC_UNSUPPORTED:
            raise
