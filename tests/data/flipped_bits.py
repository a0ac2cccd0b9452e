"""Flip single bits of files like a faulty disk, without a change of size or time."""

import contextlib
import os
import random


def bit_numbers(size, count, seed=0):
    """Return distinct random bit numbers of a file of `size` bytes."""
    return random.Random(seed).sample(range(8 * size), count)


@contextlib.contextmanager
def flipped(path, bit):
    """Flip bit number `bit` of a file during a `with` block."""
    stat = os.stat(path)
    with open(path, "r+b") as file:

        def flip():
            file.seek(bit // 8)
            byte = file.read(1)[0] ^ (1 << bit % 8)
            file.seek(bit // 8)
            file.write(bytes([byte]))
            file.flush()
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

        flip()
        try:
            yield
        finally:
            flip()
