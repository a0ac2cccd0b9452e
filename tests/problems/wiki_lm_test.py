import gzip

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.text import text_encoder


def _lines(word, number):
    return "".join(f"{word} {i} of a line, padded {'x' * 80}\n" for i in range(number))


def _texts(problem, data_dir, split):
    encoder = problem.feature_encoders(data_dir)["targets"]
    paths = tfrecords.find(data_dir, problem.filename, split)
    records = [record for path in paths for record in tfrecords.read(path)]
    return [encoder.decode(text_encoder.cut_at_eos(record["targets"])) for record in records]


def test_lines_are_joined_as_in_t2t(tmp_path, capsys):
    """Examples stay below the limit. The problem drops a longer line and the remaining text."""
    for part in ("train", "eval", "test"):
        with gzip.open(tmp_path / f"enwiki_{part}.txt.gz", "wt") as file:
            file.write(_lines(part, 100))
    (tmp_path / "enwiki_eval.txt").write_text(_lines("eval", 40) + "y" * 5000 + "\nshort\nrest\n")
    problem = problems.get("languagemodel_en_wiki32k")
    problem.num_train_shards = 1
    data_dir = str(tmp_path / "data")
    counts = problem.generate_data(data_dir, str(tmp_path), num_processes=1)
    assert counts == {"train": 2, "dev": 2, "test": 2}
    texts = sorted(_texts(problem, data_dir, "dev"), key=len, reverse=True)
    assert 3900 < len(texts[0]) < 4096 and texts[0].startswith("eval 0 of a line, padded x")
    assert "eval 39 of a line" in texts[1] and "y" not in texts[1]
    assert "skipped: 3 at the end of a file, 1 too short or too long" in capsys.readouterr().out


def test_shorter_examples_share_the_vocabulary_of_the_longer_examples(tmp_path):
    text = _lines("train", 100) + "z" * 3500 + "\n" + _lines("train", 10)
    (tmp_path / "enwiki_train.txt").write_text(text)
    longer = problems.get("languagemodel_en_wiki64k")
    shorter = problems.get("languagemodel_en_wiki64k_shorter")
    assert shorter.vocab_filename == longer.vocab_filename
    assert shorter.max_samples_for_vocab == longer.max_samples_for_vocab
    where = ("", str(tmp_path))
    texts = list(longer.texts_for_vocab(*where))
    assert texts == list(shorter.texts_for_vocab(*where)) and "z" in texts[-1]
    of_shorter = [sample["targets"] for sample in shorter.generate_samples("train", *where, 0)]
    assert of_shorter and all(len(text) < 384 * 8 for text in of_shorter)


def test_several_languages_alternate(tmp_path):
    for language, number in (("de", 50), ("fr", 100), ("en", 150), ("ro", 50)):
        (tmp_path / f"{language}wiki_eval.txt").write_text(_lines(language, number))
    problem = problems.get("languagemodel_de_en_fr_ro_wiki64k")
    samples = problem.generate_samples("dev", str(tmp_path), str(tmp_path), 0)
    assert [text["targets"][:2] for text in samples] == ["de", "fr", "en", "ro", "fr", "en", "en"]
    with pytest.raises(DataError, match="enwiki_train.txt.gz must be in tmp_dir"):
        next(
            problems.get("languagemodel_en_wiki32k").generate_samples("train", "", str(tmp_path), 0)
        )
