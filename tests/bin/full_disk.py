"""Simulate a full disk, on which each file can have only a few bytes."""

import contextlib
import os
import resource


@contextlib.contextmanager
def full_disk(size):
    """Let this process write at most `size` bytes to each file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextlib.contextmanager
def full_output():
    """Yield an open text file to which all writes fail."""
    file = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115  closing the file also fails
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):
            file.close()


def all_files(folder):
    """Return the names of all files below a folder, including hidden files."""
    return sorted(name for _, _, names in os.walk(folder) for name in names)
