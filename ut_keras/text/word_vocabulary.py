"""Warnings about word vocabularies that do not match the text.

    vocabulary_warnings(encoder, "vocab.txt", texts)   ->  ["vocab.txt must have one word …"]

Vocabulary files of subword tools look similar, but their lines are not words: sentencepiece writes
`piece<TAB>score`, and subword-nmt writes `piece count`. If such a line is read as a word, it
matches no word of the text. Every word of the text then becomes the unknown word.
"""

import re
from collections.abc import Iterable, Sequence

from ut_keras.text.text_encoder import NUM_RESERVED_IDS, RESERVED_TOKENS, TokenTextEncoder

MAX_TEXTS = 1000
_MAX_UNKNOWN_SHARE = 0.5
_NUM_SHOWN = 3
_SPECIAL = re.compile(r"<.+>|\[.+\]")
# Tokens that other tools use for unknown words and for the beginning and end of a text.
_FOREIGN_RESERVED_WORDS = ("<unk>", "[UNK]", "<UNK>", "<s>", "</s>", "[CLS]", "[SEP]")


def vocabulary_warnings(encoder: TokenTextEncoder, title: str, texts: Iterable[str]) -> list[str]:
    """Return warnings about a vocabulary and texts, one line each.

    Args:
        encoder: `TokenTextEncoder` with a token for unknown words.
        title: str. The name of the vocabulary, such as its file.
        texts: iterable of str, some of the texts to encode.
    """
    words = [word for text in texts for word in text.split()]
    return [
        *_line_warnings(encoder, title, {*words}),
        *unknown_word_warnings(encoder, title, words),
    ]


def reserved_line_warnings(
    encoder: TokenTextEncoder, title: str, texts: Iterable[str]
) -> list[str]:
    """Return a warning if a vocabulary does not begin with the reserved tokens.

    T2T does not require the reserved tokens. For example, T2T's vocabulary of the Penn Treebank
    begins with other words. Other names of special tokens, such as [PAD] and </s>, are
    allowed if no text contains them.

    Args:
        encoder, title, texts: as in `vocabulary_warnings`. The encoder may raise an error for
            unknown words.
    """
    first = encoder.entries[:NUM_RESERVED_IDS]
    if first == RESERVED_TOKENS:
        return []
    are_special = all(map(_SPECIAL.fullmatch, first)) and encoder.oov_id not in range(
        NUM_RESERVED_IDS
    )
    if are_special and not any(word in first for text in texts for word in text.split()):
        return []
    return [
        f"{title} must begin with the lines {' and '.join(RESERVED_TOKENS)}. Received: "
        f"{' and '.join(map(repr, first))}. In the records, the first word is padding, and the "
        "second word is the end of a text."
    ]


def _line_warnings(encoder, title, used):
    found = []
    spaced = [entry for entry in encoder.entries if len(entry.split()) > 1]
    if spaced:
        found.append(
            f"{title} must have one word per line, without counts or scores. Received: "
            f"{_counted(len(spaced), 'line')} with white space inside, such as {spaced[0][:80]!r}. "
            "No word of a text matches them."
        )
    own = [
        entry.split()[0]
        for entry in encoder.entries
        if entry.split()[:1] and entry.split()[0] in _FOREIGN_RESERVED_WORDS
    ]
    own = [word for word in own if word != encoder.entries[encoder.oov_id] and word not in used]
    if own:
        found.append(
            f"{title} has entries that are never used: {', '.join(own)}. Unknown words become "
            f"{encoder.entries[encoder.oov_id]}, and a text ends with <EOS>."
        )
    return found


def unknown_word_warnings(encoder: TokenTextEncoder, title: str, words: Sequence[str]) -> list[str]:
    """Return one warning if most of the given words are not in the vocabulary."""
    oov_id = encoder.oov_id
    if oov_id is None:
        return []
    lacking = [word for word in words if encoder.encode(word) == [oov_id]]
    if len(lacking) <= _MAX_UNKNOWN_SHARE * len(words):
        return []
    shown = ", ".join(repr(word[:40]) for word in list(dict.fromkeys(lacking))[:_NUM_SHOWN])
    return [
        f"{title} lacks {len(lacking) / len(words):.0%} of the words, such as {shown}. They become "
        f"{encoder.entries[oov_id]}."
    ]


def _counted(number, noun):
    return f"{number:,} {noun}{'s' * (number != 1)}"
