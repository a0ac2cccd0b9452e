"""T2T's invertible tokenizer.

A token is either a run of letters and digits, or a run of other characters:

    encode("Dude - that's so cool.")  ->  ["Dude", " - ", "that", "'", "s", "so", "cool", "."]

A single space between two words is not a token. Decoding inserts a space between two adjacent
words.
"""

import re
from collections.abc import Iterable

# Python's word characters, except the underscore, are exactly the Unicode categories L* and N*.
_RUN = re.compile(r"[^\W_]+|[\W_]+")
_WORD = re.compile(r"[^\W_]")


def encode(text: str) -> list[str]:
    """Return the list of tokens of a string."""
    runs = _RUN.findall(text)
    last = len(runs) - 1
    return [run for i, run in enumerate(runs) if run != " " or i in (0, last)]


def decode(tokens: Iterable[str]) -> str:
    """Return the string for a list of non-empty tokens."""
    pieces = []
    after_word = False
    for token in tokens:
        is_word = bool(_WORD.match(token))
        if after_word and is_word:
            pieces.append(" ")
        pieces.append(token)
        after_word = is_word
    return "".join(pieces)
