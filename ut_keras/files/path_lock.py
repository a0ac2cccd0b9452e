"""A lock that keeps two processes from writing the same files at once.

    with held("run/run", "--output_dir must be written", "run"): ...

The lock file, run/.run.ut_keras-lock, exists while the lock is held. The operating system releases
the lock when the process ends, also on network file systems. Therefore a lock file that a killed
process has left behind does not lock anything. The file is empty, so that a program that reads all
files of a folder finds no data in it.

If a file of this name is not empty, or is a pipe or a link, it belongs to the user. ut_keras does
not change this file, and acquiring the lock raises an error. Lock files of earlier versions of
ut_keras are an exception. They are recognized, although they contain a line of text and a process
number.
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
    """Another process is writing the same files."""


def beside(path: str | os.PathLike[str], kind: str) -> str:
    """Return the path of an auxiliary file next to `path`.

    For run/x and the kind "lock", it is run/.x.ut_keras-lock.
    """
    folder, name = os.path.split(os.fspath(path).rstrip(os.sep))
    return os.path.join(folder, f".{name}.ut_keras-{kind}")


@contextlib.contextmanager
def held(path: str, expected: str, received: str = "") -> Iterator[None]:
    """Hold the lock for a path during the `with` block.

    Args:
        path: str, the file or folder that is written. The lock file is next to `path`, and is
            removed at the end.
        expected: str, the beginning of the message of an error. The message continues with "by one
            command at a time".
        received: str, the name of the file or folder in the message. If it is "", the message
            contains `path`.

    Raises:
        LockedError: if another process holds the lock.
        UserError: if the user has another file with the name of the lock file.
    """
    lock = beside(path, "lock")
    file = try_lock(lock)
    if file is None:
        raise LockedError(
            f"{expected} by one command at a time. "
            f"Received: {(received or path)!r}, which {_holder(lock)} is using."
        )
    with file:
        try:
            yield
        finally:
            # If the folder has become read-only, the file remains. It does not lock anything.
            with contextlib.suppress(OSError):
                if _is_at(file, lock):
                    os.remove(lock)


def try_lock(path: str, make: bool = True) -> IO[bytes] | None:
    """Return an open file that holds the lock, or None if another process holds it.

    Args:
        path: str, the lock file.
        make: bool. Whether to create a missing lock file. If False, the result is also None if the
            lock file is missing, or if the file system has no locks.

    Raises:
        UserError: if the user has another file with this name.
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
            if make and not isinstance(error, BlockingIOError):  # this file system has no locks
                return file
            file.close()
            return None
        if _is_at(file, path):
            file.truncate(0)
            return file
        file.close()  # the previous holder has removed the file in the meantime


def remove_leftover(path: str) -> None:
    """Remove the lock file for a path if a killed process has left it behind."""
    lock = beside(path, "lock")
    with contextlib.suppress(OSError, UserError):
        if file := try_lock(lock, make=False):
            with file:
                os.remove(lock)


def open_own(path: str, signature: bytes) -> IO[bytes]:
    """Open a file of ut_keras for reading and writing, without a buffer.

    The position of the open file is after the signature. The function does not follow links and
    does not wait for pipes.

    Raises:
        FileNotFoundError: if the file does not exist.
        UserError: if the file does not begin with the signature, and so belongs to the user.
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
    """Open a lock file, which must be empty or written by an earlier version."""
    file = open_own(path, b"")
    if file.read(len(_EARLIER)) in (b"", _EARLIER):
        return file
    file.close()
    raise foreign(path)


def foreign(path: str) -> UserError:
    """Return the error for a file of the user that has the name of a file of ut_keras."""
    return UserError(
        f"{path} must be free, because ut_keras writes a file of its own there. "
        "Received: another file, which was not changed. Rename it."
    )


def _is_at(file, path):
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    return False


def _holder(path):
    """Return the holder of a lock as text.

    The text contains the process number on Linux if the process runs on the same machine.
    """
    with contextlib.suppress(OSError, ValueError), open(_HELD, encoding="ascii") as held:
        status = os.lstat(path)
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
        # Example of a line: 1: FLOCK  ADVISORY  WRITE 7120 fe:00:5548243 0 EOF
        for words in map(str.split, held):
            if f"{device}:{status.st_ino}" in words[5:6] and int(words[4]) > 0:
                return f"process {words[4]}"
    return "another process"
