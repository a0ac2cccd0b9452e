"""How often every token occurs in a corpus, which vocabularies are built from."""

import itertools
from collections.abc import Iterable

import numpy as np

from ut_keras.text import tokenizer_batch
from ut_keras.text.token_table import TokenTable

_TOGETHER = 2048  # texts; the arrays of so many sentences stay near the processor
_NO_UTF8 = 0xFF


def count(texts: Iterable[str]) -> dict[str, int]:
    """Counts tokens, as tokenizer.py finds them.

    Args:
        texts: iterable of str.

    Returns:
        dict from token to the number of times that it occurs.
    """
    table, tokens_by_number = TokenTable(), []
    counts = np.zeros(1, np.int64)
    texts = iter(texts)
    while some := list(itertools.islice(texts, _TOGETHER)):
        tokens = tokenizer_batch.split(some)
        first_new = len(table)
        numbers = table.numbers(tokens)
        new = table.examples(numbers, first_new)
        tokens_by_number.append(
            tokenizer_batch.concatenate(
                tokens.data, tokens.starts[new], tokens.lengths[new], _NO_UTF8
            )
        )
        if len(table) > len(counts):
            counts = np.concatenate([counts, np.zeros(2 * len(table) - len(counts), np.int64)])
        np.add.at(counts, numbers, 1)
    encoded = b"".join(tokens_by_number).split(bytes([_NO_UTF8]))[:-1]
    names = [name.decode("utf-8", "surrogatepass") for name in encoded]
    return dict(zip(names, counts[1 : len(table)].tolist(), strict=True))
