"""Subwords of many texts at once, by numpy and tensorflow-text: the ids of `encode`, sooner.

All texts of a chunk lie in one array of code points. Whether neighbours differ in kind (letter or
digit, or not) says where a token ends; there goes a `_`, and a single space between two words
becomes one. The escaped texts are split in one call, and their ids cut apart again.
"""

import contextlib
import functools
import gc
import sys

import numpy as np

from ut_keras.data import subword_matcher

_NUM_CODE_POINTS = sys.maxunicode + 1
_CHUNK = 1024  # texts; the arrays of so many sentences fit the processor's cache
_WORD, _ESCAPED = 1, 2
# Stands for a `_` of the text while `_` ends tokens; the last code point, which is no character.
_UNDERSCORE = sys.maxunicode
_MANY = 32


class BatchEncoder:
    """Encodes lists of texts.

    Args:
        encoder: `SubwordTextEncoder`.

    Raises:
        ValueError: if the vocabulary has not every character of its alphabet.
    """

    def __init__(self, encoder):
        self._encoder = encoder
        self._matcher = subword_matcher.make(encoder)
        self._classes = character_classes(encoder.alphabet)
        # Handing out the same int objects is faster than making new ones.
        self._ints = np.empty(encoder.vocab_size, object)
        self._ints[:] = range(encoder.vocab_size)

    def encode(self, texts):
        """Returns the list of ids, without EOS, of every text."""
        encoded = []
        with _no_garbage_collection():
            for start in range(0, len(texts), _CHUNK):
                encoded += self._encode_chunk(texts[start : start + _CHUNK])
        return encoded

    def _encode_chunk(self, texts):
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        characters = "".join(texts).encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(characters, np.uint32)
        if not len(codes) or codes.max() == _UNDERSCORE:
            return [self._encoder.encode(text) for text in texts]
        text_ends = np.cumsum(lengths[lengths > 0])
        classes = self._classes.take(codes)
        special = np.unique(codes[classes >= _ESCAPED])
        out, tokens_up_to = _end_tokens(codes, classes & _WORD, text_ends)
        # Only now, for the letters and digits of an escaped character are no word.
        escaped = _escape(out.tobytes().decode("utf-32-le", "surrogatepass"), special).encode()
        ids, _, id_ends = self._matcher.tokenize_with_offsets([escaped])
        token_ends = np.flatnonzero(np.frombuffer(escaped, np.uint8) == ord("_")) + 1
        num_ids = np.zeros(len(texts), np.int64)
        num_ids[lengths > 0] = token_ends[tokens_up_to - 1]
        # Every token ends where one of its ids does.
        num_ids[lengths > 0] = id_ends.values.numpy().searchsorted(num_ids[lengths > 0]) + 1
        return _cut(self._ints[ids.values.numpy()].tolist(), np.maximum.accumulate(num_ids))


def character_classes(alphabet):
    """For every code point: 1 for a letter or digit, + 2 if it must be escaped; uint8."""
    classes = _word_characters() | np.uint8(_ESCAPED)
    plain = [ord(character) for character in alphabet - set("\\_\n")]
    classes[plain] &= _WORD
    return classes


@functools.cache
def _word_characters():
    """For every code point, 1 if it is a letter or digit, else 0; the same as `tokenizer`'s."""
    codes = range(_NUM_CODE_POINTS)
    return np.fromiter((chr(code).isalnum() for code in codes), np.uint8, _NUM_CODE_POINTS)


def _end_tokens(codes, is_word, text_ends):
    """Ends every token by a `_`.

    Args:
        codes: uint32 [N], the code points of all texts.
        is_word: uint8 [N].
        text_ends: int [texts], where each text ends; none is empty.

    Returns:
        (code points with the `_`, number of tokens up to the end of each text).
    """
    is_last = np.empty(len(codes), bool)  # of its run
    np.not_equal(is_word[1:], is_word[:-1], out=is_last[:-1])
    is_last[text_ends - 1] = True
    is_first = np.empty(len(codes), bool)
    is_first[0] = True
    is_first[1:] = is_last[:-1]
    # A single space between words: it has to go, the `_` of the word before takes its place.
    is_gap = (codes == ord(" ")) & is_last & is_first
    is_gap[text_ends - 1] = is_gap[text_ends[:-1]] = is_gap[0] = False
    gaps = np.flatnonzero(is_gap)
    codes = np.where(codes == ord("_"), np.uint32(_UNDERSCORE), codes)
    codes[gaps] = ord("_")
    num_tokens = np.cumsum(is_last)[text_ends - 1] - gaps.searchsorted(text_ends)
    is_last[gaps] = is_last[gaps - 1] = False
    out = codes.repeat(is_last.view(np.uint8) + np.uint8(1))
    ends = np.flatnonzero(is_last)
    out[ends + np.arange(1, len(ends) + 1)] = ord("_")
    return out, num_tokens


def _escape(text, special):
    """Escapes the special characters, as `subword_text_encoder.escape_token` does."""
    escapes = {chr(code): f"\\{code};" for code in special.tolist()}
    if "_" in escapes:
        del escapes["_"]
        escapes[chr(_UNDERSCORE)] = "\\u"
    if "\\" in escapes:
        del escapes["\\"]
        text = text.replace("\\", "\\\\")  # before there are backslashes of ours
    if len(escapes) > _MANY:
        return text.translate(str.maketrans(escapes))
    for character, escape in escapes.items():
        text = text.replace(character, escape)
    return text


@contextlib.contextmanager
def _no_garbage_collection():
    """Python looks through all objects again and again as lists are made; ours hold no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _cut(ids, ends):
    """The lists that end at `ends`."""
    pieces = []
    start = 0
    for end in ends.tolist():
        pieces.append(ids[start:end])
        start = end
    return pieces
