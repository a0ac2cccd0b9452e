import collections
import random

import pytest

from tests.text import subword_text_encoder_test as golden
from tests.text.subword_tokenizer_op_test import hostile_texts
from ut_keras.text import tokenizer
from ut_keras.text.subword_vocabulary import ESCAPE_CHARACTERS, VocabularyBuilder, escape_token


def _build_one_by_one(token_counts, min_count, num_iterations=4, max_subtoken_length=None):
    """Build a vocabulary. This reference counts strings in a dictionary, without arrays."""
    alphabet = {c for token in [*token_counts, "<pad>", "<EOS>"] for c in token}
    alphabet |= ESCAPE_CHARACTERS
    reserved = [escape_token(token, alphabet) for token in ("<pad>", "<EOS>")]
    subtokens = set(alphabet)
    for _ in range(num_iterations):
        counts = collections.Counter()
        for token, count in token_counts.items():
            escaped, start = escape_token(token, alphabet), 0
            while start < len(escaped):
                ends = range(len(escaped), start, -1)
                piece = next(escaped[start:end] for end in ends if escaped[start:end] in subtokens)
                for end in range(start + 1, len(escaped) + 1):
                    if max_subtoken_length is None or end - start < max_subtoken_length:
                        counts[escaped[start:end]] += count
                start += len(piece)
        pairs = []
        for subtoken in sorted(counts, key=len, reverse=True):
            if counts[subtoken] >= min_count:
                if subtoken not in alphabet:
                    pairs.append((counts[subtoken], subtoken))
                for end in range(1, len(subtoken)):
                    counts[subtoken[:end]] -= counts[subtoken]
        pairs += [(counts[character], character) for character in alphabet]
        ordered = reserved + [subtoken for _, subtoken in sorted(pairs, reverse=True)]
        subtokens = set(ordered)
    return ordered


def _hostile_counts():
    rng = random.Random(1)
    counts = collections.Counter()
    for text in hostile_texts(500):
        for token in tokenizer.encode(text):
            counts[token] += rng.randrange(1, 9)
    # The tokenizer never makes these tokens, but a file of counts may contain them.
    counts.update(
        {"a<pad>": 30, "<pad>": 9, "b<pad>a": 7, "<EOS>": 5, "": 4, "\ud800": 3, "\n": 50}
    )
    counts.update({"ab" * 40: 6, "\0": 8})
    return dict(counts)


@pytest.mark.parametrize("max_subtoken_length", [None, 1, 2, 5])
@pytest.mark.parametrize(
    "counts", [golden.TOKEN_COUNTS, _hostile_counts()], ids=["real", "hostile"]
)
def test_builder_matches_dictionary_algorithm(counts, max_subtoken_length):
    builder = VocabularyBuilder(counts, max_subtoken_length)
    for min_count, num_iterations in [(1, 1), (2, 3), (5, 4), (30, 4), (10**6, 2), (0, 4)]:
        ours = builder.build(min_count, num_iterations)
        expected = _build_one_by_one(counts, max(1, min_count), num_iterations, max_subtoken_length)
        assert ours == expected


def test_builder_without_tokens():
    assert VocabularyBuilder({}).build(1) == _build_one_by_one({}, 1)
    with pytest.raises(ValueError, match="num_iterations must be at least 1"):
        VocabularyBuilder({"a": 1}).build(1, num_iterations=0)


def test_builder_counts_only_beginning_of_long_token():
    """All characters of a long token are in the vocabulary, so the token can be encoded."""
    beginning = "ab" * 500
    long = VocabularyBuilder({beginning + "c" * 100_000: 1, beginning + "d": 2, "so": 3}, 20)
    short = VocabularyBuilder({beginning: 3, "so": 3, "cd": 0}, 20)
    built = long.build(2)
    assert built == short.build(2)
    assert {"c", "d"} <= set(built)
