"""Settings that make tests faster and change no result."""

import gc
import os
import shutil

REAL_FSYNC = os.fsync
_MEMORY_DISK = "/dev/shm"
_LEAST_FREE_BYTES = 4 * 2**30


def collect_garbage_less_often():
    """Raise the threshold of Python's garbage collection.

    A graph has about 10,000 Python objects, and most tests trace several graphs. With Python's
    default threshold of 700, garbage collection takes up to a tenth of the test time.
    """
    gc.set_threshold(20_000, 10, 10)


def ignore_imported_objects():
    """Exclude imported modules from garbage collection. TensorFlow creates a million objects."""
    gc.freeze()


def skip_fsync():
    """Let `os.fsync` return without waiting for the disk.

    Each wait takes about 7 ms, and a test of a dataset writes up to 300 files. Only a power failure
    makes a difference to the files. The fixture `real_fsync` restores the function for a test.
    """
    os.fsync = _check_descriptor


def _check_descriptor(descriptor):
    """Raise an OSError if the file is closed, as `os.fsync` does."""
    os.fstat(descriptor if isinstance(descriptor, int) else descriptor.fileno())


def write_to_memory():
    """Let pytest create the folders of `tmp_path` on a disk in memory, if there is a large one.

    On a real disk, the removal of a folder takes up to 5 ms, and each file that ut_keras writes has
    a temporary folder. The user can choose another disk with PYTEST_DEBUG_TEMPROOT.
    """
    if _is_suitable(_MEMORY_DISK):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY_DISK)


def _is_suitable(folder):
    """Return whether tests can write files to a folder and execute the files."""
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        return False
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(folder).free >= _LEAST_FREE_BYTES
