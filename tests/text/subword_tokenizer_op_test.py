import random
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.text import subword_text_encoder_test as golden
from ut_keras.text import subword_tokenizer_op, subword_vocabulary, text_encoder

_PIECES = [*" _\\;u0159aBz.,'-\n\t", "  ", "\\u", "\\95;", "日本", "é", "ß", "\u3013", "\u00a0"]
_PIECES += ["\U0001f600", "\u0301", "Ⅷ", "²", "\u200d", "\ufeff", "<pad>", "<EOS>", "the", " so "]


def hostile_texts(count, seed=1):
    """Return random strings of characters that need special care. Some strings are empty."""
    rng = random.Random(seed)
    return ["".join(rng.choices(_PIECES, k=rng.randrange(12))) for _ in range(count)]


@pytest.fixture(scope="module", params=golden.VOCABS)
def vocab(request):
    return request.param


@pytest.fixture(scope="module")
def encoder(vocab):
    return golden.load(vocab)


@pytest.fixture(scope="module")
def tokenizer(encoder):
    return subword_tokenizer_op.SubwordTokenizer(encoder)


def test_tokenizer_op_matches_t2t(vocab, tokenizer):
    expected = golden.GOLDEN["vocabs"][vocab]["encodings"]
    ids = tokenizer.encode(tf.constant(golden.GOLDEN["strings"]))
    assert ids.dtype == tf.int32
    assert ids.to_list() == [entry["ids"] for entry in expected]
    decoded = [text.decode() for text in tokenizer.decode(ids).numpy()]
    assert decoded == [entry["decoded"] for entry in expected]


def test_encode_matches_encoder_on_random_texts(encoder, tokenizer):
    texts = hostile_texts(400)
    ids = tf.function(tokenizer.encode)(tf.constant(texts))
    assert ids.to_list() == [encoder.encode(text) for text in texts]
    decoded = tf.function(tokenizer.decode)(ids).numpy()
    assert [text.decode() for text in decoded] == texts


def test_decode_matches_encoder_on_random_ids(encoder, tokenizer):
    rng = random.Random(2)
    rows = [
        [rng.randrange(-1, encoder.vocab_size + 1) for _ in range(rng.randrange(30))]
        for _ in range(200)
    ]
    decoded = tokenizer.decode(tf.ragged.constant(rows, tf.int32)).numpy()
    # Code points that are not characters, such as surrogates, have no UTF-8 encoding.
    expected = [encoder.decode(row).encode("utf-8", "replace") for row in rows]
    assert decoded.tolist() == expected


def test_decode_matches_encoder_on_unusual_escapes(encoder, tokenizer):
    ids = {subtoken: i for i, subtoken in enumerate(encoder.subtokens)}
    escaped = ["\\065;_", "\\0000000000065;_", "\\1114112;_", "\\99999999999;_", "\\\\u;_"]
    rows = [[ids[character] for character in text] for text in escaped]
    decoded = tokenizer.decode(tf.ragged.constant(rows, tf.int32)).numpy()
    assert [text.decode() for text in decoded] == [encoder.decode(row) for row in rows]


def test_tokenizer_op_accepts_no_texts_and_empty_texts(tokenizer):
    assert tokenizer.encode(tf.constant([], tf.string)).to_list() == []
    assert tokenizer.encode(tf.constant(["", ""])).to_list() == [[], []]
    assert tokenizer.decode(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [b"", b""]


@pytest.mark.slow
def test_saved_model_runs_without_ut_keras(tokenizer, encoder, tmp_path):
    module = tf.Module()
    module.tokenizer = tokenizer
    module.serve = tf.function(
        lambda texts: {"decoded": tokenizer.decode(tokenizer.encode(texts))},
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    program = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        f"serve = tf.saved_model.load({str(tmp_path)!r}).signatures['serving_default']\n"
        "decoded = serve(texts=tf.constant(['so_ cool', 'a \\\\ b']))['decoded'].numpy()\n"
        "assert decoded.tolist() == [b'so_ cool', b'a \\\\ b'], decoded\n"
        "assert not any(name.startswith('ut_keras') for name in sys.modules)\n"
    )
    # The program runs outside the checkout, so that it cannot import ut_keras by accident.
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)


def test_incomplete_vocabulary_raises():
    encoder = text_encoder.SubwordTextEncoder(subtokens=["<pad>", "<EOS>", "ab", "_"])
    with pytest.raises(ValueError, match=r"every character of its alphabet.*without \['/?0'"):
        subword_tokenizer_op.SubwordTokenizer(encoder)


def test_vocabulary_with_character_0_raises():
    subtokens = ["<pad>", "<EOS>", "\0", *sorted(subword_vocabulary.ESCAPE_CHARACTERS)]
    subtokens += [c for c in "<pad>EOS" if c not in subtokens]
    encoder = text_encoder.SubwordTextEncoder(subtokens=list(dict.fromkeys(subtokens)))
    with pytest.raises(ValueError, match=r"Received: .* subtokens with the character 0\.$"):
        subword_tokenizer_op.SubwordTokenizer(encoder)
