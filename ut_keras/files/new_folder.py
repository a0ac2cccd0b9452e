"""A context that makes a folder, and removes it again if it stays empty."""

import contextlib
import os
from collections.abc import Iterator

from ut_keras.files import own_files


@contextlib.contextmanager
def made(path: str) -> Iterator[None]:
    """Make a folder and its parents for the `with` block.

    At the end, the folders that this call has made are removed if they are empty. This is the case
    if the block fails before it writes a file.
    """
    new, folder = [], os.path.abspath(path)
    while not os.path.lexists(folder):
        new.append(folder)
        folder = os.path.dirname(folder)
    os.makedirs(path, exist_ok=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the folder is not empty
            if new:
                with contextlib.suppress(FileNotFoundError):
                    os.rmdir(os.path.join(path, own_files.FOLDER))
            for folder in new:
                os.rmdir(folder)
