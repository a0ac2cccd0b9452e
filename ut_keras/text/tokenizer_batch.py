"""The tokenizer for many texts at once. It returns positions of tokens in UTF-8.

split(["so cool.", "", "yes"])
  data     b"so cool.yes"
  starts   [0, 3, 7, 8]     of "so", "cool", ".", "yes"
  lengths  [2, 4, 1, 3]
  ends     [3, 3, 4]        number of tokens up to the end of each text
"""

import functools
import itertools
import re
import sys
import typing
from collections.abc import Iterable, Sequence

import numpy as np

from ut_keras.text.token_table import TokenTable

_PADDING = bytes(16)
_SPACE = ord(" ")
_ASCII = 0x80  # bytes below this value are single characters
# The value is 1 for letters and digits. Bytes of multi-byte characters are classified later.
_BYTE_KINDS = bytes(byte < _ASCII and chr(byte).isalnum() for byte in range(0x100))
END = b"\xff"  # `join` puts this byte after each token; UTF-8 never contains it


class Tokens(typing.NamedTuple):
    """The tokens of a list of texts."""

    # uint8, the concatenated texts in UTF-8, in which a surrogate has three bytes. 16 bytes of
    # padding follow, so that an 8-byte word can be read at every position.
    data: np.ndarray
    starts: np.ndarray  # int64 [tokens], in bytes
    lengths: np.ndarray
    ends: np.ndarray  # int64 [texts], the number of tokens up to the end of each text


def split(texts: Sequence[str]) -> Tokens:
    """Return the `Tokens` of a list of strings, the same tokens as `tokenizer.encode`."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    text_lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    text_ends = np.cumsum(text_lengths)
    encoded.append(_PADDING)
    data = b"".join(encoded)
    size = len(data) - len(_PADDING)
    byte_array = np.frombuffer(data, np.uint8)
    kinds = np.frombuffer(bytearray(data.translate(_BYTE_KINDS)), np.uint8)
    if not data.isascii():
        _set_kinds(byte_array, kinds)
    kinds = kinds[:size]
    is_first = np.empty(size + 1, bool)  # true at the start of a run, and after the last byte
    np.not_equal(kinds[1:], kinds[:-1], out=is_first[1:-1])
    is_first[0] = is_first[text_ends] = True
    # A single space between words is not a token.
    is_gap = byte_array[:size] == _SPACE
    is_gap &= is_first[:-1]
    is_gap &= is_first[1:]
    text_ends_not_empty = text_ends[text_lengths > 0]
    is_gap[text_ends_not_empty - 1] = False
    is_gap[text_ends_not_empty[:-1]] = is_gap[:1] = False
    starts = np.flatnonzero(np.greater(is_first[:-1], is_gap))
    lengths = np.diff(starts, append=size)
    lengths[:-1] -= is_gap.take(starts[1:] - 1)
    return Tokens(byte_array, starts, lengths, starts.searchsorted(text_ends))


def join(tokens: Tokens, which: np.ndarray) -> bytes:
    """Return selected tokens, concatenated, each followed by `END`.

    Args:
        tokens: `Tokens`.
        which: int array, the indices of the tokens.
    """
    lengths = tokens.lengths[which] + 1
    ends = np.cumsum(lengths)
    joined = tokens.data.take(ranges(tokens.starts[which], lengths, ends))
    joined[ends - 1] = ord(END)
    return joined.tobytes()


def ranges(starts: np.ndarray, lengths: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the concatenation of the ranges `start .. start + length - 1`.

    Args:
        starts, lengths: int64 [n].
        ends: int64 [n], the cumulative sums of the lengths.
    """
    shifts = starts - ends
    shifts += lengths
    numbers = shifts.repeat(lengths)
    numbers += np.arange(len(numbers))
    return numbers


@functools.cache
def is_word() -> np.ndarray:
    """Return uint8 [0x110000]: 1 for code points that are letters or digits."""
    codes = np.arange(sys.maxunicode + 1, dtype="<u4")
    text = codes.tobytes().decode("utf-32-le", "surrogatepass")
    words = np.zeros(len(text), np.uint8)
    # A regular expression finds the intervals 20 times faster than `isalnum` for each character.
    for interval in re.finditer(r"[^\W_]+", text):
        words[interval.start() : interval.end()] = 1
    return words


def _set_kinds(data, kinds):
    """Set the kind of each byte of a multi-byte character to the character's kind."""
    positions = np.flatnonzero(data >= _ASCII)
    text = data.take(positions).tobytes().decode("utf-8", "surrogatepass")
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds[positions] = is_word().take(codes).repeat(2 + (codes >= 0x800) + (codes >= 0x10000))


_CHUNK = 2048  # texts per chunk; the arrays of so many sentences fit into the processor's cache


def count(texts: Iterable[str]) -> dict[str, int]:
    """Return the number of occurrences of each token of `tokenizer.encode`."""
    table, tokens_by_number = TokenTable(), []
    counts = np.zeros(1, np.int64)
    texts = iter(texts)
    while chunk := list(itertools.islice(texts, _CHUNK)):
        tokens = split(chunk)
        first_new = len(table)
        numbers = table.numbers(tokens)
        tokens_by_number.append(join(tokens, table.examples(numbers, first_new)))
        if len(table) > len(counts):
            counts = np.concatenate([counts, np.zeros(2 * len(table) - len(counts), np.int64)])
        np.add.at(counts, numbers, 1)
    encoded = b"".join(tokens_by_number).split(END)[:-1]
    names = [name.decode("utf-8", "surrogatepass") for name in encoded]
    return dict(zip(names, counts[1 : len(table)].tolist(), strict=True))
