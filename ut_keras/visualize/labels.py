"""What stands beside a position: its token, sentence or class as text, safe to print.

[34, 1] of words       ->  ["bathroom", "<EOS>"]
[37, 269] of subwords  ->  ["Hund_", "e_"]        "_" ends a word
"""

from collections.abc import Iterable
from typing import Any

from ut_keras.text import text_encoder
from ut_keras.text.text_encoder_base import TextEncoder


def tokens(encoder: TextEncoder | None, ids: Iterable[int]) -> list[str]:
    """A label for each id of a sequence.

    Args:
        encoder: `TextEncoder`; None shows the numbers.
        ids: sequence of int.
    Returns:
        list of str.
    """
    return [_token(encoder, int(i)) for i in ids]


def text(encoder: TextEncoder | None, ids: Iterable[int]) -> str:
    """A whole sequence as text, up to EOS: str."""
    ids = text_encoder.cut_at_eos(ids)
    return " ".join(map(str, ids)) if encoder is None else printable(encoder.decode(ids))


def class_name(encoder: TextEncoder | None, number: Any) -> str:
    """The label of a class: str. Its 0 and 1 are classes as any other."""
    return str(number) if encoder is None else printable(encoder.decode([int(number)]))


def printable(text: str) -> str:
    """`text` with control characters, line breaks and changes of direction spelt out."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _token(encoder, number):
    if number < text_encoder.NUM_RESERVED_IDS:
        return text_encoder.RESERVED_TOKENS[number]
    if encoder is None:
        return str(number)
    if isinstance(encoder, text_encoder.SubwordTextEncoder):
        subtokens = encoder.subtokens
        return printable(subtokens[number]) if number < len(subtokens) else f"ID_{number}"
    label = encoder.decode([number])
    if "\N{REPLACEMENT CHARACTER}" in label:  # a byte that is no character by itself
        return f"0x{number - text_encoder.NUM_RESERVED_IDS:02x}"
    return (
        "<space>" if label == " " else printable(label)
    )  # "\N{OPEN BOX}" reads as a letter, turned
