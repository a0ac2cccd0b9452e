import pytest
import tensorflow as tf

from ut_keras.errors import DataError
from ut_keras.text import text_encoder, text_encoder_base


def test_cut_at_eos_removes_padding():
    assert text_encoder.cut_at_eos([5, 0, 6, 1, 7, 1]) == [5, 6]
    assert text_encoder.cut_at_eos([5, 6]) == [5, 6]
    assert text_encoder.cut_at_eos([1]) == []


def test_cut_at_eos_in_graph_matches_python():
    ids = [[5, 0, 6, 1, 7, 1], [5, 6, 0, 0, 0, 0], [1, 3, 3, 3, 3, 3]]
    cut = text_encoder_base.cut_at_eos_in_graph(tf.constant(ids)).to_list()
    assert cut == [text_encoder_base.cut_at_eos(row) for row in ids]


def test_missing_vocabulary_names_the_vocabularies_of_the_folder(tmp_path):
    missing = tmp_path / "vocab.dates.256.subwords"
    with pytest.raises(DataError, match=r"which is not a file\. Generate the data"):
        text_encoder_base.read_lines(str(missing))
    (tmp_path / "vocab.dates.256").touch()
    with pytest.raises(DataError, match=r"folder has vocab\.dates\.256\. If .* copy this file"):
        text_encoder_base.read_lines(str(missing))


def test_missing_vocabulary_names_files_of_older_versions(tmp_path):
    (tmp_path / "sentiment_imdb.vocab.8192").touch()
    (tmp_path / "vocab_backup").mkdir()
    with pytest.raises(DataError, match=r"folder has sentiment_imdb\.vocab\.8192\. If"):
        text_encoder_base.read_lines(str(tmp_path / "vocab.sentiment_imdb.8192.subwords"))
