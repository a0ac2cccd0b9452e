import gc
import random

import pytest

from tests.data import subword_text_encoder_test as golden
from tests.data.subword_tokenizer_op_test import hostile_texts
from ut_keras.data import subword_batch, text_encoder, tokenizer


@pytest.mark.parametrize("vocab", golden.VOCABS)
def test_matches_t2t(vocab):
    encoder = golden.load(vocab)
    expected = [entry["ids"] for entry in golden.GOLDEN["vocabs"][vocab]["encodings"]]
    strings = golden.GOLDEN["strings"]
    assert subword_batch.BatchEncoder(encoder).encode(strings) == expected
    times = 1000 // len(strings) + 1
    assert encoder.encode_batch(strings * times) == expected * times


@pytest.mark.parametrize("vocab", golden.VOCABS)
def test_equals_one_by_one_on_hostile_texts(vocab):
    encoder = golden.load(vocab)
    texts = [*hostile_texts(3000), "\ud800 a", "a\0b", "\U0010ffff_", *map(chr, range(200, 1200))]
    random.Random(3).shuffle(texts)
    assert encoder.encode_batch(texts) == [encoder.encode(text) for text in texts]
    assert gc.isenabled()


def test_few_and_empty_texts():
    encoder = golden.load("200")
    batch = subword_batch.BatchEncoder(encoder)
    assert encoder.encode_batch([]) == batch.encode([]) == []
    assert batch.encode(["", ""]) == [[], []]
    texts = ["so cool", "", "\U0010ffff_"]
    expected = [encoder.encode(text) for text in texts]
    assert encoder.encode_batch(texts) == batch.encode(texts) == expected


def test_vocabulary_with_holes_is_encoded_one_by_one():
    encoder = text_encoder.SubwordTextEncoder(subtokens=["<pad>", "<EOS>", "ab", "_"])
    assert encoder.encode_batch(["ab ab"] * 1500) == [[2, 3, 2, 3]] * 1500
    with pytest.raises(ValueError, match="'0_'|is missing"):
        encoder.encode_batch(["ab 0"] * 1500)


def test_word_characters_are_those_of_the_tokenizer():
    classes = subword_batch.character_classes(frozenset())
    for code in random.Random(4).sample(range(0x110000), 20000):
        assert (classes[code] & 1) == (tokenizer.decode(["a", chr(code)])[1:2] == " "), hex(code)
