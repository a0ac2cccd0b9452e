"""A lock on what a command writes, so that no two write it at once. It ends with its process.

    with held("run/run", "--output_dir must be written by one command at a time", "run"): ...

The file of the lock, run/.run.ut_keras-lock, holds the number of its process, and is there as long
as the lock is; what a killed process leaves locks nothing. Anything else of that name is
somebody's, is left as it is, and the lock is refused.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import IO

from ut_keras.errors import UserError

_MOST_DIGITS = 20


class LockedError(UserError):
    """Another process writes what was to be written."""


def beside(path: str | os.PathLike[str], kind: str) -> str:
    """The path of what a command keeps beside what it writes: run/.x.ut_keras-lock."""
    folder, name = os.path.split(os.fspath(path).rstrip(os.sep))
    return os.path.join(folder, f".{name}.ut_keras-{kind}")


@contextlib.contextmanager
def held(path: str, expected: str, received: str) -> Iterator[None]:
    """Context in which no other process holds the lock.

    Args:
        path: str, what is written; the lock is beside it, and removed at the end.
        expected, received: str, of the error.

    Raises:
        LockedError: if another process holds it.
        UserError: if there is something else of its name.
    """
    lock = beside(path, "lock")
    file = try_lock(lock)
    if file is None:
        raise LockedError(f"{expected}. Received: {received}, {_holder(lock)} does so already.")
    with file:
        try:
            yield
        finally:
            if _is_at(file, lock):
                os.remove(lock)


def try_lock(path: str) -> IO[bytes] | None:
    """Returns an open file that holds the lock, or None if another process does.

    Args:
        path: str, of the lock itself.

    Raises:
        UserError: if there is something else of its name.
    """
    while True:
        file = _open(path, os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:  # a file system that has no locks
            return file
        if _is_at(file, path):
            file.truncate(0)
            with contextlib.suppress(OSError):  # a full disk
                file.write(f"{os.getpid()}\n".encode())
            return file
        file.close()  # Whoever held it has removed it meanwhile.


@contextlib.contextmanager
def left_behind(path: str) -> Iterator[bool]:
    """Context that holds the lock of a process that has ended, if it has.

    Args:
        path: str, of the lock itself.

    Yields:
        bool. False if the process lives, if there is no such lock, or if nobody can tell.
    """
    try:
        file = _open(path)
    except (OSError, UserError):
        yield False
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield _is_at(file, path)


def open_own(path: str, flags: int = 0) -> IO[bytes]:
    """Opens a file of ours to be read and written, without a buffer.

    Raises:
        FileNotFoundError: if there is nothing of its name, and `flags` do not make it.
        UserError: if there is a link, pipe or folder, which is somebody's.
    """
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        raise foreign(path)
    return os.fdopen(os.open(path, os.O_RDWR | flags, 0o666), "r+b", buffering=0)


def foreign(path: str) -> UserError:
    """The error about something of a name of ours that is not ours."""
    return UserError(
        f"{path} must be free, for ut_keras keeps a file of its own there. Received: somebody "
        "else's, which is left as it is; give it another name."
    )


def _open(path, flags=0):
    """Opens a lock, which holds a number, or nothing yet."""
    file = open_own(path, flags)
    content = file.read(_MOST_DIGITS)
    if content and not content.strip().isdigit():
        file.close()
        raise foreign(path)
    file.seek(0)
    return file


def _is_at(file, path):
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    return False


def _holder(path):
    """The process that has written its number to the lock, as text."""
    with contextlib.suppress(OSError, UserError), _open(path) as file:
        if number := file.read().strip():
            return f"process {number.decode()}"
    return "another process"
