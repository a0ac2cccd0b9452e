"""Files that are there whole or not at all."""

import contextlib
import os
import secrets

from ut_keras import file_error


@contextlib.contextmanager
def writing(path):
    """Opens a text file under another name, which becomes `path` at the end.

    Several processes may write the same file. What is raised leaves the file as it was, and nothing
    beside it.

    Args:
        path: str.
    """
    temporary = f"{path}.incomplete.{secrets.token_hex(4)}"
    try:
        with (
            file_error.named(path),
            open(temporary, "w", encoding="utf-8", newline="\n") as file,
        ):
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            os.remove(temporary)
