"""Files and folders that are there whole or not at all, whatever ends the process or the machine.

    with writing("run/hparams.json") as file: …          a file
    with folder("served/7") as temporary: …              more than one, named by `put`

What is not whole yet has a name of its own, PATH.incomplete.8f3a0c1d, and its writer holds a lock
on it. What a killed one has left is removed when PATH is written again. Nothing gets its name
before the disk has it.
"""

import contextlib
import errno
import glob
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from typing import IO, Any

from ut_keras import file_error, path_lock

_LOCK = "lock"  # of a folder, in it
# Of file systems that have no such thing as a folder to sync.
_NO_FOLDERS = (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EACCES, errno.EISDIR)


@contextlib.contextmanager
def writing(path: str, binary: bool = False) -> Iterator[IO[Any]]:
    """Opens a file under another name, which becomes `path` at the end.

    Several processes may write the same file. What is raised leaves the file as it was, and nothing
    beside it.

    Args:
        path: str.
        binary: bool. Whether it is of bytes, not of UTF-8 text.
    """
    text = {"encoding": "utf-8", "newline": "\n"}
    how: Any = {"mode": "wb"} if binary else {"mode": "w", **text}
    remove_leftovers(path)
    with file_error.named(path):
        lock = None
        while lock is None:
            temporary = _temporary(path)
            lock = path_lock.try_lock(temporary)
    try:
        with lock:
            with file_error.named(path), open(temporary, **how) as file:
                yield file
            put([(temporary, path)])
    finally:
        with contextlib.suppress(OSError):
            os.remove(temporary)


def check_writable(directory: str) -> None:
    """Makes a folder, if it is not there; raises `OSError` if nothing can be written to it."""
    os.makedirs(directory, exist_ok=True)
    probe = os.path.join(directory, f".writable.{os.getpid()}")
    with open(probe, "wb"):
        pass
    os.remove(probe)


@contextlib.contextmanager
def folder(path: str) -> Iterator[str]:
    """Makes a folder for what is to become `path`, or files beside it; removes it at the end.

    Args:
        path: str.

    Yields:
        str, the folder. It holds a file that must stay there.
    """
    remove_leftovers(path)
    lock = None
    while lock is None:
        temporary = _temporary(path)
        os.mkdir(temporary)
        with contextlib.suppress(FileNotFoundError):  # somebody took it for a leftover
            lock = path_lock.try_lock(os.path.join(temporary, _LOCK))
    try:
        with lock:
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def put(pairs: Iterable[tuple[str, str]]) -> None:
    """Gives what is written its names, in the order given, when the disk has all of it.

    Args:
        pairs: list of (source, target), paths of files or folders on one disk.
    """
    for source, _ in pairs:
        _sync(source)
    for source, target in pairs:
        os.replace(source, target)
    for name in dict.fromkeys(os.path.dirname(target) for _, target in pairs):
        _sync_folder(name)


def remove_leftovers(path: str) -> None:
    """Removes what killed processes have left of a file or folder that they wrote here.

    Args:
        path: str; a * in it stands for any name.
    """
    for name in glob.glob(f"{glob.escape(path).replace('[*]', '*')}.incomplete.*"):
        is_folder = os.path.isdir(name)
        with path_lock.left_behind(os.path.join(name, _LOCK) if is_folder else name) as is_dead:
            if is_dead:
                with contextlib.suppress(OSError):
                    shutil.rmtree(name) if is_folder else os.remove(name)
        with contextlib.suppress(OSError):
            if is_folder:
                os.rmdir(name)  # Its process ended before it could lock it.


def _temporary(path):
    return f"{path}.incomplete.{secrets.token_hex(4)}"


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
        if error.errno not in _NO_FOLDERS:
            raise
