"""Vocabulary files of T2T 1.0 and 1.1, which lack the names of the reserved tokens."""

import json
import os

import pytest
import tensorflow as tf

from ut_keras.errors import DataError
from ut_keras.text import subword_tokenizer_op, text_encoder

FOLDER = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "older_text")
with open(os.path.join(FOLDER, "encodings.json"), encoding="utf-8") as file:
    GOLDEN = json.load(file)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_older_vocabulary_gives_ids_of_its_own_version(name, tmp_path):
    path = os.path.join(FOLDER, name)
    encoder = text_encoder.SubwordTextEncoder(path)
    assert encoder.subtokens[:2] == ("", "")
    texts = list(GOLDEN[name])
    ids = list(GOLDEN[name].values())
    assert [encoder.encode(text) for text in texts] == ids
    assert encoder._batch_encoder.encode(texts).to_lists() == ids
    tokenizer = subword_tokenizer_op.SubwordTokenizer(encoder)
    assert tokenizer.encode(tf.constant(texts)).to_list() == ids
    assert list(map(encoder.decode, ids)) == texts
    encoder.store_to_file(str(tmp_path / "copy"))
    with open(path, "rb") as original:
        assert (tmp_path / "copy").read_bytes() == original.read()


def test_vocabulary_of_bytes_raises(tmp_path):
    """T2T before 1.0.9 writes every byte as a subtoken, with Python 2's escapes."""
    lines = ["", "", "the_", r"\\u", *(rf"\x{byte:02x}" for byte in (*range(32), *range(127, 256)))]
    path = tmp_path / "vocab.ende.8192"
    path.write_text("".join(f"'{line}'\n" for line in lines))
    with pytest.raises(DataError, match=r"must be text.*vocab.ende.8192.*1\.0\.9"):
        text_encoder.SubwordTextEncoder(str(path))
