"""A lock on what a command writes, so that no two write it at once. It ends with its process.

    with held("run/.lock", "--output_dir must be written by one command at a time", "run"): ...

The file of the lock is there as long as the lock is; what a killed process leaves locks nothing.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import IO

from ut_keras.errors import UserError


class LockedError(UserError):
    """Another process writes what was to be written."""


@contextlib.contextmanager
def held(path: str, expected: str, received: str) -> Iterator[None]:
    """Context in which no other process holds the lock.

    Args:
        path: str, the file to lock, made if missing and removed at the end.
        expected, received: str, of the error.

    Raises:
        LockedError: if another process holds it.
    """
    file = try_lock(path)
    if file is None:
        raise LockedError(f"{expected}. Received: {received}, {_holder(path)} does so already.")
    with file:
        with contextlib.suppress(OSError):  # a full disk
            os.write(file.fileno(), f"{os.getpid()}\n".encode())
        try:
            yield
        finally:
            if _is_at(file, path):
                os.remove(path)


def try_lock(path: str) -> IO[str] | None:
    """Returns an open file that holds the lock, or None if another process does."""
    while True:
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:  # a file system that has no locks
            return file
        if _is_at(file, path):
            file.truncate(0)
            return file
        file.close()  # Whoever held it has removed it meanwhile.


@contextlib.contextmanager
def left_behind(path: str) -> Iterator[bool]:
    """Context that holds the lock of a process that has ended, if it has.

    Args:
        path: str, a file that a process has locked by `try_lock`.

    Yields:
        bool. False if the process lives, if there is no such file, or if nobody can tell.
    """
    try:
        file = open(path, "r+b")  # noqa: SIM115
    except OSError:
        yield False
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield _is_at(file, path)


def _is_at(file, path):
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    return False


def _holder(path):
    """The process that has written its number to the file, as text."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        if (number := file.read(20).strip()).isdecimal():
            return f"process {number}"
    return "another process"
