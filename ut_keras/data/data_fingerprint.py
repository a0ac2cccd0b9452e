"""Which data some files hold, in a line: "10 files, 1,234,567 bytes, sha256 0a1b2c3d4e5f6071".

Of the sizes of the files and of the beginning and the end of each, so that gigabytes need not be
read; other examples or another order give another one, a copy or another time the same. What is
damaged in between is told by the checksum of a record when it is read.
"""

import hashlib
import os
from collections.abc import Sequence

_READ = 1 << 16  # bytes from either end of a file


def of(files: Sequence[str]) -> str:
    """The fingerprint of some files, in their order; their names and folders do not count.

    Args:
        files: list of str.

    Returns:
        str.
    """
    digest, total = hashlib.sha256(), 0
    for path in files:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(size.to_bytes(8, "little"))
            digest.update(file.read(_READ))
            file.seek(max(0, size - _READ))
            digest.update(file.read(_READ))
        total += size
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    return f"{count}, {total:,} bytes, sha256 {digest.hexdigest()[:16]}"
