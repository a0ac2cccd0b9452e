import concurrent.futures
import random
import sys

import numpy as np
import pytest

from tests.text import subword_text_encoder_test as golden
from tests.text.subword_tokenizer_op_test import hostile_texts
from ut_keras.errors import UsageError
from ut_keras.text import subword_batch, subword_text_encoder, text_encoder
from ut_keras.text.subword_vocabulary import ESCAPE_CHARACTERS


@pytest.mark.parametrize("vocab", golden.VOCABS)
def test_batch_encoder_matches_t2t(vocab):
    encoder = golden.load(vocab)
    expected = [entry["ids"] for entry in golden.GOLDEN["vocabs"][vocab]["encodings"]]
    strings = golden.GOLDEN["strings"]
    batch = subword_batch.BatchEncoder(encoder)
    assert batch.encode(strings).to_lists() == expected
    assert batch.encode(strings).to_lists() == expected  # The encoder now knows all tokens.
    times = 1000 // len(strings) + 1
    assert encoder.encode_batch(strings * times) == expected * times
    assert encoder.encode_ragged(strings * times).to_lists() == expected * times


@pytest.mark.parametrize("vocab", golden.VOCABS)
def test_batch_encoder_matches_encode_on_random_texts(vocab):
    encoder = golden.load(vocab)
    texts = [*hostile_texts(3000), "\ud800 a", "a\0b", "\U0010ffff_", *map(chr, range(200, 1200))]
    texts += ["\udc80\ud83d", "\ud83d\ude00", "a" * 5000, "_" * 100, "\0" * 40, "日本" * 30]
    texts += ["ab" * n + "c" * (n % 3) for n in range(30)]
    random.Random(3).shuffle(texts)
    expected = [encoder.encode(text) for text in texts]
    assert encoder.encode_batch(texts) == expected
    assert encoder.encode_ragged(texts).values.dtype == np.int32
    few_at_once = subword_batch.BatchEncoder(encoder)
    for start in range(0, len(texts), 500):
        some = few_at_once.encode(texts[start : start + 500])
        assert some.to_lists() == expected[start : start + 500]


def test_batch_encoder_is_thread_safe(monkeypatch):
    monkeypatch.setattr(subword_batch, "_CHUNK", 50)
    monkeypatch.setattr(subword_batch, "_MAX_TOKENS", 300)
    encoder = golden.load("200")
    batch = subword_batch.BatchEncoder(encoder)
    texts = [hostile_texts(2000, seed) for seed in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        encoded = list(pool.map(batch.encode, texts))
    for ids, some in zip(encoded, texts, strict=True):
        assert ids.to_lists() == [encoder.encode(text) for text in some]


def test_batch_encoder_limits_tokens_in_memory(monkeypatch):
    monkeypatch.setattr(subword_batch, "_CHUNK", 50)
    monkeypatch.setattr(subword_batch, "_MAX_TOKENS", 100)
    encoder = golden.load("200")
    batch = subword_batch.BatchEncoder(encoder)
    texts = hostile_texts(3000)
    assert batch.encode(texts).to_lists() == [encoder.encode(text) for text in texts]
    assert len(batch._table) < 500


def test_batch_encoder_limits_ids_in_memory(monkeypatch):
    monkeypatch.setattr(subword_batch, "_MAX_IDS", 10_000)
    encoder = golden.load("200")
    batch = subword_batch.BatchEncoder(encoder)
    for letter in "abcdefgh":
        assert batch.encode([letter * 4000]).to_lists() == [encoder.encode(letter * 4000)]
        assert batch._ids.size < 15_000


@pytest.mark.parametrize("long", ["ab", "a b", "~_\\", "\u4e2d", "Where is Mary? "])
def test_encode_uses_batch_encoder_for_long_text(monkeypatch, long):
    """For a long token, `_encode_token` is slow.

    Its time is proportional to the length of the token and to the length of the longest subtoken.
    """
    encoder = golden.load("200")
    monkeypatch.setattr(subword_text_encoder, "_LONG_TEXT", 300)
    text = long * 200
    ids = encoder.encode(text)
    assert not encoder._encoded_tokens and encoder.decode(ids) == text
    monkeypatch.setattr(subword_text_encoder, "_LONG_TEXT", 10**6)
    assert encoder.encode(text) == ids
    assert max(map(len, encoder._encoded_tokens), default=0) <= 100


def test_batch_encoder_accepts_few_and_empty_texts():
    encoder = golden.load("200")
    batch = subword_batch.BatchEncoder(encoder)
    assert encoder.encode_batch([]) == batch.encode([]).to_lists() == []
    assert encoder.encode_ragged([]).to_lists() == []
    assert batch.encode(["", ""]).to_lists() == [[], []]
    texts = ["", "so cool", "", " ", "\U0010ffff_", ""]
    expected = [encoder.encode(text) for text in texts]
    assert encoder.encode_batch(texts) == batch.encode(texts).to_lists() == expected
    assert encoder.encode_ragged(texts).to_lists() == expected


def test_incomplete_vocabulary_encodes_without_batch_encoder():
    encoder = text_encoder.SubwordTextEncoder(subtokens=["<pad>", "<EOS>", "ab", "_"])
    assert encoder.encode_batch(["ab ab"] * 1500) == [[2, 3, 2, 3]] * 1500
    with pytest.raises(ValueError, match="'0_'|is missing"):
        encoder.encode_batch(["ab 0"] * 1500)


def test_vocabulary_with_long_subtoken_encodes_without_batch_encoder(monkeypatch):
    """The batch encoder allows at most 256 bytes in a subtoken.

    With a longer subtoken, `SubwordTextEncoder` does not use the batch encoder.
    """
    monkeypatch.setattr(subword_text_encoder, "_LONG_TEXT", 300)
    long = "=" * 257
    subtokens = ["<pad>", "<EOS>", long, *sorted(ESCAPE_CHARACTERS | set("=ab"))]
    encoder = text_encoder.SubwordTextEncoder(subtokens=subtokens)
    assert encoder.encode(long * 2) == [2, 2, subtokens.index("_")]
    assert encoder.encode_batch([long] * 1500) == [[2, subtokens.index("_")]] * 1500
    with pytest.raises(ValueError, match="at most 256 bytes.*Received: '=.*257 bytes"):
        subword_batch.BatchEncoder(encoder)


def test_equal_encoders_share_a_batch_encoder():
    assert golden.load("200") == golden.load("200") != golden.load("500")
    assert subword_batch.batch_encoder_for(golden.load("200")) is subword_batch.batch_encoder_for(
        golden.load("200")
    )
    assert subword_batch.batch_encoder_for(
        golden.load("200")
    ) is not subword_batch.batch_encoder_for(golden.load("500"))


def test_many_subwords_require_tensorflow_text(monkeypatch):
    """Encoding a single text does not need tensorflow-text.

    Encoders of bytes, words and numbers never need this package.
    """
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    encoder = golden.load(golden.VOCABS[0])
    assert encoder.decode(encoder.encode("a house")) == "a house"
    assert text_encoder.ByteTextEncoder().encode_ragged(["a"] * 2000).to_lists()[0] == [99]
    with pytest.raises(UsageError, match="package tensorflow-text.*Received"):
        subword_batch.BatchEncoder(encoder)
