import random

import numpy as np

from ut_keras.text import token_table, tokenizer_batch


def _numbers(table, tokens):
    """Return the numbers that a table gives to arbitrary byte strings."""
    splits = [0]
    for token in tokens:
        splits.append(splits[-1] + len(token))
    data = np.frombuffer(b"".join(tokens) + bytes(16), "u1")
    splits = np.array(splits)
    return table.numbers(
        tokenizer_batch.Tokens(data, splits[:-1], splits[1:] - splits[:-1], splits[-1:])
    ).tolist()


def _random_tokens(count, seed):
    """Return random tokens. Many have equal beginnings or ends. Some contain zero bytes."""
    rng = random.Random(seed)
    pieces = [b"a", b"b", b"\0", b"abcdefgh", b"hgfedcba", b"\xff"]
    return [b"".join(rng.choices(pieces, k=rng.randrange(1, 9))) for _ in range(count)]


def test_numbers_match_a_dictionary():
    table, known = token_table.TokenTable(), {}
    for seed in range(6):
        tokens = _random_tokens(20_000, seed)
        numbers = _numbers(table, tokens)
        for token, number in zip(tokens, numbers, strict=True):
            assert known.setdefault(token, number) == number
        assert len(table) == len(known) + 1
        assert sorted(known.values()) == list(range(1, len(table)))
    assert len(known) > 2**15  # The table has grown.


def test_numbers_distinguish_similar_tokens():
    tokens = [bytes(n) for n in range(1, 70)]
    tokens += [bytes(n) + b"x" + bytes(m) for n in range(35) for m in range(35)]
    numbers = _numbers(token_table.TokenTable(), tokens)
    assert sorted(numbers) == list(range(1, len(tokens) + 1))


def test_numbers_of_no_tokens():
    table = token_table.TokenTable()
    assert _numbers(table, []) == []
    assert len(table) == 1


def test_numbers_distinguish_very_long_tokens():
    """The tokens differ only at their end or in their length."""
    tokens = [b"x" * 1024, b"x" * 1025, b"x" * 3000, b"x" * 2999 + b"y", b"\0" * 1025, b"x" * 15]
    table = token_table.TokenTable()
    assert _numbers(table, [*tokens, *tokens]) == [*range(1, 7), *range(1, 7)]
