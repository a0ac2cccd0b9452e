"""Text to ids and back, in Python without TensorFlow.

    encoder = SubwordTextEncoder("vocab.my_problem.8192.subwords")
    encoder.encode("Dude - that's so cool.")  ->  [int, ...]      without EOS
    encoder.decode([int, ...])                ->  str

Ids 0 and 1 are `<pad>` and `<EOS>` everywhere, as in T2T.
"""

import os
import re
import time
from collections.abc import Iterable

from ut_keras.errors import DataError
from ut_keras.files import file_error, path_lock
from ut_keras.text.subword_text_encoder import SubwordTextEncoder
from ut_keras.text.text_encoder_base import (
    EOS,
    NUM_RESERVED_IDS,
    PAD,
    RESERVED_TOKENS,
    TextEncoder,
    cut_at_eos,
    read_lines,
    write_lines,
)

__all__ = [
    "EOS",
    "NUM_RESERVED_IDS",
    "PAD",
    "RESERVED_TOKENS",
    "ByteTextEncoder",
    "ClassLabelEncoder",
    "IntegerTextEncoder",
    "SubwordTextEncoder",
    "TextEncoder",
    "TokenTextEncoder",
    "cut_at_eos",
]


# The graph version (`text_encoder_op`) accepts the same numbers. Python's `int` accepts more, such
# as "1_0" and "\u0663".
_NUMBER = re.compile(r"(?P<sign>[+-]?)0*(?P<digits>[0-9]{1,9})")


class IntegerTextEncoder(TextEncoder):
    """Numbers as text, shifted by the reserved ids: "0 4 1" <-> [2, 6, 3].

    In T2T, this class is the base class `TextEncoder`. A number consists of the digits 0 to 9,
    optionally after a sign. T2T accepts everything that `int` accepts. Decoding stops at EOS and
    omits padding.

    Args:
        vocab_size: int. Ids are in [2, vocab_size).
    """

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    def encode(self, text: str) -> list[int]:
        return [self._id(word) for word in text.split()]

    def _id(self, word):
        match = _NUMBER.fullmatch(word)
        number = int(match["sign"] + match["digits"]) if match else -1
        if not 0 <= number < self._vocab_size - NUM_RESERVED_IDS:
            raise DataError(
                f"Numbers must be in [0, {self._vocab_size - NUM_RESERVED_IDS}), separated by "
                f"spaces. Received: {word!r}."
            )
        return number + NUM_RESERVED_IDS

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(str(i - NUM_RESERVED_IDS) for i in cut_at_eos(ids))


class ByteTextEncoder(TextEncoder):
    """UTF-8 bytes, shifted by the reserved ids."""

    @property
    def vocab_size(self) -> int:
        return 256 + NUM_RESERVED_IDS

    def encode(self, text: str) -> list[int]:
        return [byte + NUM_RESERVED_IDS for byte in text.encode("utf-8")]

    def decode(self, ids: Iterable[int]) -> str:
        pieces = [
            RESERVED_TOKENS[i].encode() if i < NUM_RESERVED_IDS else bytes([i - NUM_RESERVED_IDS])
            for i in ids
        ]
        return b"".join(pieces).decode("utf-8", "replace")


def store_new(encoder: "SubwordTextEncoder | TokenTextEncoder", path: str) -> None:
    """Write a vocabulary file unless another process has written it already.

    The existing file must not be replaced, because the other process has encoded its data with this
    vocabulary.
    """
    path = file_error.checked_path(path, "path")
    while not os.path.exists(path):
        try:
            with path_lock.held(path, "Data must be generated"):
                if not os.path.exists(path):
                    encoder.store_to_file(path)
        except path_lock.LockedError:
            time.sleep(0.1)


class UnknownWordError(DataError):
    """A word is not in a vocabulary of words, and no token replaces it."""


class TokenTextEncoder(TextEncoder):
    """Words separated by spaces, from a vocabulary file or a list.

    As in T2T, a list gets the reserved tokens added at its beginning. A file already contains them.

        TokenTextEncoder(tokens=["so", "cool"]).encode("cool so")  ->  [3, 2]

    Args:
        filename: str. A file `vocab.*.tokens` with one token per line. The id of a token is its
            line number, from 0.
        tokens: list of str, instead of a file.
        replace_oov: str. The token that replaces words outside the vocabulary. Without this
            token, such words raise an error. Optional.

    Attributes:
        entries: tuple of str. The tokens by id.
        oov_id: int. The id that replaces unknown words; None if they raise an error.
        filename: str. The argument; None for a list.
    """

    def __init__(
        self,
        filename: str | None = None,
        tokens: Iterable[str] | None = None,
        replace_oov: str | None = None,
    ) -> None:
        if (filename is None) == (tokens is None):
            raise ValueError(
                "Exactly one of filename and tokens must be given. "
                f"Received: filename={filename!r}, tokens={tokens!r}."
            )
        if filename is not None:
            self.entries = tuple(_read_entries(filename))
            if len(self.entries) < NUM_RESERVED_IDS:
                raise DataError(
                    f"A vocabulary must have at least {NUM_RESERVED_IDS} lines. "
                    f"Received: {filename} with {len(self.entries)}."
                )
        else:
            others = (token for token in tokens or () if token not in RESERVED_TOKENS)
            self.entries = (*RESERVED_TOKENS, *others)
        self._ids = {token: i for i, token in enumerate(self.entries)}
        self.filename = filename
        self.oov_id = None if replace_oov is None else self._ids.get(replace_oov)

    def encode(self, text: str) -> list[int]:
        ids = []
        for word in text.split():
            index = self._ids.get(word, self.oov_id)
            if index is None:
                raise UnknownWordError(
                    f"Every word must be in the vocabulary {self.filename or ''} of "
                    f"{self.vocab_size} tokens. Received: {word!r}."
                )
            ids.append(index)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.entries[i] if 0 <= i < len(self.entries) else f"ID_{i}" for i in ids)

    def store_to_file(self, filename: str) -> None:
        """Write the vocabulary, including the reserved tokens."""
        write_lines(filename, self.entries)


class ClassLabelEncoder(TextEncoder):
    """A text encoder of class names, whose ids are the class numbers.

    Ids start at 0. There are no reserved ids.

        ClassLabelEncoder(labels=["bad", "good"]).encode("good")  ->  [1]

    Args:
        labels: list of str, the names of the classes.
        filename: str, a file with one label per line, instead of `labels`.

    Attributes:
        entries: tuple of str. The labels by id.
    """

    def __init__(self, labels: Iterable[str] | None = None, filename: str | None = None) -> None:
        if (filename is None) == (labels is None):
            raise ValueError(
                "Exactly one of labels and filename must be given. "
                f"Received: labels={labels!r}, filename={filename!r}."
            )
        if filename is not None:
            labels = _read_entries(filename)
        self.entries = tuple(labels or ())
        if not self.entries:
            raise DataError(f"labels must not be empty. Received: none, {filename or labels}.")

    def encode(self, text: str) -> list[int]:
        if text not in self.entries:
            raise DataError(f"The label must be one of {[*self.entries]}. Received: {text!r}.")
        return [self.entries.index(text)]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.entries[i] for i in ids)


def _read_entries(filename):
    """Return the stripped lines of a file, without carriage returns.

    TensorFlow reads lines in this way.
    """
    return [line.replace("\r", "").strip() for line in read_lines(filename)]
