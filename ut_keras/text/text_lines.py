"""Text files of one segment a line, as people hand them in. No TensorFlow.

Lines end at a line feed and nowhere else, so that line 17 of one file stays line 17 of another. A
byte order mark and carriage returns before line breaks are no part of the text.
"""

import codecs
import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator

from ut_keras.errors import DataError
from ut_keras.files import file_error

_MAX_LINE_BYTES = 1 << 26  # bytes of a line


def read(path: str) -> list[str]:
    """Reads all lines of a file; see `lines`."""
    return list(lines(path))


@contextlib.contextmanager
def opened(path: str) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    """Opens a file, which may be `.gz`, to be read in bytes; read and decode inside it.

    Raises:
        DataError: if it is not UTF-8, or not whole.
    """
    file_error.check_is_file(path)
    try:
        with (
            file_error.named(path),
            gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file,
        ):
            yield file
    except UnicodeDecodeError as error:
        raise DataError(f"Text must be UTF-8. Received: {path}: {error}.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} must be a complete text file. Received: {error}.") from error


def lines(path: str) -> Iterator[str]:
    """Yields the lines of a file, which may be `.gz`, one by one and without their line breaks.

    A last line may lack its line break.

    Raises:
        DataError: names the line that is not UTF-8, or too long to be one; or see `opened`.
        OSError: if the file cannot be read.
    """
    with opened(path) as file:
        raw_lines = iter(lambda: file.readline(_MAX_LINE_BYTES + 1), b"")
        for number, line in enumerate(raw_lines, start=1):
            if len(line) > _MAX_LINE_BYTES:
                raise DataError(
                    f"A line must have at most {_MAX_LINE_BYTES} bytes. Received: a longer "
                    f"one, {path}, line {number}."
                )
            line = line if number > 1 else line.removeprefix(codecs.BOM_UTF8)
            try:
                text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"Text must be UTF-8. Received: {path}, line {number}: {error.reason} at byte "
                    f"{error.start + 1} of the line."
                ) from error
            yield text


def one_line(text: str) -> str:
    """`text` as one line of a file: a space for every line break, "?" for what is not UTF-8."""
    text = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
    return text.encode("utf-8", "replace").decode("utf-8")
