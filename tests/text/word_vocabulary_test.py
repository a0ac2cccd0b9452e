import types

import pytest

from ut_keras.bin import decoder
from ut_keras.text import text_encoder, word_vocabulary

ENCODER = text_encoder.TokenTextEncoder(
    tokens=["<UNK>", "the", "cat", "[UNK]"], replace_oov="<UNK>"
)


@pytest.mark.parametrize("lines, share", [(["a b the", "c d"], "80%"), (["a the", "cat b"], "")])
def test_decoder_reports_share_of_unknown_words(capsys, lines, share):
    setup = types.SimpleNamespace(source="lines.txt", encoders={"inputs": ENCODER})
    decoder._print_unknown_words(setup, lines)
    out = capsys.readouterr().out
    assert (share in out and "lines.txt" in out) if share else out == ""


def test_decoder_prints_nothing_for_other_encoders(capsys):
    strict = text_encoder.TokenTextEncoder(tokens=["the"])
    for encoder in (strict, text_encoder.ByteTextEncoder()):
        setup = types.SimpleNamespace(source="lines.txt", encoders={"targets": encoder})
        decoder._print_unknown_words(setup, ["a b"])
    assert capsys.readouterr().out == ""


def test_vocabulary_warnings_name_unused_markers():
    [note] = word_vocabulary.vocabulary_warnings(ENCODER, "words.txt", ["the cat"])
    assert "words.txt" in note and "[UNK]" in note and "<UNK>" in note
    assert word_vocabulary.vocabulary_warnings(ENCODER, "words.txt", ["the [UNK]"]) == []
    assert word_vocabulary.vocabulary_warnings(ENCODER, "words.txt", [])[0] == note
