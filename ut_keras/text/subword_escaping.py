r"""How T2T writes any token with the characters of an alphabet.

"a_b"  ->  "a\ub_"        with "é" not in the alphabet:  "é"  ->  "\233;_"
"""

import re
from collections.abc import Container

ESCAPE_CHARACTERS = frozenset("\\_u;0123456789")
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")
_UNKNOWN_CHARACTER = "\u3013"


def escape_token(token: str, alphabet: Container[str]) -> str:
    """Makes a token of characters of the alphabet only, with `_` at its end and nowhere else."""
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    characters = [c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in token]
    return "".join(characters) + "_"


def unescape_token(escaped: str) -> str:
    """The inverse of `escape_token`; the `_` at the end may be gone."""

    def original(match):
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        try:
            return chr(int(match[1]))
        except (ValueError, OverflowError):
            return _UNKNOWN_CHARACTER

    return _ESCAPED.sub(original, escaped.removesuffix("_"))
