"""The process and its surroundings: signals, waiting, its line on the screen."""

import contextlib
import os

_OTHER_FILES = 200  # that a process has open


def num_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def allow_open_files(count: int) -> None:
    """Lets this process have so many more open: macOS starts it with 256, Linux with 1,024."""
    import resource  # of Unix alone; the package is imported elsewhere, too

    wanted = _OTHER_FILES + count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted and soft != hard:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):  # not everybody may
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
