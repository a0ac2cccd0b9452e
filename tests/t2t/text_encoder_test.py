import numpy as np
import pytest

from ut_keras.errors import DataError
from ut_keras.t2t import text_encoder
from ut_keras.text import text_encoder_op


def test_reserved_tokens_must_begin_with_t2ts():
    """As in T2T, reserved tokens are escaped, and the alphabet has their characters."""
    texts = ["a SEP b", "b SEP c a_b"] * 3
    reserved = [*text_encoder.RESERVED_TOKENS, "SEP", "<Q>", "a_b"]
    encoder = text_encoder.SubwordTextEncoder.build_from_generator(
        texts, 30, reserved_tokens=reserved
    )
    rest = list("_baSuc\\pdQPOE><;9876543210")
    assert list(encoder.subtokens) == ["<pad>_", "<EOS>_", "SEP_", "<Q>_", "a\\ub_", *rest]
    assert encoder.encode("c SEP a") == [10, 5, 2, 7, 5]
    assert encoder.encode("<Q> SEP") == [19, 5, 14, 5, 18, 11, 27, 28, 20, 5, 2]
    assert encoder.decode([2, 3, 4]) == "SEP<Q>a_b"
    with pytest.raises(ValueError, match=r"reserved_tokens must begin with .*Received: \['SEP'\]"):
        text_encoder.SubwordTextEncoder.build_from_generator(texts, 30, reserved_tokens=["SEP"])


@pytest.mark.parametrize("word", ["1_0", "\u0663", "\uff10\uff13", "1" * 5000, "one"])
def test_text_encoder_accepts_ascii_digits_only(word):
    encoder = text_encoder.TextEncoder()
    assert encoder.encode("3 -1 +4 007") == [5, 1, 6, 9]
    with pytest.raises(DataError, match="Received: '"):
        encoder.encode(f"3 {word}")


def test_class_label_encoder_returns_int():
    encoder = text_encoder.ClassLabelEncoder(["neg", "pos"])
    assert encoder.encode("pos") == 1
    for ids in (1, [1], np.array([[1]])):
        assert encoder.decode(ids) == encoder.decode(ids, strip_extraneous=True) == "pos"
    assert text_encoder.to_built_in(encoder).encode("pos") == [1]


def test_to_unicode_handles_invalid_bytes():
    assert text_encoder.to_unicode_ignore_errors(b"a\xff") == "a"
    assert text_encoder.to_unicode(b"a\xff", ignore_errors=True) == "a"
    with pytest.raises(UnicodeDecodeError):
        text_encoder.to_unicode(b"a\xff")


def test_package_encoder_decodes_to_text():
    class Characters:
        vocab_size = 9

        def encode(self, text):
            return [int(c) for c in text]

        def decode(self, ids):
            return [str(i) for i in ids]

    assert text_encoder.to_built_in(Characters()).decode([3, 4]) == "3 4"


def test_text_encoder_without_reserved_ids():
    encoder = text_encoder.to_built_in(text_encoder.TextEncoder(num_reserved_ids=0), 9)
    assert (encoder.encode("3 4"), encoder.decode([3, 4]), encoder.vocab_size) == ([3, 4], "3 4", 9)
    assert text_encoder.to_built_in(text_encoder.TextEncoder(), 9).encode("3") == [5]


def test_export_of_package_encoder_names_its_class():
    class MyCharacters(text_encoder.TextEncoder):
        vocab_size = 300

    with pytest.raises(ValueError, match="Received: MyCharacters"):
        text_encoder_op.make(text_encoder.to_built_in(MyCharacters()))


_WORDS = ["<pad>", "<EOS>", "one", "two"]


@pytest.mark.parametrize(
    ("base", "name", "caller"),
    [
        (text_encoder.TokenTextEncoder, "_init_vocab_from_list", "__init__"),
        (text_encoder.TokenTextEncoder, "decode_list", "decode"),
        (text_encoder.SubwordTextEncoder, "_tokens_to_subtoken_ids", "encode"),
        (
            text_encoder.SubwordTextEncoder,
            "decode_list",
            "",
        ),  # in T2T, too, decode does not call it
    ],
)
def test_override_of_t2ts_internal_method_raises(base, name, caller):
    """An encoder may override such a method if it also overrides the method that calls it."""

    def init(self):
        base.__bases__[1].__init__(self, **{keyword: [*_WORDS, *"\\_u;0123456789wneto"]})

    keyword = "tokens" if base is text_encoder.TokenTextEncoder else "subtokens"
    methods = {name: lambda self, *values: values, "__module__": "mine"}
    if caller != "__init__":
        methods["__init__"] = init
    cls = type("Own", (base,), methods)
    encoder = cls(None, vocab_list=_WORDS[2:]) if caller == "__init__" else cls()
    if caller:
        with pytest.raises(DataError, match=f"Own must override {caller} and not {name}"):
            text_encoder.to_built_in(encoder)
        setattr(cls, caller, getattr(cls, caller))  # now this class overrides the caller, too
    assert text_encoder.to_built_in(encoder) is encoder
