"""Settings that make tests faster and change no result."""

import gc
import os

REAL_FSYNC = os.fsync


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
