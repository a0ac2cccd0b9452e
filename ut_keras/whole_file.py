"""Files that are there whole or not at all."""

import contextlib
import os
import secrets

from ut_keras import file_error


@contextlib.contextmanager
def writing(path, binary=False):
    """Opens a file under another name, which becomes `path` at the end.

    Several processes may write the same file. What is raised leaves the file as it was, and nothing
    beside it.

    Args:
        path: str.
        binary: bool. Whether it is of bytes, not of UTF-8 text.
    """
    how = {"mode": "wb"} if binary else {"mode": "w", "encoding": "utf-8", "newline": "\n"}
    temporary = f"{path}.incomplete.{secrets.token_hex(4)}"
    try:
        with (
            file_error.named(path),
            open(temporary, **how) as file,
        ):
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            os.remove(temporary)
