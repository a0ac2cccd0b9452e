import collections
import random

from tests.text import subword_text_encoder_test as golden
from tests.text.subword_tokenizer_op_test import hostile_texts
from ut_keras.text import tokenizer, tokenizer_batch


def _lists(tokens):
    """Return the tokens of every text as strings, like `tokenizer.encode`."""
    found = [
        tokens.data[start : start + length].tobytes().decode("utf-8", "surrogatepass")
        for start, length in zip(tokens.starts, tokens.lengths, strict=True)
    ]
    starts = [0, *tokens.ends[:-1]]
    return [found[start:end] for start, end in zip(starts, tokens.ends, strict=True)]


def test_split_of_docstring_example():
    tokens = tokenizer_batch.split(["so cool.", "", "yes"])
    assert tokens.data.tobytes() == b"so cool.yes" + bytes(16)
    assert tokens.starts.tolist() == [0, 3, 7, 8]
    assert tokens.lengths.tolist() == [2, 4, 1, 3]
    assert tokens.ends.tolist() == [3, 3, 4]


def test_split_matches_tokenizer_on_random_texts():
    texts = [*hostile_texts(3000), " ", "  ", "a ", " a", "a b", "\ud800 a", "\udfff", "", ""]
    assert _lists(tokenizer_batch.split(texts)) == [tokenizer.encode(text) for text in texts]


def test_split_of_no_texts():
    for texts in ([], [""], ["", ""]):
        tokens = tokenizer_batch.split(texts)
        assert not len(tokens.starts)
        assert not tokens.ends.any()


def test_split_classifies_every_character_as_tokenizer():
    # Two adjacent surrogates are two characters, as in Python.
    characters = [chr(code) for code in range(0x110000)]
    random.Random(4).shuffle(characters)
    texts = ["a" + "".join(characters[i : i + 64]) for i in range(0, len(characters), 64)]
    ours = _lists(tokenizer_batch.split(texts))
    assert ours == [tokenizer.encode(text) for text in texts]


def test_count_matches_t2t():
    assert tokenizer_batch.count(iter(golden.corpus())) == golden.TOKEN_COUNTS


def test_count_matches_tokenizer_on_random_texts():
    texts = [*hostile_texts(5000), "\ud800", "a\0b", "\0", "", "x" * 1000]
    expected = collections.Counter(token for text in texts for token in tokenizer.encode(text))
    assert tokenizer_batch.count(texts) == expected


def test_count_of_no_texts():
    assert tokenizer_batch.count([]) == {}
    assert tokenizer_batch.count(["", ""]) == {}
