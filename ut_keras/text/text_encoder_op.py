"""Text encoders in a graph, so that a SavedModel takes and returns text.

    graph_encoder = text_encoder_op.make(encoder)
    graph_encoder.encode(tf.constant(["so cool", "yes"]))  ->  RaggedTensor int32, without EOS
    graph_encoder.decode(ids)                              ->  tf.string

Ids and texts are the same as those of the encoder in Python. Two things differ, because a server
must return an output for every request:

- Bytes that are not UTF-8 are read as U+FFFD.
- Words for which the Python encoder raises an error, such as unknown words, are skipped.
"""

from collections.abc import Callable

import tensorflow as tf

from ut_keras.text import subword_tokenizer_op, text_encoder, text_encoder_base
from ut_keras.text.text_encoder_base import NUM_RESERVED_IDS, RESERVED_TOKENS

# The characters that str.split() treats as spaces.
_SPACES = (
    r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)
_UNKNOWN = -1


def make(encoder: text_encoder.TextEncoder) -> tf.Module:
    """Return the graph version of an encoder.

    Returns:
        A `tf.Module` with `encode(texts [B]) -> int32 RaggedTensor [B, (ids)]`, without EOS, and
        `decode(ids [B, (ids)]) -> texts [B]`, for ids without padding and EOS.

    Raises:
        ValueError: if the encoder has no graph version, if a subclass overrides `encode` or
            `decode`, or if a subword vocabulary lacks a character of its alphabet.
    """
    if text_encoder_base.is_overridden(encoder, "encode", "decode"):
        raise ValueError(
            f"An encoder in a graph must not override encode or decode. Received: {encoder.kind}."
        )
    for kind, op in _OPS.items():
        if isinstance(encoder, kind):
            return op(encoder)
    names = ", ".join(kind.__name__ for kind in _OPS)
    raise ValueError(
        f"To work in a graph an encoder must be one of {names}. Received: {encoder.kind}."
    )


class ByteOp(tf.Module):
    """The graph version of a `ByteTextEncoder`."""

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        characters = tf.strings.bytes_split(_to_valid_utf8(texts))
        numbers = tf.io.decode_raw(characters.flat_values, tf.uint8)
        numbers = tf.cast(tf.reshape(numbers, [-1]), tf.int32)
        return characters.with_flat_values(numbers + NUM_RESERVED_IDS)

    def decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        reserved = [name.encode() for name in RESERVED_TOKENS]
        table = tf.constant([*reserved, *(bytes([i]) for i in range(256))])
        pieces = ids.with_flat_values(tf.gather(table, ids.flat_values))
        return _to_valid_utf8(tf.strings.reduce_join(pieces, axis=-1))


class TokenOp(tf.Module):
    """The graph version of a `TokenTextEncoder`."""

    def __init__(self, encoder: text_encoder.TokenTextEncoder) -> None:
        super().__init__()
        tokens = encoder.entries
        oov_id = _UNKNOWN if encoder.oov_id is None else encoder.oov_id
        # If a token occurs twice, its last id is used.
        self._table = _lookup({token: i for i, token in enumerate(tokens)}, oov_id)
        self._tokens = tf.constant(tokens)

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = _split_words(texts)
        return _without_unknown(words.with_flat_values(self._table.lookup(words.flat_values)))

    def decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        flat = ids.flat_values
        is_known = (flat >= 0) & (flat < tf.size(self._tokens))
        words = tf.gather(self._tokens, tf.where(is_known, flat, 0))
        words = tf.where(is_known, words, tf.strings.join(["ID_", tf.strings.as_string(flat)]))
        return _join_words(ids.with_flat_values(words))


class IntegerOp(tf.Module):
    """The graph version of an `IntegerTextEncoder`."""

    def __init__(self, encoder: text_encoder.TextEncoder) -> None:
        super().__init__()
        self._vocab_size = encoder.vocab_size

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = _split_words(texts)
        flat = words.flat_values
        is_number = tf.strings.regex_full_match(flat, r"[+-]?0*[0-9]{1,9}")
        numbers = tf.strings.to_number(tf.where(is_number, flat, "-1"), tf.int32)
        ids = numbers + NUM_RESERVED_IDS
        is_id = (numbers >= 0) & (ids < self._vocab_size)
        return _without_unknown(words.with_flat_values(tf.where(is_id, ids, _UNKNOWN)))

    def decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        numbers = tf.strings.as_string(ids.flat_values - NUM_RESERVED_IDS)
        return _join_words(ids.with_flat_values(numbers))


class ClassLabelOp(tf.Module):
    """The graph version of a `ClassLabelEncoder`: a complete text is one label."""

    def __init__(self, encoder: text_encoder.ClassLabelEncoder) -> None:
        super().__init__()
        labels = encoder.entries
        # If a label occurs twice, its first id is used.
        self._table = _lookup({label: i for i, label in reversed([*enumerate(labels)])}, _UNKNOWN)
        self._labels = tf.constant(labels)

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        ids = self._table.lookup(_to_valid_utf8(texts))
        return _without_unknown(tf.RaggedTensor.from_tensor(ids[:, tf.newaxis]))

    def decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return _join_words(ids.with_flat_values(tf.gather(self._labels, ids.flat_values)))


_OPS: dict[type, Callable[..., tf.Module]] = {
    text_encoder.SubwordTextEncoder: subword_tokenizer_op.SubwordTokenizer,
    text_encoder.ByteTextEncoder: lambda encoder: ByteOp(),  # `ByteOp` has no arguments
    text_encoder.TokenTextEncoder: TokenOp,
    text_encoder.IntegerTextEncoder: IntegerOp,
    text_encoder.ClassLabelEncoder: ClassLabelOp,
}


def _lookup(ids, default):
    """Return a lookup table for a dict from names to ids."""
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(ids)), tf.constant(list(ids.values()), tf.int32)
        ),
        default,
    )


def _to_valid_utf8(texts):
    """Replace invalid bytes with U+FFFD, as bytes.decode("utf-8", "replace") does."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")


def _split_words(texts):
    spaced = tf.strings.regex_replace(_to_valid_utf8(texts), _SPACES, " ")
    words = tf.strings.split(spaced, " ")
    return tf.ragged.boolean_mask(words, words != "")


def _without_unknown(ids):
    return tf.ragged.boolean_mask(ids, ids != _UNKNOWN)


def _join_words(words):
    return tf.strings.reduce_join(words, axis=-1, separator=" ")
