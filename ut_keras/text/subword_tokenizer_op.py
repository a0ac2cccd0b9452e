r"""Subwords in a TensorFlow graph, so that a SavedModel takes and returns text.

    tokenizer = SubwordTokenizer(SubwordTextEncoder(vocab_file))
    tokenizer.encode(tf.constant(["so cool", "yes"]))  ->  RaggedTensor int32, without EOS
    tokenizer.decode(ids)                              ->  tf.string

The ids are the same as those of `SubwordTextEncoder`. The encoder works on tokens, while this
module works on characters. Each character becomes a string; the last character of a token is
followed by `_`. The strings are joined and split into the longest matches (`make_matcher`). Serving
requires no Python code, only tensorflow-text.
"""

from collections.abc import Set
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from ut_keras.text import subword_batch, tokenizer_batch

if TYPE_CHECKING:
    from ut_keras.text.subword_text_encoder import SubwordTextEncoder

_SPACE = ord(" ")
_WORD, _ESCAPED = 1, 2
_UNKNOWN_CODE = 0x3013  # T2T decodes an invalid code point to this code point
_MAX_CODE = 0x10FFFF


class SubwordTokenizer(tf.Module):
    """The graph version of a `SubwordTextEncoder`.

    Args:
        encoder: `SubwordTextEncoder`.
        name: str. The name of the module.

    Raises:
        ValueError, UsageError: as for `subword_batch.make_matcher`.
    """

    def __init__(self, encoder: "SubwordTextEncoder", name: str = "subword_tokenizer") -> None:
        super().__init__(name=name)
        self._matcher = subword_batch.make_matcher(encoder)
        classes = character_classes(encoder.alphabet)
        # Neighbouring code points usually have the same class, so a short list of intervals is
        # enough.
        starts = np.flatnonzero(np.diff(classes, prepend=classes[0] ^ 1))
        self._class_starts = tf.constant(starts, tf.int32)
        self._classes = tf.constant(classes[starts], tf.int32)
        self._subtokens = tf.constant([*encoder.subtokens, ""])

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids, int32 [B, (ids)], of texts [B], without EOS.

        Bytes that are not UTF-8 are read as U+FFFD.
        """
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        pieces = characters.with_flat_values(self._escaped_characters(characters))
        return self._matcher.tokenize(tf.strings.reduce_join(pieces, axis=-1))

    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Return the texts [B] of ids [B, (ids)].

        If all rows have the same length, apply `cut_at_eos_in_graph` to the ids first.
        """
        if not isinstance(ids, tf.RaggedTensor):
            ids = tf.RaggedTensor.from_tensor(ids)
        none = tf.size(self._subtokens) - 1
        flat = tf.cast(ids.flat_values, tf.int32)
        is_known = (flat >= 0) & (flat < none)
        subtokens = ids.with_flat_values(tf.gather(self._subtokens, tf.where(is_known, flat, none)))
        tokens = tf.strings.split(tf.strings.reduce_join(subtokens, axis=-1), "_")
        tokens = tf.ragged.boolean_mask(tokens, tokens != "")
        texts = tokens.with_flat_values(_unescape(tokens.flat_values))
        return tf.strings.reduce_join(self._spaced(texts), axis=-1)

    def _escaped_characters(self, characters):
        """Return every character as it appears in the escaped text, strings [N]."""
        codes = characters.flat_values
        classes = self._class_of(codes)
        is_word = classes & _WORD
        is_text_start = tf.ragged.range(characters.row_lengths()).flat_values == 0
        is_first = is_text_start | (is_word != tf.roll(is_word, 1, 0))
        is_last = tf.roll(is_first, -1, 0)
        # A single space between words is not a token, unless it is the first or last character of a
        # text.
        is_gap = (codes == _SPACE) & is_first & is_last
        is_gap &= ~is_text_start & ~tf.roll(is_text_start, -1, 0)
        number = tf.strings.as_string(codes)
        escape = tf.where(
            codes == ord("\\"),
            "\\\\",
            tf.where(codes == ord("_"), "\\u", tf.strings.join(["\\", number, ";"])),
        )
        plain = tf.strings.unicode_encode(codes[:, tf.newaxis], "UTF-8")
        strings = tf.where(classes >= _ESCAPED, escape, plain)
        strings = tf.strings.join([strings, tf.where(is_last, "_", "")])
        return tf.where(is_gap, "", strings)

    def _class_of(self, codes):
        interval = tf.searchsorted(self._class_starts, codes, side="right") - 1
        return tf.gather(self._classes, interval)

    def _spaced(self, tokens):
        """Return tokens with a space before each word that follows a word."""
        first = tf.strings.substr(tokens.flat_values, 0, 1, unit="UTF8_CHAR")
        codes = tf.strings.unicode_decode(first, "UTF-8").flat_values
        is_word = (self._class_of(codes) & _WORD) == 1
        is_start = tf.ragged.range(tokens.row_lengths()).flat_values == 0
        follows_word = is_word & tf.roll(is_word, 1, 0) & ~is_start
        spaces = tf.where(follows_word, " ", "")
        return tokens.with_flat_values(tf.strings.join([spaces, tokens.flat_values]))


def character_classes(alphabet: Set[str]) -> np.ndarray:
    """Return each code point's class, uint8: 1 for letters and digits, + 2 if escaped."""
    classes = tokenizer_batch.is_word() | np.uint8(_ESCAPED)
    plain = [ord(character) for character in alphabet - set("\\_\n")]
    classes[plain] &= _WORD
    return classes


def _unescape(tokens):
    r"""Invert `escape_token` for strings [N] without `_`.

    First, `\\`, `\u` and `\65;` are replaced by `_92_`, `_95_` and `_65_`. When the result is split
    at `_`, text and code points alternate.
    """
    tokens = tf.strings.regex_replace(tokens, r"\\\\", "_92_")
    tokens = tf.strings.regex_replace(tokens, r"\\u", "_95_")
    tokens = tf.strings.regex_replace(tokens, r"\\0*([0-9]{1,7});", r"_\1_")
    tokens = tf.strings.regex_replace(tokens, r"\\[0-9]+;", f"_{_UNKNOWN_CODE}_")
    parts = tf.strings.split(tokens, "_")
    strings = parts.flat_values
    index_in_row = tf.ragged.range(parts.row_lengths()).flat_values
    is_code = index_in_row % 2 == 1
    codes = tf.strings.to_number(tf.where(is_code, strings, "0"), tf.int32)
    codes = tf.where(codes > _MAX_CODE, _UNKNOWN_CODE, codes)
    characters = tf.strings.unicode_encode(codes[:, tf.newaxis], "UTF-8")
    strings = tf.where(is_code, characters, strings)
    return tf.strings.reduce_join(parts.with_flat_values(strings), axis=-1)
