import os

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.text import text_encoder

NAME = "1-billion-word-language-modeling-benchmark-r13output"
SENTENCE = "The U.S. Centers for Disease Control initially advised school systems , then reversed ."


@pytest.fixture
def raw_dir(tmp_path):
    """Write a folder as T2T unpacks it. One word in its files is not in the vocabulary."""
    train = tmp_path / NAME / "training-monolingual.tokenized.shuffled"
    heldout = tmp_path / NAME / "heldout-monolingual.tokenized.shuffled"
    for folder in (train, heldout):
        folder.mkdir(parents=True)
    for i in range(1, 100):
        text = f"{SENTENCE}\nSentence two of file {i} .\n"
        (train / f"news.en-{i:05d}-of-00100").write_text(text)
    (heldout / "news.en.heldout-00000-of-00050").write_text(f"{SENTENCE}\nA Zyzzyva .\n")
    words = ["<S>", "</S>", "A", "Sentence", "two", "of", "file", *SENTENCE.split()]
    words += [str(i) for i in range(100)]
    (tmp_path / "vocab-2016-09-10.txt.en").write_text("\n".join(words))
    return tmp_path


def generate(name, raw_dir):
    problem = problems.get(name)
    problem.num_train_shards = 3
    return problem, problem.generate_data(str(raw_dir / "data"), str(raw_dir), num_processes=1)


def decoded(problem, raw_dir, split):
    encoder = problem.feature_encoders(str(raw_dir / "data"))["targets"]
    paths = tfrecords.find(raw_dir / "data", problem.filename, split)
    records = [record for path in paths for record in tfrecords.read(path)]
    return records, [encoder.decode(text_encoder.cut_at_eos(r["targets"])) for r in records]


def test_unknown_words_become_unk(raw_dir):
    problem, counts = generate("languagemodel_lm1b8k", raw_dir)
    assert counts == {"train": 198, "dev": 2}
    assert "vocab.languagemodel_lm1b8k.8192.subwords" in os.listdir(raw_dir / "data")
    assert set(decoded(problem, raw_dir, "dev")[1]) == {SENTENCE, "A UNK ."}
    assert "Sentence two of file 99 ." in decoded(problem, raw_dir, "train")[1]
    assert list(problem.feature_specs(str(raw_dir / "data"))) == ["targets"]
    assert list(problem.feature_metrics(str(raw_dir / "data"))) == ["per_word_perplexity"]


def test_changed_vocabulary_is_read_again(raw_dir):
    problem = problems.get("languagemodel_lm1b8k")
    read = lambda: [s["targets"] for s in problem.generate_samples("dev", "", str(raw_dir), 0)]  # noqa: E731
    assert read() == [SENTENCE, "A UNK ."]
    path = raw_dir / "vocab-2016-09-10.txt.en"
    path.write_text(path.read_text() + "\nZyzzyva")
    assert read() == [SENTENCE, "A Zyzzyva ."]


def test_packed_characters(raw_dir):
    problem, counts = generate("languagemodel_lm1b_characters_packed", raw_dir)
    assert problem.max_length == 1024
    records, _ = decoded(problem, raw_dir, "train")
    assert counts["train"] == len(records) < 30
    assert all(len(record["targets"]) <= 1024 for record in records)
    assert max(max(record["targets_segmentation"]) for record in records) > 10
    # T2T's files also have the feature "inputs", which ut_keras does not read.
    assert {tuple(record["inputs"]) for record in records} == {(0,)}
    assert "inputs" not in problem.record_specs(None)


def test_vocabulary_is_from_the_first_63000_sentences(raw_dir):
    problem = problems.get("languagemodel_lm1b32k_packed")
    assert problem.vocab_filename == "vocab.languagemodel_lm1b32k.32768.subwords"
    assert problem.max_samples_for_vocab == 63_000
    problem.max_samples_for_vocab = 3
    texts = list(problem.texts_for_vocab(None, str(raw_dir)))
    assert texts == [SENTENCE, "Sentence two of file 1 .", SENTENCE]
