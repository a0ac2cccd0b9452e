r"""Subwords of many texts at once, by numpy and tensorflow-text: the ids of `encode`, sooner.

    texts --tokenizer_batch--> tokens --token_table--> numbers --ids of every number--> ids
                                 \--`make_matcher`, the new ones--/

Most tokens of a text are words that came before; their ids are only gathered.
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
    """Makes a `tf_text.FastWordpieceTokenizer` of a `SubwordTextEncoder`: longest match, in C++.

    Whole escaped texts are split at once. A subtoken with `_` anywhere but at its end fits no
    token, so no match can reach over the end of one. Only this needs tensorflow-text: bytes, words
    and numbers work on platforms without it.

    Raises:
        ValueError: if the vocabulary lacks a character of its alphabet, so that there are texts
            that it cannot encode, holds the character 0, or a subtoken of more than 256 bytes.
        UsageError: without tensorflow-text.
    """
    try:
        import tensorflow_text as tf_text
    except ModuleNotFoundError as error:
        raise UsageError(
            "Subwords require the package tensorflow-text in the same version as TensorFlow. "
            f"Received: {error}."
        ) from error
    size, longest = max((len(s.encode("utf-8", "surrogatepass")), s) for s in encoder.subtokens)
    if size > _MAX_SUBTOKEN_BYTES:
        raise ValueError(
            f"Subtokens must have at most {_MAX_SUBTOKEN_BYTES} bytes (a limit set for "
            f"tensorflow-text). Received: {longest[:40]!r}…, {size} bytes."
        )
    ids = {subtoken: i for i, subtoken in enumerate(encoder.subtokens)}
    lacking = sorted(character for character in encoder.alphabet if character not in ids)
    if lacking or "\0" in encoder.alphabet:
        raise ValueError(
            "The vocabulary must contain every character of its alphabet (the characters of its "
            f"subtokens and '\\_u;0123456789') and must not contain the character 0. Received: a "
            f"vocabulary of {len(ids)} subtokens without {lacking[:10]}."
        )
    # The splitter wants names that differ and are not empty. No text has "__": what must not match
    # gets such a name.
    names = [
        f"__{i}" if not subtoken or "_" in subtoken[:-1] or ids[subtoken] != i else subtoken
        for i, subtoken in enumerate(encoder.subtokens)
    ]
    unknown = "__"  # asked for, and never met
    return tf_text.FastWordpieceTokenizer(
        [*names, unknown],
        suffix_indicator="",
        max_bytes_per_word=2**31 - 1,
        token_out_type=tf.int32,
        unknown_token=unknown,
        no_pretokenization=True,
    )


_CHUNK = 2048  # texts; the arrays of so many sentences stay near the processor
_MAX_TOKENS = 2**20  # then it starts anew, for bounded memory
_MAX_IDS = 2**24
_TOKEN_END = ord("_")


@functools.lru_cache(maxsize=4)
def batch_encoder_for(encoder: Any) -> "BatchEncoder":
    """Returns the `BatchEncoder` of a `SubwordTextEncoder`; equal ones have the same.

    So a process that writes file after file, each with an encoder of its own, learns words once.
    """
    return BatchEncoder(encoder)


class BatchEncoder:
    """Encodes lists of texts. What it knows of tokens stays for the next list.

    Raises as `make_matcher`.
    """

    def __init__(self, encoder: Any) -> None:
        self._matcher = make_matcher(encoder)
        self._is_plain = np.zeros(sys.maxunicode + 1, bool)
        self._is_plain[[ord(character) for character in encoder.alphabet - {"\n"}]] = True
        self._lock = threading.Lock()
        self._forget()

    def _forget(self):
        self._table = TokenTable()
        self._ids = _IdsByNumber()

    def encode(self, texts: Sequence[str]) -> RaggedIds:
        """Returns the `RaggedIds`, without EOS, of a list of strings."""
        chunks = [texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK)]
        return RaggedIds.concatenate([self._encode_chunk(chunk) for chunk in chunks])

    def _encode_chunk(self, texts):
        tokens = tokenizer_batch.split(texts)
        with self._lock:
            if len(self._table) > _MAX_TOKENS or self._ids.size > _MAX_IDS:
                self._forget()
            numbers = self._table.numbers(tokens)
            if len(self._table) > len(self._ids):
                self._add_ids(tokens, numbers)
            ids = self._ids  # another thread may make it forget
        return ids.gather(numbers, tokens.ends)

    def _add_ids(self, tokens, numbers):
        """Encodes one token of every new number."""
        new = self._table.examples(numbers, len(self._ids))
        escaped = self._escape(tokenizer_batch.join(tokens, new))
        ids, _, id_ends = self._matcher.tokenize_with_offsets([escaped])
        token_ends = np.flatnonzero(np.frombuffer(escaped, np.uint8) == _TOKEN_END) + 1
        # Every token ends where one of its ids does.
        ends = id_ends.values.numpy().searchsorted(token_ends) + 1
        self._ids.add(ids.values.numpy(), np.diff(ends, prepend=0))

    def _escape(self, joined):
        """Escapes what `tokenizer_batch.join` returns, as `escape_token` does."""
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
    """The ids of every token of a table, by its number; arrays that grow, and never change else."""

    def __init__(self):
        self._ids = np.zeros(1024, np.int32)
        self._starts = np.zeros(1024, np.int64)
        self._lengths = np.zeros(1024, np.int32)
        self.size = 0  # the number of all ids
        self._count = 1  # there is no number 0

    def __len__(self):
        return self._count

    def add(self, ids, lengths):
        """Adds the ids of the next numbers, `lengths` of them each."""
        starts = self.size + np.cumsum(lengths) - lengths
        self._ids = _write_growing(self._ids, self.size, ids)
        self._starts = _write_growing(self._starts, self._count, starts)
        self._lengths = _write_growing(self._lengths, self._count, lengths)
        self.size += len(ids)
        self._count += len(starts)

    def gather(self, numbers, ends):
        """The `RaggedIds` of texts, by the numbers of their tokens and how many come up to the end
        of each.
        """
        lengths = self._lengths.take(numbers)
        id_ends = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(lengths, out=id_ends[1:])
        where = tokenizer_batch.ranges(self._starts.take(numbers), lengths, id_ends[1:])
        row_splits = np.zeros(len(ends) + 1, np.int64)
        row_splits[1:] = id_ends.take(ends)
        return RaggedIds(self._ids.take(where), row_splits)


def _write_growing(array, start, values):
    """Writes values into an array from `start` on; returns it, or a longer one."""
    end = start + len(values)
    if end > len(array):
        longer = np.zeros(2 * end, array.dtype)
        longer[:start] = array[:start]
        array = longer
    array[start:end] = values
    return array
