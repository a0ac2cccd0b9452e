"""A lock on what a command writes, so that no two write it at once. It ends with its process.

    with held("run/run", "--output_dir must be written", "run"): ...

The file of the lock, run/.run.ut_keras-lock, is there as long as the lock is. The system lets go of
the lock when its process ends, on network file systems too, so what a killed process leaves locks
nothing. The file is empty: a program that reads all files of a folder finds no data in it. What is
not empty, or is a pipe or link, is the user's: it is left as it is, and the lock is refused. (Locks
of earlier versions hold a line of their own, and the number of their process.)
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from typing import IO

from ut_keras.errors import UserError
from ut_keras.files import file_error

_EARLIER = b"a lock of ut_keras, held as long as this process lives:\n"
_HELD = "/proc/locks"  # where Linux lists all locks with their processes


class LockedError(UserError):
    """Another process writes what was to be written."""


def beside(path: str | os.PathLike[str], kind: str) -> str:
    """The path of what a command keeps beside what it writes: run/.x.ut_keras-lock."""
    folder, name = os.path.split(os.fspath(path).rstrip(os.sep))
    return os.path.join(folder, f".{name}.ut_keras-{kind}")


@contextlib.contextmanager
def held(path: str, expected: str, received: str = "") -> Iterator[None]:
    """Context in which no other process holds the lock.

    Args:
        path: str, what is written; the lock is beside it, and removed at the end.
        expected: str, of the error, "by one command at a time".
        received: str, what is named there; the path, where it is "".

    Raises:
        LockedError: if another process holds it.
        UserError: if there is something else of its name.
    """
    lock = beside(path, "lock")
    file = try_lock(lock)
    if file is None:
        raise LockedError(
            f"{expected} by one command at a time. "
            f"Received: {(received or path)!r}, {_holder(lock)} does so already."
        )
    with file:
        try:
            yield
        finally:
            # In a folder that became read-only it stays, and locks nothing.
            with contextlib.suppress(OSError):
                if _is_at(file, lock):
                    os.remove(lock)


def try_lock(path: str, make: bool = True) -> IO[bytes] | None:
    """Returns an open file that holds the lock, or None if another process does.

    Args:
        path: str, of the lock itself.
        make: bool. If not, None is also for a lock that is not there, and where nobody can tell.

    Raises:
        UserError: if there is something else of its name.
    """
    while True:
        try:
            file = _open(path)
        except FileNotFoundError:
            if not make:
                return None
            with file_error.user_error_context(path), contextlib.suppress(FileExistsError):
                open(path, "xb").close()
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if make and not isinstance(error, BlockingIOError):  # a file system that has no locks
                return file
            file.close()
            return None
        if _is_at(file, path):
            file.truncate(0)
            return file
        file.close()  # Whoever held it has removed it meanwhile.


def remove_leftover(path: str) -> None:
    """Removes the lock beside a path, if a process that was killed has left one."""
    lock = beside(path, "lock")
    with contextlib.suppress(OSError, UserError):
        if file := try_lock(lock, make=False):
            with file:
                os.remove(lock)


def open_own(path: str, signature: bytes) -> IO[bytes]:
    """Opens a file of ours to be read and written, without a buffer, behind what it begins with.

    No link is followed, no pipe waited for.

    Raises:
        FileNotFoundError: if there is nothing of its name.
        UserError: if there is something else, that is somebody's.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EMLINK):
            raise foreign(path) from error
        raise
    file = os.fdopen(descriptor, "r+b", buffering=0)
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    if not is_file or file.read(len(signature)) != signature:
        file.close()
        raise foreign(path)
    return file


def _open(path):
    """Opens the file of a lock, as `open_own`: an empty one, or one of an earlier version."""
    file = open_own(path, b"")
    if file.read(len(_EARLIER)) in (b"", _EARLIER):
        return file
    file.close()
    raise foreign(path)


def foreign(path: str) -> UserError:
    """The error about something of a name of ours that is not ours."""
    return UserError(
        f"{path} must be free, for ut_keras keeps a file of its own there. Received: somebody "
        "else's, which is left as it is; give it another name."
    )


def _is_at(file, path):
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    return False


def _holder(path):
    """The process that holds a lock, as text; its number where the system tells it.

    That is on Linux, of a process of the same machine.
    """
    with contextlib.suppress(OSError, ValueError), open(_HELD, encoding="ascii") as held:
        status = os.lstat(path)
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
        # 1: FLOCK  ADVISORY  WRITE 7120 fe:00:5548243 0 EOF
        for words in map(str.split, held):
            if f"{device}:{status.st_ino}" in words[5:6] and int(words[4]) > 0:
                return f"process {words[4]}"
    return "another process"
