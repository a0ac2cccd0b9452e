"""Functions for the process: processors, files, signals, progress line."""

import contextlib
import os
import threading
from collections.abc import Iterator

_OTHER_FILES = 200  # the process may already have this number of other files open


def num_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def allow_open_files(count: int) -> None:
    """Raise the limit of open files, so that this process can open `count` more files.

    The initial limit is 256 on macOS and 1,024 on Linux. If the limit cannot be raised, nothing
    changes.
    """
    import resource  # the module `resource` exists only on Unix

    wanted = _OTHER_FILES + count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted and soft != hard:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):  # the system may not permit a higher limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class _SilentStderr:
    """Redirects stderr to the null device while at least one thread needs this."""

    def __init__(self):
        self._lock = threading.Lock()
        self._users = 0
        self._kept = -1  # a file descriptor of the original stderr

    def start(self):
        with self._lock:
            if not self._users:
                self._kept = os.dup(2)
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), 2)
            self._users += 1

    def stop(self):
        with self._lock:
            self._users -= 1
            if not self._users:
                os.dup2(self._kept, 2)
                os.close(self._kept)


_SILENT_STDERR = _SilentStderr()


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Context that hides all output on stderr, including the output of C++ libraries.

    It also hides the output of other threads. If several threads use the context, stderr is hidden
    until the last of them leaves it.
    """
    _SILENT_STDERR.start()
    try:
        yield
    finally:
        _SILENT_STDERR.stop()
