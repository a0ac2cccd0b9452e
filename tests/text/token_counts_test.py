import collections

from tests.text import subword_text_encoder_test as golden
from tests.text.subword_tokenizer_op_test import hostile_texts
from ut_keras.text import tokenizer, tokenizer_batch


def test_matches_t2t():
    assert tokenizer_batch.count(iter(golden.corpus())) == golden.TOKEN_COUNTS


def test_hostile_texts():
    texts = [*hostile_texts(5000), "\ud800", "a\0b", "\0", "", "x" * 1000]
    expected = collections.Counter(token for text in texts for token in tokenizer.encode(text))
    assert tokenizer_batch.count(texts) == expected


def test_no_texts():
    assert tokenizer_batch.count([]) == {}
    assert tokenizer_batch.count(["", ""]) == {}
