"""Make errors name the file and the cause, such as a full disk.

Python's errors name a file that could not be opened, but not a file that could not be written.
TensorFlow's messages contain the file and the cause, together with internal names:

    {{function_node __wrapped__SaveV2…}} run/model.ckpt-5_temp/part-00000…; No space left on device
"""

import contextlib
import errno
import gzip
import os
import re
from collections.abc import Iterator
from typing import IO, Any, TypeAlias

from ut_keras.errors import DataError, UserError

# Pattern of the suffixes that TensorFlow adds to a checkpoint's path while it writes the files.
_TEMPORARY_SUFFIX = re.compile(r"(_temp(/.*)?|\.tempstate\d+)$")
_TENSORFLOW_MESSAGE = re.compile(
    r"(?:\{\{.*?\}\} )?(?P<path>.+?); (?P<cause>[^;]+?)(?: \[Op:\w+\](?: name:.*)?)?"
)
Readable: TypeAlias = IO[bytes] | gzip.GzipFile
_BLOCK = 1 << 20  # maximum number of bytes that are read at once
_HEADINGS = ("Graph execution error:",)
_ERROR_NUMBERS = {os.strerror(number): number for number in errno.errorcode}


@contextlib.contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file `path` in an `OSError` of the `with` block that names no file."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise


def copy(source: Readable, path: str | os.PathLike[str], target: IO[bytes]) -> None:
    """Copy an open file to `target`. If reading fails, the error names `path`."""
    for block in blocks(source, path):
        target.write(block)


def blocks(source: Readable, path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the content of an open file in blocks.

    If reading fails, the error names `path`.
    """
    while True:
        with named(path):
            block = source.read(_BLOCK)
        if not block:
            return
        yield block


@contextlib.contextmanager
def user_error_context(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert file errors in the `with` block to an `OSError` that names `path`.

    `path` is the name of the file that the user knows. The original error may be about a temporary
    file.
    """
    try:
        yield
    except Exception as error:
        found = error if isinstance(error, OSError) else from_tensorflow(error)
        if found is None:
            raise
        raise OSError(found.errno, found.strerror, os.fspath(path)) from error


def checked_path(path: Any, name: str, error_class: type[UserError] = DataError) -> str:
    """Return a path as a str, and replace "~" at its beginning by the home folder.

    Raises:
        UserError: if the path is empty, or is neither a str nor an `os.PathLike` of a str. The
            message uses `name` as the name of the path.
    """
    found = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(found, str) or not found:
        raise error_class(f"{name} must be a path, as a str or os.PathLike. Received: {path!r}.")
    return os.path.expanduser(found)


def optional_path(path: Any, name: str) -> str | None:
    """Return the result of `checked_path`. Return a path that is None or "" unchanged."""
    return path if path is None or path == "" else checked_path(path, name)


def check_is_file(path: str | os.PathLike[str], error_class: type[UserError] = DataError) -> None:
    """Check that a path is a regular file or does not exist.

    For example, a pipe is rejected, because reading it would block.

    Raises:
        UserError: of class `error_class`, if the path is a folder, pipe or device.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise error_class(f"{path} must be a file. Received: a folder, pipe or device.")


def from_tensorflow(error: BaseException) -> OSError | None:
    """Return the `OSError` for a TensorFlow error, or None if it is not about a file."""
    message = str(getattr(error, "message", error)).strip().partition("\n")[0]
    match = _TENSORFLOW_MESSAGE.fullmatch(message)
    if not match or match["cause"] not in _ERROR_NUMBERS:
        return None
    path = _TEMPORARY_SUFFIX.sub("", match["path"])
    return OSError(_ERROR_NUMBERS[match["cause"]], match["cause"], path)


def one_line(error: BaseException) -> str:
    """Return the cause and the file of an error of Python or TensorFlow as one line."""
    found = error if isinstance(error, OSError) else from_tensorflow(error)
    if found is not None and found.strerror:
        return f"{found.strerror}: {found.filename or 'no file name'}"
    lines = [text.strip() for text in str(getattr(error, "message", error)).splitlines()]
    return next((text for text in lines if text and text not in _HEADINGS), repr(error))
