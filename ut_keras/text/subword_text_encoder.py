r"""T2T's subword encoder. It encodes any text with a vocabulary of a chosen size.

    "Dude - that's so cool."
      tokens     ["Dude", " - ", "that", "'", "s", "so", "cool", "."]            (tokenizer.py)
      escaped    ["Dude_", " - _", "that_", "'_", "s_", "so_", "cool_", "._"]
      subtokens  ["Du", "de_", " - _", "that_", "'", "_", "s_", ...]     longest match from the left

Each escaped token ends with `_`. A `_` in the text is escaped as `\u`, a backslash as `\\`, and a
character that is not in the vocabulary's alphabet as `\<code point>;`. Therefore every text can be
encoded and decoded without loss. Ids, vocabulary files and built vocabularies are identical to
T2T's.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from ut_keras.errors import DataError
from ut_keras.text import tokenizer
from ut_keras.text import tokenizer_batch as token_counter
from ut_keras.text.ragged_ids import RaggedIds
from ut_keras.text.subword_vocabulary import (
    ESCAPE_CHARACTERS,
    VocabularyBuilder,
    escape_token,
    unescape_token,
)
from ut_keras.text.text_encoder_base import (
    NUM_RESERVED_IDS,
    RESERVED_TOKENS,
    TextEncoder,
    read_lines,
    write_lines,
)

_QUOTES = ("'", '"')
# T2T 1.0 and 1.1 write empty subtokens instead of the reserved ones.
_RESERVED = (list(RESERVED_TOKENS), [""] * NUM_RESERVED_IDS)
# T2T 1.0.8 and older versions write the 256 bytes in this form. All their subtokens are bytes.
_BYTES = {r"\x00", r"\xff"}
_QUOTED = re.compile(r"""(['"])(.*)\1""", re.DOTALL)
_CACHE_SIZE = 2**18
_MANY_TEXTS = 1000
# Number of characters. A longer text may be one long token, for which `_encode_token` is slow.
_LONG_TEXT = 2**15
_MAX_CACHED_LENGTH = 100  # characters of the longest token whose ids are cached
_MIN_BATCH = 32  # for fewer texts per call, the arrays cost more than they save


class SubwordTextEncoder(TextEncoder):
    """A text encoder that uses a subword vocabulary.

        encoder = SubwordTextEncoder("vocab.translate_ende.8192.subwords")
        encoder.decode(encoder.encode("so cool"))  ->  "so cool"

    Args:
        filename: str. A file `vocab.*.subwords` with one quoted subtoken per line. The id of a
            subtoken is its line number, from 0.
        subtokens: list of str, the subtokens including the reserved ones, instead of a file.

    Attributes:
        subtokens, entries: tuple of str. The subtokens by id.
        alphabet: frozenset of str. The characters that are not escaped, and the characters of
            escapes.
    """

    def __init__(self, filename: str | None = None, subtokens: Sequence[str] | None = None) -> None:
        if (filename is None) == (subtokens is None):
            raise ValueError(
                "Exactly one of filename and subtokens must be given. "
                f"Received: filename={filename!r}, {len(subtokens or ())} subtokens."
            )
        if filename is not None:
            subtokens = _unquote(filename, read_lines(filename))
        self.subtokens = self.entries = tuple(subtokens or ())
        first = [subtoken.removesuffix("_") for subtoken in self.subtokens[:NUM_RESERVED_IDS]]
        if _BYTES.issubset(self.subtokens):
            raise DataError(
                f"The subtokens of a vocabulary must be text. Received: {filename or 'a list'} "
                r"with subtokens such as \x00, which are bytes, as in T2T before 1.0.9. Generate "
                "the data again, with a new vocabulary."
            )
        if first not in _RESERVED:
            raise DataError(
                "A subword vocabulary must begin with the lines "
                f"{' and '.join(RESERVED_TOKENS)}, for padding and end. "
                f"Received: {filename or 'a list'} with {first}."
            )
        self._title = f"The vocabulary {filename or ''}".rstrip()
        self.alphabet = ESCAPE_CHARACTERS.union(*self.subtokens)
        self._ids = {subtoken: i for i, subtoken in enumerate(self.subtokens) if subtoken}
        self._lengths = sorted({len(subtoken) for subtoken in self._ids}, reverse=True)
        self._plain = self.alphabet - set("\\_\n")
        self._encoded_tokens: dict[str, tuple[int, ...]] = {}
        self._num_texts = 0

    def encode(self, text: str) -> list[int]:
        if len(text) >= _LONG_TEXT and self._batch_encoder:
            return self._batch_encoder.encode([text]).to_lists()[0]
        encoded = self._encoded_tokens
        ids: list[int] = []
        for token in tokenizer.encode(text):
            ids += encoded.get(token) or self._encode_token(token)
        return ids

    def encode_ragged(self, texts: Sequence[str]) -> RaggedIds:
        """Return the ids of every string of a list as `RaggedIds`.

        `subword_batch` encodes the texts if there are many. The number of texts is counted over all
        calls, because data generation may call this method once for each of a hundred files. If a
        subclass overrides `encode`, this method calls it for each text.
        """
        if type(self).encode is not SubwordTextEncoder.encode:
            return super().encode_ragged(texts)
        self._num_texts += len(texts)
        is_worth_it = len(texts) >= _MIN_BATCH and self._num_texts >= _MANY_TEXTS
        if is_worth_it and self._batch_encoder:
            return self._batch_encoder.encode(texts)
        return super().encode_ragged(texts)

    def encode_without_tokenizing(self, token: str) -> list[int]:
        """Return the ids of a string that is treated as one token."""
        return list(self._encoded_tokens.get(token) or self._encode_token(token))

    def decode(self, ids: Iterable[int]) -> str:
        joined = "".join(self.subtokens[i] for i in ids if 0 <= i < len(self.subtokens))
        tokens = (unescape_token(escaped) for escaped in joined.split("_"))
        return tokenizer.decode([token for token in tokens if token])

    def store_to_file(self, filename: str) -> None:
        """Write the vocabulary as T2T does, every subtoken in single quotes."""
        write_lines(filename, [f"'{subtoken}'" for subtoken in self.subtokens])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubwordTextEncoder) and self.subtokens == other.subtokens

    def __hash__(self) -> int:
        return hash(self.subtokens)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self.subtokens)

    def _encode_token(self, token):
        """Return the ids of a token: the longest subtokens, from the left."""
        is_plain = self._plain.issuperset(token)
        escaped = token + "_" if is_plain else escape_token(token, self.alphabet)
        lengths = [length for length in self._lengths if length <= len(escaped)]
        known, found, start = self._ids, [], 0
        while start < len(escaped):
            for length in lengths:
                piece = escaped[start : start + length]
                if piece in known:
                    break
            else:
                raise DataError(
                    f"{self._title} must contain every character of its alphabet. Received: "
                    f"{escaped!r}, whose character {escaped[start]!r} is missing."
                )
            found.append(known[piece])
            start += len(piece)
        ids = tuple(found)
        if len(self._encoded_tokens) >= _CACHE_SIZE:
            self._encoded_tokens.clear()
        if len(token) <= _MAX_CACHED_LENGTH:
            self._encoded_tokens[token] = ids
        return ids

    @functools.cached_property
    def _batch_encoder(self):
        """Return the `BatchEncoder`, or None if it does not support this vocabulary."""
        # Loading TensorFlow takes seconds and is not needed for a few texts.
        from ut_keras.text import subword_batch

        try:
            return subword_batch.batch_encoder_for(self)
        except ValueError:
            # The vocabulary has a very long subtoken, or lacks a character. `encode` raises an
            # error when it finds a missing character in a text.
            return None

    @classmethod
    def build_to_target_size(
        cls,
        target_size: int,
        token_counts: Mapping[str, int],
        min_count: int,
        max_count: int,
        max_subtoken_length: int | None = None,
        num_iterations: int = 4,
        reserved_tokens: Sequence[str] = RESERVED_TOKENS,
    ) -> Self:
        """Build an encoder whose `vocab_size` is near `target_size`.

        A subtoken is in the vocabulary if it occurs often enough. This method finds the required
        number of occurrences by bisection.

        Args:
            target_size: int > 0.
            token_counts: dict from token (see tokenizer.py) to its number of occurrences.
            min_count, max_count: int. Bounds of the required number of occurrences.
            max_subtoken_length: int. Limits the time spent on very long tokens. Optional.
            num_iterations: int. Number of times that each vocabulary is refined.
            reserved_tokens: sequence of str. The first tokens of the vocabulary: `RESERVED_TOKENS`,
                optionally followed by others.

        Raises:
            ValueError: if target_size < 1 or min_count > max_count.
        """
        if target_size < 1 or min_count > max_count:
            raise ValueError(
                "target_size must be positive, and min_count must be at most max_count. Received: "
                f"target_size={target_size}, min_count={min_count}, max_count={max_count}."
            )
        builder = VocabularyBuilder(token_counts, max_subtoken_length, reserved_tokens)
        best = None
        low, high = min_count, max_count
        while True:
            count = (low + high) // 2
            subtokens = builder.build(count, num_iterations)
            size = len(subtokens)
            # If two sizes are equally near, T2T keeps the vocabulary that it tried first.
            if best is None or abs(size - target_size) < abs(len(best) - target_size):
                best = subtokens
            close_enough = abs(size - target_size) * 100 < target_size
            if close_enough or low >= high or count < 2:
                return cls(subtokens=best)
            low, high = (count + 1, high) if size > target_size else (low, count - 1)

    @classmethod
    def build_from_generator(
        cls,
        texts: Iterable[str],
        target_size: int,
        max_subtoken_length: int | None = None,
        reserved_tokens: Sequence[str] = RESERVED_TOKENS,
    ) -> Self:
        """Build an encoder with a `vocab_size` near `target_size` from texts."""
        counts = token_counter.count(texts)
        return cls.build_to_target_size(
            target_size, counts, 1, 1000, max_subtoken_length, reserved_tokens=reserved_tokens
        )


def _unquote(filename, lines):
    """Return the subtokens of a vocabulary file.

    Raises:
        DataError: if the first line is quoted and a later line is an incomplete quotation.
    """
    subtokens = []
    for number, line in enumerate(map(str.rstrip, lines), start=1):
        quoted = _QUOTED.fullmatch(line)
        if line in _QUOTES:
            # T2T also reads a single quote as an empty subtoken. In a file with quotes, the line is
            # a part of a subtoken that contains a line break: T2T writes such a subtoken unescaped
            # and reads it as two subtokens.
            line = ""
        elif line[:1] == "'" and not quoted and lines[0][:1] == "'":
            raise DataError(
                "Every line of a subword vocabulary must be a subtoken in quotes. "
                f"Received: {filename}, line {number}: {line[:80]!r}."
            )
        subtokens.append(quoted[2] if quoted else line)
    return subtokens
