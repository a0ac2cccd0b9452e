r"""Encode many texts to subwords at once with numpy and tensorflow-text.

    texts --tokenizer_batch--> tokens --token_table--> numbers --ids of every number--> ids
                                 \--new tokens: `make_matcher`--/

The ids are the same as those of `SubwordTextEncoder.encode`, which is slower. Most tokens of a text
are words that occurred before. Their ids are already known and are only looked up.
"""

import functools
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ut_keras.errors import UsageError
from ut_keras.text import tokenizer_batch
from ut_keras.text.ragged_ids import RaggedIds
from ut_keras.text.token_table import TokenTable

_MAX_SUBTOKEN_BYTES = 256  # bytes


def make_matcher(encoder: Any) -> Any:
    """Make a `tf_text.FastWordpieceTokenizer` from a `SubwordTextEncoder`.

    The tokenizer matches the longest subtokens in C++ and splits complete escaped texts at once. A
    match never crosses the end of a token, because every token ends with `_`, and subtokens with
    `_` before their end are disabled. Only this function needs tensorflow-text: encoders for bytes,
    words and numbers work on platforms without it.

    Args:
        encoder: `SubwordTextEncoder`.

    Raises:
        ValueError: if a subtoken has more than 256 bytes, or if the vocabulary contains the
            character 0. The error is also raised if the vocabulary lacks a character of its
            alphabet, because such a vocabulary cannot encode all texts.
        UsageError: if tensorflow-text is not installed.
    """
    try:
        import tensorflow_text as tf_text
    except ModuleNotFoundError as error:
        raise UsageError(
            "Subwords require the package tensorflow-text in the same version as TensorFlow. "
            f"Received: {error}."
        ) from error
    ids = {subtoken: i for i, subtoken in enumerate(encoder.subtokens)}
    _check_vocabulary(ids, encoder.alphabet)
    # FastWordpieceTokenizer requires distinct, non-empty subtokens. Subtokens that must never match
    # are replaced by strings that begin with "__", which no escaped text contains.
    names = [
        f"__{i}" if not subtoken or "_" in subtoken[:-1] or ids[subtoken] != i else subtoken
        for i, subtoken in enumerate(encoder.subtokens)
    ]
    unknown = "__"  # the tokenizer requires this token, but no text produces it
    return tf_text.FastWordpieceTokenizer(
        [*names, unknown],
        suffix_indicator="",
        max_bytes_per_word=2**31 - 1,
        token_out_type=tf.int32,
        unknown_token=unknown,
        no_pretokenization=True,
    )


def _check_vocabulary(subtokens, alphabet):
    """Check that tensorflow-text can match the subtokens in every text."""
    size, longest = max((len(s.encode("utf-8", "surrogatepass")), s) for s in subtokens)
    if size > _MAX_SUBTOKEN_BYTES:
        raise ValueError(
            f"Subtokens must have at most {_MAX_SUBTOKEN_BYTES} bytes (a limit set for "
            f"tensorflow-text). Received: {longest[:40]!r}…, {size} bytes."
        )
    lacking = sorted(character for character in alphabet if character not in subtokens)
    if lacking or "\0" in alphabet:
        faults = [f"without {lacking[:10]}"] if lacking else []
        faults += ["with the character 0"] if "\0" in alphabet else []
        raise ValueError(
            "The vocabulary must contain every character of its alphabet (the characters of its "
            f"subtokens and '\\_u;0123456789') and must not contain the character 0. Received: a "
            f"vocabulary of {len(subtokens)} subtokens {' and '.join(faults)}."
        )


_CHUNK = 2048  # texts per chunk; the arrays of so many sentences fit into the processor's cache
_MAX_TOKENS = 2**20  # a table that exceeds one of these two sizes is cleared
_MAX_IDS = 2**24
_TOKEN_END = ord("_")


@functools.lru_cache(maxsize=4)
def batch_encoder_for(encoder: Any) -> "BatchEncoder":
    """Return the `BatchEncoder` of a `SubwordTextEncoder`; equal encoders share one.

    A process that writes many files creates a new encoder for each file. Because the encoders share
    a `BatchEncoder`, each word is encoded only once.
    """
    return BatchEncoder(encoder)


class BatchEncoder:
    """Encodes lists of texts and keeps the ids of the tokens for the next list.

    Raises:
        ValueError, UsageError: as for `make_matcher`.
    """

    def __init__(self, encoder: Any) -> None:
        self._matcher = make_matcher(encoder)
        self._is_plain = np.zeros(sys.maxunicode + 1, bool)
        self._is_plain[[ord(character) for character in encoder.alphabet - {"\n"}]] = True
        self._lock = threading.Lock()
        self._clear_tables()

    def _clear_tables(self):
        self._table = TokenTable()
        self._ids = _IdsByNumber()

    def encode(self, texts: Sequence[str]) -> RaggedIds:
        """Return the `RaggedIds`, without EOS, of a list of strings."""
        chunks = [texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK)]
        return RaggedIds.concatenate([self._encode_chunk(chunk) for chunk in chunks])

    def _encode_chunk(self, texts):
        tokens = tokenizer_batch.split(texts)
        with self._lock:
            if len(self._table) > _MAX_TOKENS or self._ids.size > _MAX_IDS:
                self._clear_tables()
            numbers = self._table.numbers(tokens)
            if len(self._table) > len(self._ids):
                self._add_ids(tokens, numbers)
            ids = self._ids  # another thread may clear the tables
        return ids.gather(numbers, tokens.ends)

    def _add_ids(self, tokens, numbers):
        """Encode one occurrence of every new token number."""
        new = self._table.examples(numbers, len(self._ids))
        escaped = self._escape(tokenizer_batch.join(tokens, new))
        ids, _, id_ends = self._matcher.tokenize_with_offsets([escaped])
        token_ends = np.flatnonzero(np.frombuffer(escaped, np.uint8) == _TOKEN_END) + 1
        # Every token ends where one of its subtokens ends, so this search always finds an exact
        # match.
        ends = id_ends.values.numpy().searchsorted(token_ends) + 1
        self._ids.add(ids.values.numpy(), np.diff(ends, prepend=0))

    def _escape(self, joined):
        """Escape the result of `tokenizer_batch.join` as `escape_token` does."""
        joined = joined.replace(b"\\", b"\\\\").replace(b"_", b"\\u")
        joined = joined.replace(tokenizer_batch.END, bytes([_TOKEN_END]))
        text = joined.decode("utf-8", "surrogatepass")
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        is_plain = self._is_plain.take(codes)
        if is_plain.all():
            return joined
        special = np.unique(codes[~is_plain]).tolist()
        return text.translate({code: f"\\{code};" for code in special}).encode()


class _IdsByNumber:
    """The ids of every token of a table, by token number.

    New entries are appended. Existing entries never change.
    """

    def __init__(self):
        self._ids = np.zeros(1024, np.int32)
        self._starts = np.zeros(1024, np.int64)
        self._lengths = np.zeros(1024, np.int32)
        self.size = 0  # the total number of ids
        self._count = 1  # number 0 is not used

    def __len__(self):
        return self._count

    def add(self, ids, lengths):
        """Add the ids of the next token numbers; `lengths` has the number of ids of each."""
        starts = self.size + np.cumsum(lengths) - lengths
        self._ids = _write_growing(self._ids, self.size, ids)
        self._starts = _write_growing(self._starts, self._count, starts)
        self._lengths = _write_growing(self._lengths, self._count, lengths)
        self.size += len(ids)
        self._count += len(starts)

    def gather(self, numbers, ends):
        """Return the `RaggedIds` of texts.

        Args:
            numbers: int array, the numbers of all tokens of the texts.
            ends: int array [texts], the number of tokens up to the end of each text.
        """
        lengths = self._lengths.take(numbers)
        id_ends = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(lengths, out=id_ends[1:])
        where = tokenizer_batch.ranges(self._starts.take(numbers), lengths, id_ends[1:])
        row_splits = np.zeros(len(ends) + 1, np.int64)
        row_splits[1:] = id_ends.take(ends)
        return RaggedIds(self._ids.take(where), row_splits)


def _write_growing(array, start, values):
    """Write values into an array at `start`. Return the array or a longer copy of it."""
    end = start + len(values)
    if end > len(array):
        longer = np.zeros(2 * end, array.dtype)
        longer[:start] = array[:start]
        array = longer
    array[start:end] = values
    return array
