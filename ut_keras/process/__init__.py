"""Functions for the process: processors, files, signals, progress line."""

import contextlib
import os

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
