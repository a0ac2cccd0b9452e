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


def all_files(folder):
    """Names of all files below a folder, hidden ones included."""
    return sorted(name for _, _, names in os.walk(folder) for name in names)
