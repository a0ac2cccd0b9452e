"""T2T's invertible tokenizer: runs of letters and digits, and runs of everything else.

    encode("Dude - that's so cool.")  ->  ["Dude", " - ", "that", "'", "s", "so", "cool", "."]

A single space between two words is no token of its own: two words next to each other imply it.
"""

import re
from collections.abc import Iterable

# Python's own word characters but the underscore are just the Unicode categories L* and N*.
_RUN = re.compile(r"[^\W_]+|[\W_]+")
_WORD = re.compile(r"[^\W_]")


def encode(text: str) -> list[str]:
    """Returns the list of tokens of a string."""
    runs = _RUN.findall(text)
    last = len(runs) - 1
    return [run for i, run in enumerate(runs) if run != " " or i in (0, last)]


def decode(tokens: Iterable[str]) -> str:
    """Returns the string for a list of tokens, none of which is empty."""
    pieces = []
    after_word = False
    for token in tokens:
        is_word = bool(_WORD.match(token))
        if after_word and is_word:
            pieces.append(" ")
        pieces.append(token)
        after_word = is_word
    return "".join(pieces)
