import threading

import pytest
import tensorflow as tf

from ut_keras.errors import DataError
from ut_keras.files import path_lock
from ut_keras.text import text_encoder


def test_integer_encoder_checks_range():
    encoder = text_encoder.IntegerTextEncoder(12)
    assert encoder.encode("0 4 9") == [2, 6, 11]
    assert encoder.decode([2, 6, 11]) == "0 4 9"
    assert encoder.decode([0, 2, 6, 1, 11, 0]) == "0 4"
    for wrong in ("10", "-1", "x", "1.5"):
        with pytest.raises(DataError, match=rf"Numbers must be in \[0, 10\), .* '{wrong}'"):
            encoder.encode(f"3 {wrong}")


def test_token_encoder_stores_reserved_tokens(tmp_path):
    encoder = text_encoder.TokenTextEncoder(tokens=["the", "<EOS>", "cat"])
    assert encoder.encode(" the  cat ") == [2, 3]
    assert encoder.vocab_size == 4
    path = str(tmp_path / "vocab.p.tokens")
    encoder.store_to_file(path)
    assert (tmp_path / "vocab.p.tokens").read_text() == "<pad>\n<EOS>\nthe\ncat\n"
    loaded = text_encoder.TokenTextEncoder(path)
    assert loaded.encode("cat the") == [3, 2]
    assert loaded.decode([3, 2, 1, 99]) == "cat the <EOS> ID_99"


def test_token_encoder_rejects_or_replaces_unknown_tokens():
    encoder = text_encoder.TokenTextEncoder(tokens=["<UNK>", "cat"], replace_oov="<UNK>")
    assert encoder.encode("cat dog") == [3, 2]
    with pytest.raises(DataError, match="'dog'"):
        text_encoder.TokenTextEncoder(tokens=["cat"]).encode("cat dog")


def test_class_label_encoder(tmp_path):
    (tmp_path / "labels").write_text("VBZ\nVBP\n")
    for encoder in (
        text_encoder.ClassLabelEncoder(["VBZ", "VBP"]),
        text_encoder.ClassLabelEncoder(filename=str(tmp_path / "labels")),
    ):
        assert encoder.vocab_size == 2
        assert encoder.encode("VBP") == [1]
        assert encoder.decode([0]) == "VBZ"
        with pytest.raises(DataError, match="'NN'"):
            encoder.encode("NN")


@pytest.mark.parametrize("name", ["TokenTextEncoder", "ClassLabelEncoder", "SubwordTextEncoder"])
def test_missing_vocabulary_file_raises(name, tmp_path):
    with pytest.raises(DataError, match="vocabulary file.*absent.*--generate_data"):
        getattr(text_encoder, name)(filename=str(tmp_path / "absent"))


def test_byte_encoder():
    encoder = text_encoder.ByteTextEncoder()
    assert encoder.encode("a\u00e9") == [99, 197, 171]
    assert encoder.decode([99, 197, 171, 1]) == "a\u00e9<EOS>"
    assert encoder.vocab_size == 258


def test_store_new_waits_for_vocabulary_of_other_process(tmp_path):
    path = str(tmp_path / "vocab.p.tokens")
    words = text_encoder.TokenTextEncoder(tokens=["cat"])
    waiting = threading.Thread(target=text_encoder.store_new, args=(words, path))
    with path_lock.held(path, "Data must be generated"):
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        text_encoder.TokenTextEncoder(tokens=["dog"]).store_to_file(path)
    waiting.join()
    assert text_encoder.TokenTextEncoder(path).encode("dog") == [2]


def test_carriage_returns_in_a_line_are_removed_as_in_t2t(tmp_path):
    (tmp_path / "entries").write_bytes(b"<pad>\r\n<EOS>\r\none\rtwo\r\n")
    filename = str(tmp_path / "entries")
    token_encoder = text_encoder.TokenTextEncoder(filename=filename)
    label_encoder = text_encoder.ClassLabelEncoder(filename=filename)
    lines = tuple(line.decode() for line in tf.data.TextLineDataset(filename).as_numpy_iterator())
    assert token_encoder.entries == label_encoder.entries == lines
    assert token_encoder.encode("onetwo") == [2]
