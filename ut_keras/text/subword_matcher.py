"""Longest-match splitting by tensorflow-text: the inner loop of subwords, in C++.

    "that_'_s_so_"  ->  ids of ["that_", "'", "_", "s_", "so_"]

Whole escaped texts are split at once. A subtoken with `_` anywhere but at its end fits no token, so
no match can reach over the end of one.

The only part that needs tensorflow-text: bytes, words and numbers work on platforms without it.
"""

from typing import Any

import tensorflow as tf

from ut_keras.errors import UsageError

_LONGEST = 256  # bytes


def make(encoder: Any) -> Any:
    """Makes the splitter of a `SubwordTextEncoder`.

    Returns:
        A `tf_text.FastWordpieceTokenizer` for escaped texts.

    Raises:
        ValueError: if the vocabulary lacks a character of its alphabet, so that there are texts
            that it cannot encode, holds the character 0, or a subtoken of more than 256 bytes.
        UsageError: without tensorflow-text.
    """
    try:
        import tensorflow_text as tf_text
    except ModuleNotFoundError as error:
        raise UsageError(
            "Subwords need the package tensorflow-text, of TensorFlow's version. "
            f"Received: {error}."
        ) from error
    longest = max(encoder.subtokens, key=lambda subtoken: len(_bytes(subtoken)))
    if len(_bytes(longest)) > _LONGEST:
        raise ValueError(
            f"Subtokens must have at most {_LONGEST} bytes, as tensorflow-text wants it. "
            f"Received: {longest[:40]!r}…, {len(_bytes(longest))} bytes."
        )
    ids = {subtoken: i for i, subtoken in enumerate(encoder.subtokens)}
    lacking = sorted(character for character in encoder.alphabet if character not in ids)
    if lacking or "\0" in encoder.alphabet:
        raise ValueError(
            "The vocabulary must hold every character of its alphabet (those of its subtokens, and "
            f"'\\_u;0123456789'), and not the character 0. Received: a vocabulary of "
            f"{len(ids)} subtokens without {lacking[:10]}."
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


def _bytes(subtoken):
    return subtoken.encode("utf-8", "surrogatepass")
