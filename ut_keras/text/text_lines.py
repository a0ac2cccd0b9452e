"""Text files with one segment per line, as users supply them.

Only a line feed ends a line, so that line 17 of one file corresponds to line 17 of another. A byte
order mark at the start, and carriage returns before line feeds, are removed. This module does not
import TensorFlow.
"""

import codecs
import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from ut_keras.errors import DataError
from ut_keras.files import file_error
from ut_keras.text.printed_notes import print_once

_MAX_LINE_BYTES = 1 << 26  # maximum bytes of a line
_SEGMENT = re.compile(r"\s*<seg\b[^>]*>.*</seg\s*>\s*", re.IGNORECASE)


def read(path: str) -> list[str]:
    """Return the list of all lines of a file; see `lines`."""
    return list(lines(path))


@contextlib.contextmanager
def opened(path: str) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    """Open a file, which may be `.gz`, for reading bytes in a `with` block.

    The caller must read and decode the bytes inside the block.

    Raises:
        DataError: if the file is not UTF-8 or is incomplete.
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
    """Yield the lines of a file, which may be `.gz`, without their line breaks.

    The last line may end without a line break.

    Raises:
        DataError: if a line is not UTF-8 or is too long; the message names the line. The first line
            must not be UTF-16. See `opened` for further reasons.
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
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
                # In UTF-16 without a byte order mark, English text is valid UTF-8.
                if 3 * line.count(0) > len(line):
                    raise DataError(
                        f"Text must be UTF-8. Received: {path}, line 1: {line.count(0)} of "
                        f"{len(line)} bytes are 0, as in UTF-16 and UTF-32."
                    )
            try:
                text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"Text must be UTF-8. Received: {path}, line {number}: {error.reason} at byte "
                    f"{error.start + 1} of the line. To remove such bytes: "
                    "iconv -c -f utf-8 -t utf-8 FILE > NEW_FILE"
                ) from error
            yield text


def lines_without_carriage_returns(path: str) -> Iterator[str]:
    """Yield the lines of a file as T2T reads them, see `without_carriage_returns`.

    Raises:
        DataError, OSError: as `lines`.
    """
    return without_carriage_returns(lines(path), path)


def without_carriage_returns(lines: Iterable[str], title: str) -> Iterator[str]:
    """Yield lines without carriage returns.

    T2T reads lines with TensorFlow, which removes all carriage returns. If a line has a carriage
    return before its end, the function prints one note for the file.

    Args:
        lines: iterable of str, without their line breaks.
        title: str, the name of the file.
    """
    for line in lines:
        if "\r" in line:
            print_once(
                f"note: lines of {title} have carriage returns before their ends. As in T2T, "
                "ut_keras removes them, which joins the words around them."
            )
        yield line.replace("\r", "")


def carriage_return_note(number: int, title: str) -> str:
    """Return a note on lines that contain a carriage return before their end, or "".

    Such lines come from files of old Macintosh programs, or from files with mixed line ends.

    Args:
        number: int, the number of these lines.
        title: str, the name of the file or of the split.
    """
    if not number:
        return ""
    what = "line contains carriage returns" if number == 1 else "lines contain carriage returns"
    return f"{title}: {number:,} {what}, which do not end a line; only a line feed ends a line."


def line_break_note(texts: Iterable[str], encode: Callable[[str], Sequence[int]]) -> str:
    """Return a note on texts that end with a line break, or "".

    Such texts are lines of a file, as `readlines` returns them. A model was usually trained on
    texts without line breaks.

    Args:
        texts: iterable of str.
        encode: function from a text to ids. There is no note if the ids do not depend on a line
            break at the end, for example because the vocabulary consists of words.
    """
    ended = [text for text in texts if text.endswith(("\n", "\r"))]
    if not ended or encode(ended[0]) == encode(ended[0].rstrip("\r\n")):
        return ""
    what = "text ends" if len(ended) == 1 else "texts end"
    return (
        f"{len(ended):,} {what} with a line break, which counts as part of the text. If the texts "
        "are lines of a file, remove the line breaks: text.rstrip('\\r\\n')."
    )


def missing_prefix_note(texts: Iterable[str], feature: str, prefix: str) -> str:
    """Return a note on texts that lack the prefix of training, or "".

    Args:
        texts: iterable of str.
        feature: str, "inputs" or "targets".
        prefix: str. With "", the result is "".
    """
    lacking = sum(bool(text.strip()) and not text.startswith(prefix) for text in texts)
    if not lacking:
        return ""
    what = "text does" if lacking == 1 else "texts do"
    return (
        f"Data generation added {prefix!r} to each text of the {feature}. {lacking:,} {what} not "
        "begin with it. Begin each text with it. As in T2T, ut_keras does not add it."
    )


def segment_note(lines: Iterable[str], title: str) -> str:
    """Return a note on lines that are segments of an SGM file with their tags, or "".

    WMT distributes its test sets in this format. A command that reads one text per line also reads
    the tags.

    Args:
        lines: iterable of str, the lines of the file.
        title: str, the name of the file.
    """
    number = sum(bool(_SEGMENT.fullmatch(line)) for line in lines)
    if not number:
        return ""
    what = "line is a segment" if number == 1 else "lines are segments"
    return (
        f'{title}: {number:,} {what} of an SGM file, with tags such as <seg id="1">. The tags '
        "count as text. Give a file that contains only the texts, one per line."
    )


def tab_note(lines: Iterable[str]) -> str:
    """Return a note if most lines contain a TAB, otherwise "".

    Lines with a TAB may have a source and a target. A command that reads one source per line would
    read the target as a part of the source.
    """
    texts = [text for line in lines if (text := line.strip())]
    number = sum("\t" in text for text in texts)
    if number <= len(texts) / 2:
        return ""
    return (
        f"{number:,} of {len(texts):,} lines contain a TAB. The command reads each line, with its "
        "TAB, as one text. If the lines are source<TAB>target, give a file of the sources only: "
        "cut -f1 FILE > NEW_FILE"
    )


def one_line(text: str) -> str:
    """Return a text as one line: line breaks become spaces, and surrogates become "?"."""
    text = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
    return text.encode("utf-8", "replace").decode("utf-8")
