from ut_keras.text import text_encoder
from ut_keras.visualize import labels


def test_words_and_reserved_ids():
    encoder = text_encoder.TokenTextEncoder(tokens=["a", "b"])
    assert labels.tokens(encoder, [2, 3, 1, 0]) == ["a", "b", "<EOS>", "<pad>"]
    assert labels.tokens(None, [7, 1]) == ["7", "<EOS>"]


def test_subwords_show_where_words_end():
    encoder = text_encoder.SubwordTextEncoder(
        subtokens=["<pad>", "<EOS>", "Hund_", "Hund", "e_", *"\\_u0123456789;"]
    )
    assert labels.tokens(encoder, encoder.encode("Hund Hunde")) == ["Hund_", "Hund", "e_"]
    assert labels.tokens(encoder, [999]) == ["ID_999"]
    assert labels.text(encoder, [2, 3, 4, 1, 0]) == "Hund Hunde"


def test_bytes_that_are_no_characters():
    encoder = text_encoder.ByteTextEncoder()
    assert labels.tokens(encoder, encoder.encode("é a")) == ["0xc3", "0xa9", "<space>", "a"]


def test_what_cannot_be_printed_is_spelt_out():
    assert labels.printable("a\nb\u202e\x00<i>é") == "a\\u000ab\\u202e\\u0000<i>é"


def test_classes_have_no_reserved_ids():
    encoder = text_encoder.ClassLabelEncoder(labels=["no", "yes"])
    assert labels.class_name(encoder, 1) == "yes"
    assert labels.class_name(None, 1) == "1"
