"""A disk on which no file can have more than a few bytes."""

import contextlib
import os
import resource


@contextlib.contextmanager
def full_disk(size):
    """Context in which files of this process end at so many bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextlib.contextmanager
def full_output():
    """Context with a text file that takes nothing, as standard output on a full disk."""
    file = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115  closing it fails, too
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):
            file.close()


def all_files(folder):
    """Names of all files below a folder, hidden ones included."""
    return sorted(name for _, _, names in os.walk(folder) for name in names)
