"""Encodes the lines of a file as ids, with line numbers in its errors.

"Zwei Hunde spielen im Schnee."  ->  [34, 265, 116, 37, 269, 2, 1]      a source, 1 = EOS
"It was a dark"                  ->  [12, 40, 7, 311]                   a prompt
""                               ->  []                                 gives an empty output line
"""

import string
from collections.abc import Mapping, Sequence
from typing import Any

from ut_keras.errors import DataError
from ut_keras.text.text_encoder import EOS, PAD
from ut_keras.text.text_encoder_base import TextEncoder

_SHOWN = 10


def sources(
    path: str, lines: Sequence[str], encoder: TextEncoder, first: int = 1
) -> list[list[int]]:
    """Return the ids of each source, with EOS, and [] for each empty line.

    Args:
        path: str, the path of the file, for errors.
        lines: list of str.
        encoder: `TextEncoder`.
        first: int, the number of the first line, for errors.

    Raises:
        DataError: for the first line that cannot be encoded.
    """
    lines = [line.strip() for line in lines]
    ids = _encode(path, lines, encoder, first)
    return [row + [EOS] if line else [] for line, row in zip(lines, ids, strict=True)]


def prompts(
    path: str, lines: Sequence[str], encoder: TextEncoder, first: int = 1
) -> list[list[int]]:
    """Return the ids of prompts of a language model, without EOS.

    The arguments and errors are the same as for `sources`. As in T2T, a space is added after a
    punctuation mark at the end of a prompt. In the texts of training, a space usually follows such
    a mark, and one subword of the vocabulary contains both. With the space, the prompt gets this
    subword.
    """
    lines = [line + " " if line and line[-1] in string.punctuation else line for line in lines]
    return [
        [i for i in row if i != PAD] if line.strip() else []  # a line may contain "<pad>"
        for line, row in zip(lines, _encode(path, lines, encoder, first), strict=True)
    ]


def pairs(
    path: str, lines: Sequence[str], encoders: Mapping[str, TextEncoder]
) -> tuple[list[list[int]] | None, list[list[int]]]:
    """Return the ids of the sources and targets in lines "source<TAB>target".

    For a language model, each line contains only a target.

    Args:
        path: str, the path of the file, for errors.
        lines: list of str.
        encoders: dict from feature name to `TextEncoder`. For a language model, "inputs" is absent.

    Returns:
        (sources, targets): lists of ids with EOS. For a language model, sources is None.

    Raises:
        DataError: for the first line that is not a pair or cannot be encoded.
    """
    names = [name for name in ("inputs", "targets") if name in encoders]
    expected = "source<TAB>target" if len(names) == 2 else "a target without a TAB"
    rows = []
    for number, line in enumerate(lines, start=1):
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != len(names) or not any(parts):
            raise DataError(
                f"Every line must be {expected}. Received: {path}, line {number}: {_short(line)}."
            )
        rows.append(parts)
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    encoded = {
        name: [row + [EOS] for row in _encode(path, column, encoders[name])]
        for name, column in zip(names, columns, strict=True)
    }
    return encoded.get("inputs"), encoded["targets"]


def truncate(rows: Sequence[Any], most: int) -> Sequence[Sequence[int]]:
    """Truncate sequences in the same way as T2T's max_input_size.

    Args:
        rows: list of lists of ids.
        most: int. Maximum number of ids, EOS included. For sequences without EOS the maximum is
            `most` - 1. Below 1: no limit.
    """
    if most < 1:
        return rows
    return [
        row[: most - 1] + [i for i in row[-1:] if i == EOS] if _length(row) > most else row
        for row in rows
    ]


def notes(rows: Sequence[Any], longest: int, max_input_size: int) -> list[str]:
    """Return the notes for the user about empty and long lines.

    Args:
        rows: list of lists of ids, before truncation.
        longest: int, the maximum length in training.
        max_input_size: int. If positive, sequences are truncated to this length.
    """
    empty = [number for number, row in enumerate(rows, start=1) if not row]
    most = max_input_size if max_input_size > 0 else longest
    long = [number for number, row in enumerate(rows, start=1) if _length(row) > most]
    messages = []
    if empty:
        messages.append(f"{_lines(empty)}empty; the output lines are empty, too.")
    if long and max_input_size > 0:
        messages.append(
            f"{_lines(long)}truncated to max_input_size={max_input_size} tokens, including EOS."
        )
    elif long:
        messages.append(
            f"{_lines(long)}longer than the {longest} tokens of training (max_length); "
            "decoded in full."
        )
    return messages


def _length(row):
    """Return the length with EOS, which T2T also counts for a prompt without EOS."""
    return len(row) + (row[-1:] != [EOS]) if row else 0


def _encode(path, lines, encoder, first=1):
    try:
        return encoder.encode_batch(list(lines))
    except ValueError:
        for number, line in enumerate(lines, start=first):
            try:
                encoder.encode(line)
            except ValueError as error:
                reason = str(error).rstrip(".")
                name = "The line is" if "Received: " in reason else "Received:"
                raise DataError(
                    f"{path}, line {number} cannot be encoded: {reason}. {name} {_short(line)}."
                ) from error
        raise


def _lines(numbers):
    shown = ", ".join(str(number) for number in numbers[:_SHOWN])
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"{'line' if len(numbers) == 1 else 'lines'} {shown}{more}: "


def _short(line):
    return repr(line if len(line) <= 80 else line[:77] + "...")
