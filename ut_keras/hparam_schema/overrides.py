"""Parse `--hparams`, such as `hidden_size=64,pos=None,gates_inputs='si'`.

    overrides = pair {"," pair}
    pair      = name "=" value
    value     = word | 'text' | "text" | "[" value {"," value} "]"

As in T2T, words need no quotes, and a word is converted to the type of its field. Two things are
added to T2T's syntax. A quoted text is always a string and may contain commas. Fields that allow
None accept the word None.
"""

import re
from typing import Any

from ut_keras.hparam_schema.field import HParamError, UnquotedWord

_NAME = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=[ \t]*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORD = re.compile(r"[^,]*")
_LIST_WORD = re.compile(r"[^,\]\s]+")
_END = re.compile(r"\s*(,|$)")


def parse(text: str) -> dict[str, Any]:
    """Parse overrides into a dict.

    Args:
        text: str, such as "a=1,b=[1,2],c='x,y'".

    Returns:
        dict from name to value. A value is an `UnquotedWord` for a word, a str for quoted text, or
        a list of these.

    Raises:
        HParamError: if `text` is malformed or names a field twice.

    >>> parse("a=1,b=[1,2],c='x,y'")
    {'a': 1, 'b': [1, 2], 'c': 'x,y'}
    """
    overrides = {}
    position = 0
    while text[position:].strip():
        name = _NAME.match(text, position)
        if not name:
            raise HParamError(
                "Overrides must be name=value pairs, with quotes around a value that contains a "
                f"comma (name='x,y'). Received: {text[position:]!r} in {text!r}."
            )
        if name[1] in overrides:
            raise HParamError(
                f"Each hparam must be given only once. Received: {name[1]} twice in {text!r}."
            )
        overrides[name[1]], position = _read_value(text, name.end())
        end = _END.match(text, position)
        if not end:
            raise HParamError(
                f"The value of {name[1]} must be followed by a comma or nothing. "
                f"Received: {text[position:]!r} in {text!r}."
            )
        position = end.end()
    return overrides


def _read_value(text, position):
    """Return the value that starts at `position`, and the position of its end."""
    if not text.startswith("[", position):
        return _read_scalar(text, position, _WORD)
    values, start = [], position
    position += 1
    while not text.startswith("]", position):
        if position == len(text):
            raise HParamError(f"A list must end with ']'. Received: {text[start:]!r}.")
        if text[position] == "," or text[position].isspace():
            position += 1
            continue
        value, position = _read_scalar(text, position, _LIST_WORD)
        values.append(value)
    return values, position + 1


def _read_scalar(text, position, word):
    if text.startswith(("'", '"'), position):
        quoted = _QUOTED.match(text, position)
        if not quoted:
            raise HParamError(f"A quote must be closed. Received: {text[position:]!r} in {text!r}.")
        return quoted[0][1:-1], quoted.end()
    bare = word.match(text, position)
    return UnquotedWord(bare[0].strip()), bare.end()
