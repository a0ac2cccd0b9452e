import collections
import json
import os
import pickle

import pytest

from ut_keras.errors import DataError
from ut_keras.text import subword_text_encoder, subword_vocabulary, text_encoder, tokenizer

FOLDER = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "text")
with open(os.path.join(FOLDER, "text.json"), encoding="utf-8") as file:
    GOLDEN = json.load(file)
with open(os.path.join(FOLDER, "token_counts.json"), encoding="utf-8") as file:
    TOKEN_COUNTS = dict(json.load(file))
VOCABS = sorted(GOLDEN["vocabs"])


def corpus():
    with open(os.path.join(FOLDER, "corpus.txt"), encoding="utf-8") as file:
        return [line.strip() for line in file]


def load(vocab):
    filename = os.path.join(FOLDER, GOLDEN["vocabs"][vocab]["file"])
    return text_encoder.SubwordTextEncoder(filename)


def test_tokenizer_matches_t2t():
    for text, golden in zip(GOLDEN["strings"], GOLDEN["tokenizer"], strict=True):
        assert tokenizer.encode(text) == golden["tokens"]
        assert tokenizer.decode(golden["tokens"]) == golden["decoded"]
    counts = collections.Counter()
    for line in corpus():
        counts.update(tokenizer.encode(line))
    assert counts == TOKEN_COUNTS


@pytest.mark.parametrize("vocab", VOCABS)
def test_encode_matches_t2t(vocab):
    golden = GOLDEN["vocabs"][vocab]
    encoder = load(vocab)
    assert encoder.vocab_size == golden["vocab_size"]
    assert list(encoder.subtokens[: len(golden["first"])]) == golden["first"]
    for text, expected in zip(GOLDEN["strings"], golden["encodings"], strict=True):
        assert encoder.encode(text) == expected["ids"]
        assert [encoder.subtokens[i] for i in expected["ids"]] == expected["subtokens"]
        assert encoder.decode(expected["ids"]) == expected["decoded"]
        assert encoder.encode_without_tokenizing(text) == expected["without_tokenizing"]
    assert sum(len(encoder.encode(line)) for line in corpus()) == golden["corpus_total_subtokens"]


def test_override_of_encode_applies_to_many_texts():
    class Lower(text_encoder.SubwordTextEncoder):
        def encode(self, text):
            return super().encode(text.lower())

    plain = load(VOCABS[0])
    encoder = Lower(subtokens=plain.subtokens)
    texts = [f"The Cat {number}" for number in range(2 * subword_text_encoder._MANY_TEXTS)]
    for some in (texts[:2], texts):  # many texts are encoded as a batch
        assert encoder.encode_batch(some) == [plain.encode(text.lower()) for text in some]
    assert encoder.encode_batch(texts) != plain.encode_batch(texts)


@pytest.mark.parametrize("vocab", VOCABS)
def test_built_vocabularies_match_t2t(vocab, tmp_path):
    golden = GOLDEN["vocabs"][vocab]
    encoder = text_encoder.SubwordTextEncoder.build_to_target_size(
        golden["target_size"],
        TOKEN_COUNTS,
        golden["min_val"],
        golden["max_val"],
        **golden["kwargs"],
    )
    encoder.store_to_file(str(tmp_path / "vocab"))
    with open(os.path.join(FOLDER, golden["file"]), "rb") as file:
        assert (tmp_path / "vocab").read_bytes() == file.read()


def test_build_from_counts_and_texts_matches_t2t():
    subtokens = subword_vocabulary.VocabularyBuilder(TOKEN_COUNTS).build(5, num_iterations=2)
    assert subtokens == GOLDEN["build_from_token_counts_min5_iter2"]
    encoder = text_encoder.SubwordTextEncoder.build_from_generator(corpus(), 150)
    assert list(encoder.subtokens) == GOLDEN["build_from_generator_150"]


def test_escaping_matches_t2t():
    alphabet = set("abcxy\n\\_u;0123456789")
    for case in GOLDEN["escape"]:
        assert subword_vocabulary.escape_token(case["token"], alphabet) == case["escaped"]
        assert subword_vocabulary.unescape_token(case["escaped"]) == case["unescaped"]


def test_bytes_match_t2t():
    encoder = text_encoder.ByteTextEncoder()
    for text, expected in zip(GOLDEN["strings"], GOLDEN["bytes"], strict=True):
        assert encoder.encode(text) == expected["ids"]
        assert encoder.decode(expected["ids"]) == expected["decoded"]


@pytest.mark.parametrize(
    "text", ["a_b\\c\n", " x  y ", "日本語 κόσμος", "\\u_u\\\\u \\95;", "\U0001f600"]
)
def test_decode_inverts_encode(text):
    encoder = load("200")
    assert encoder.decode(encoder.encode(text)) == text


def test_line_break_in_vocabulary_is_read_as_in_t2t(tmp_path):
    """T2T writes a line break without an escape. Therefore, T2T reads two subtokens."""
    built = text_encoder.SubwordTextEncoder.build_from_generator(["a b\n", "b a\n"] * 3, 20)
    built.store_to_file(str(tmp_path / "vocab"))
    assert (tmp_path / "vocab").read_bytes().endswith(b"'\n'\n")
    read = text_encoder.SubwordTextEncoder(str(tmp_path / "vocab"))
    assert read.vocab_size == built.vocab_size + 1
    assert read.subtokens == (*built.subtokens[:-1], "", "")
    assert read.encode("b a\n") == built.encode("b a\n")
    assert read.decode(read.encode("b a\n")) == "b a\n"


@pytest.mark.parametrize("quote", ["'", '"'])
def test_quote_without_quotes_is_read_as_in_t2t(tmp_path, quote):
    """In a file without quotes, T2T reads a single quote as an empty subtoken."""
    lines = ["<pad>", "<EOS>", quote, "it", "_", *"\\;0123456789"]
    (tmp_path / "vocab").write_text("\n".join(lines))
    encoder = text_encoder.SubwordTextEncoder(str(tmp_path / "vocab"))
    assert encoder.subtokens == ("<pad>", "<EOS>", "", *lines[3:])
    escaped = [lines.index(character) for character in f"\\{ord(quote)};_"]
    assert encoder.encode(f"it{quote}") == [3, 4, *escaped]  # the ids of T2T's encoder
    assert encoder.decode(encoder.encode(f"it{quote}it")) == f"it{quote}it"


def test_encoder_can_be_pickled():
    encoder = pickle.loads(pickle.dumps(load("200")))
    assert encoder.encode("so cool") == load("200").encode("so cool")


def test_invalid_arguments_raise(tmp_path):
    with pytest.raises(DataError, match="vocabulary file.*absent"):
        text_encoder.SubwordTextEncoder(str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="filename=None"):
        text_encoder.SubwordTextEncoder()
    with pytest.raises(ValueError, match="min_count=3, max_count=2"):
        text_encoder.SubwordTextEncoder.build_to_target_size(9, {"a": 1}, 3, 2)


def test_list_without_reserved_subtokens_raises():
    with pytest.raises(DataError, match=r"<pad> and <EOS>.*Received: a list with \['a', 'b'\]"):
        text_encoder.SubwordTextEncoder(subtokens=["a_", "b_", *"\\_u;0123456789"])
