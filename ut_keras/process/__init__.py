"""The process and its environment: processors, open files, signals, progress line."""

import contextlib
import os

_OTHER_FILES = 200  # allowance for the files that the process already has open


def num_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def allow_open_files(count: int) -> None:
    """Raise the limit of open files so that this process can open `count` more.

    macOS starts processes with a limit of 256, Linux with 1,024. If the limit cannot be raised,
    nothing changes.
    """
    import resource  # exists only on Unix, but this package is imported elsewhere too

    wanted = _OTHER_FILES + count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted and soft != hard:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):  # the system may not permit it
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
