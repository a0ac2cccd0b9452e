"""Files and folders that are there whole or not at all, whatever ends the process or the machine.

    with writing("run/hparams.json") as file: …          a file
    with writing_folder("served/7") as folder: …               a folder
    with temporary_folder("run/model.index") as temporary: …   several; see `move_into_place`

What is not whole yet lies in a folder of its own, .NAME.ut_keras-8f3a0c1d beside it, in which its
writer holds a lock, an empty file. What a killed one has left is known by that, and removed when
PATH is written again. Nothing gets its name before the disk has it.
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

_LOCK = "lock"  # in each folder
_LEFTOVER = re.compile(r"\..*\.ut_keras-[0-9a-f]{8}", re.DOTALL)
# Of file systems that have no such thing as a folder to sync.
_FOLDER_SYNC_UNSUPPORTED = (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EACCES, errno.EISDIR)


@contextlib.contextmanager
def writing(path: str, binary: bool = False) -> Iterator[IO[Any]]:
    """Opens a file under another name, which becomes `path` at the end.

    Several processes may write the same file. What is raised leaves the file as it was, and nothing
    beside it; so does a file that one may not write, or a link to a disk that is not there. If not
    `binary`, it is of UTF-8 text.
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
            shutil.copymode(path, whole)  # who may read the one that it replaces
        move_into_place([(whole, path)])


def copy(source: str, path: str) -> None:
    """Copies a file, to be written as by `writing`."""
    with open(source, "rb") as file, writing(path, binary=True) as written:
        file_error.copy(file, source, written)


@contextlib.contextmanager
def writing_folder(path: str) -> Iterator[str]:
    """Makes a folder, and those above, which becomes `path` at the end; what is raised leaves none.

    There must be no such folder, or an empty one. Yields the folder to write to.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with temporary_folder(path) as temporary:
        whole = os.path.join(temporary, "whole")
        os.mkdir(whole)
        yield whole
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, whole)
        move_into_place([(whole, path)])


def break_hard_links(path: str) -> None:
    """Makes a file one's own that other names have, too: in a copy by hard links (`cp -al`).

    Whoever adds to a file calls it; `writing` gives a new one in any case.
    """
    if os.path.exists(path) and os.stat(path).st_nlink > 1:
        copy(path, os.path.realpath(path))


def check_writable(directory: str) -> None:
    """Makes a folder, if it is not there; raises `OSError` if nothing can be written to it."""
    os.makedirs(directory, exist_ok=True)
    with file_error.user_error_context(directory):
        tempfile.TemporaryFile(dir=directory).close()


@contextlib.contextmanager
def temporary_folder(path: str) -> Iterator[str]:
    """Makes a folder for what is to become `path`, or files beside it; removes it at the end.

    Yields the folder. It holds a file, lock, that must stay there.
    """
    remove_leftovers(path)
    lock = made = None
    try:
        while lock is None:
            temporary = path_lock.beside(path, secrets.token_hex(4))
            with file_error.user_error_context(path):
                os.mkdir(temporary)
                made = temporary
                with contextlib.suppress(FileNotFoundError):  # somebody took it for a leftover
                    lock = path_lock.try_lock(os.path.join(made, _LOCK))
        with lock:
            yield temporary
    finally:
        if made:
            shutil.rmtree(made, ignore_errors=True)


def move_into_place(pairs: Iterable[tuple[str, str]], obsolete: str | None = None) -> None:
    """Gives what is written its names, in the order given, when the disk has all of it.

    Args:
        pairs: list of (source, target), paths of files or folders on one disk.
        obsolete: str, path of a file that goes before.
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
    """Removes what killed processes have left of what they wrote here; a * is any name."""
    pattern = glob.escape(path_lock.beside(path, "")).replace("[*]", "*")
    for name in glob.glob(f"{pattern}*"):
        if not _LEFTOVER.fullmatch(os.path.basename(name)) or os.path.islink(name):
            continue
        with contextlib.suppress(OSError, UserError):
            if lock := path_lock.try_lock(os.path.join(name, _LOCK), make=False):
                with lock:  # Its process has ended.
                    shutil.rmtree(name, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(name)  # Its process ended before it could lock it.


def _sync(path):
    """Waits until the disk has a file, or a folder with all that is in it."""
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
