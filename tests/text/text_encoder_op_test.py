import random

import pytest
import tensorflow as tf

from tests.text import subword_text_encoder_test as golden
from ut_keras.text import text_encoder, text_encoder_op

TOKENS = ["where", "is", "Mary", "?", "éß", "日本", "\u200d", "is"]
ENCODERS = {
    "bytes": text_encoder.ByteTextEncoder(),
    "tokens": text_encoder.TokenTextEncoder(tokens=[*TOKENS, "<UNK>"], replace_oov="<UNK>"),
    "tokens_only": text_encoder.TokenTextEncoder(tokens=TOKENS),
    "integers": text_encoder.IntegerTextEncoder(12),
    "labels": text_encoder.ClassLabelEncoder(labels=["VBZ", "VBP", "not one"]),
    "subwords": golden.load(golden.VOCABS[0]),
}
WORDS = [
    *TOKENS,
    "<UNK>",
    "<pad>",
    "<EOS>",
    "other",
    "_",
    "\\",
    "\0",
    "\x1b",
    "\U0001f600",
    "0",
    "9",
]
# Python's `int`, `split`, `strip`, `lower` and `isdigit` accept these characters or treat them as
# equal to other characters. A TensorFlow graph might not do this.
HOSTILE = [
    *("1_0", "\u0663", "\uff10\uff13", "\u00b2", "\u2460", "\U0001d7db", "3\u0663", "\u0969"),
    *(
        "+",
        "-",
        "--1",
        "+-1",
        "- 1",
        "-0",
        "+0",
        "1e0",
        "0x1",
        "0b1",
        "1.",
        "1,0",
        "1\u200d",
        "\ufeff1",
    ),
    *(
        "0" * 5000 + "5",
        "1" * 5000,
        "000000000009",
        "0000000000",
        "4294967298",
        "18446744073709551618",
    ),
    *(
        "\u200b1\u200b2",
        "1\u180e2",
        "1\x1f2",
        "1\x852",
        "1\u00002",
        "\u00001",
        "1\u2060",
        "1\u20082",
    ),
    *(
        "VBP ",
        " VBP",
        "vbp",
        "VBP\u200b",
        "Mary\u0301",
        "MARY",
        "\u0130s",
        "e\u0301\u00df",
        "\u00c9SS",
    ),
    *(
        "\u212a",
        "\ufb01",
        "\ufffe",
        "\U0010ffff",
        "\ue000",
        "\u0378",
        "\u202eis",
        "is\r",
        "is\r\nis\r",
    ),
    *(
        "\\65;",
        "\\\u0663;",
        "\\u",
        "\\\\u;",
        "\\;",
        "\\0;",
        "\\1114112;",
        "_u_",
        "a\u0663\u00b2b \u2167",
    ),
]
SPACES = [" ", "  ", "\n", "\t", "\x0b", "\x1c", "\x85", "\xa0", "\u2003", "\u2028", "\u3000"]


def _texts(count):
    rng = random.Random(1)
    for _ in range(count):
        parts = rng.choices(WORDS, k=rng.randrange(6))
        yield "".join(part + rng.choice(SPACES) for part in parts)


def _encode(encoder, text):
    """Return the ids of the Python encoder. Words that the encoder rejects are skipped."""
    try:
        return encoder.encode(text)
    except text_encoder.DataError:
        if isinstance(encoder, text_encoder.ClassLabelEncoder):
            return []
        return [i for word in text.split() for i in _encode_word(encoder, word)]


def _encode_word(encoder, word):
    try:
        return encoder.encode(word)
    except ValueError:
        return []


@pytest.fixture(params=sorted(ENCODERS))
def encoder(request):
    return ENCODERS[request.param]


def test_encode_matches_encoder(encoder):
    op = text_encoder_op.make(encoder)
    texts = ["VBP", "not one", "0 9 10 -1 +3 007 99999999999 4.5", "", *_texts(200), *HOSTILE]
    ids = tf.function(op.encode)(tf.constant(texts))
    assert ids.dtype == tf.int32
    assert ids.to_list() == [
        [i for word in text.split() for i in _encode_word(encoder, word)]
        if isinstance(encoder, text_encoder.IntegerTextEncoder)
        else _encode(encoder, text)
        for text in texts
    ]


def test_decode_matches_encoder(encoder):
    op = text_encoder_op.make(encoder)
    rng = random.Random(2)
    lowest = 0 if isinstance(encoder, text_encoder.ClassLabelEncoder) else 2
    rows = [
        [rng.randrange(lowest, encoder.vocab_size) for _ in range(rng.randrange(8))]
        for _ in range(100)
    ]
    decoded = tf.function(op.decode)(tf.ragged.constant(rows, tf.int32, ragged_rank=1))
    expected = [encoder.decode(row).encode("utf-8", "replace") for row in rows]
    assert decoded.numpy().tolist() == expected


@pytest.mark.parametrize(
    "word", ["1_0", "\u0663", "\uff10\uff13", "\u00b2", "1" * 5000, "--1", "+", "-1", "10", "1.0"]
)
def test_integers_in_other_scripts_are_rejected(word):
    with pytest.raises(text_encoder.DataError, match="Received: '"):
        ENCODERS["integers"].encode(f"1 {word}")
    graph = text_encoder_op.make(ENCODERS["integers"])
    assert graph.encode(tf.constant([f"1 {word}"])).to_list() == [[3]]


def test_integers_may_have_a_sign_and_zeros():
    assert ENCODERS["integers"].encode("+5 -0 007 " + "0" * 5000 + "5") == [7, 2, 9, 7]


# These pieces contain digits of other scripts, escapes and invalid code points.
PIECES = [
    *("\\", "u", ";", "_", "\u0663", "\u00b2", "65", "1114112", "9" * 30, "0" * 200, "\\\u0663;"),
    *("\\0", "\\12", "\r", "\x85", "\u2028", "\x1c", " ", "a", "a_", " _", "\u0301", "\U0001f600"),
]


def test_decode_matches_encoder_on_unusual_subwords():
    reserved = [f"{name}_" for name in text_encoder.RESERVED_TOKENS]
    characters = list("0123456789<>EOSdp")
    encoder = text_encoder.SubwordTextEncoder(subtokens=[*reserved, *PIECES, *characters])
    rng = random.Random(4)
    rows = [rng.choices(range(2, encoder.vocab_size), k=rng.randrange(9)) for _ in range(2000)]
    op = text_encoder_op.make(encoder)
    decoded = op.decode(tf.ragged.constant(rows, tf.int32, ragged_rank=1)).numpy().tolist()
    texts = [encoder.decode(row) for row in rows]
    assert [text.decode() for text in decoded] == texts
    assert op.encode(tf.constant(HOSTILE)).to_list() == [encoder.encode(text) for text in HOSTILE]


def test_invalid_utf8_is_read_as_in_python(encoder):
    rng = random.Random(3)
    lead = [0x61, 0x20, 0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xF0, 0xF4, 0xFF, 0xA0, 0x90, 0x82]
    broken = [bytes(rng.choices(lead, k=rng.randrange(9))) for _ in range(300)]
    op = text_encoder_op.make(encoder)
    texts = [text.decode("utf-8", "replace").encode() for text in broken]
    assert op.encode(tf.constant(broken)).to_list() == op.encode(tf.constant(texts)).to_list()


def test_op_accepts_no_texts_and_empty_texts(encoder):
    op = text_encoder_op.make(encoder)
    assert op.encode(tf.constant([], tf.string)).to_list() == []
    assert op.encode(tf.constant(["", ""])).to_list() == [[], []]
    nothing = tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int32), [0, 0])
    assert op.decode(nothing).numpy().tolist() == [b"", b""]


def test_decode_names_unknown_ids():
    op = text_encoder_op.make(ENCODERS["tokens"])
    ids = [[2, 99, -4]]
    assert op.decode(tf.ragged.constant(ids)).numpy()[0].decode() == ENCODERS["tokens"].decode(
        ids[0]
    )


def test_make_rejects_other_encoders():
    with pytest.raises(ValueError, match=r"one of SubwordTextEncoder, .* Received: TextEncoder\."):
        text_encoder_op.make(text_encoder.TextEncoder())


@pytest.mark.parametrize("name", ["encode", "decode"])
def test_encoder_with_own_encode_or_decode_raises(name):
    """The graph would ignore the override."""
    cls = type("Own", (text_encoder.ByteTextEncoder,), {name: lambda self, value: value})
    with pytest.raises(ValueError, match="must not override encode or decode. Received: Own"):
        text_encoder_op.make(cls())
