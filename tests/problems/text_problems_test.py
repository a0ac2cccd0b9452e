import os
import pickle
import re

import pytest
import tensorflow as tf

from ut_keras import problems
from ut_keras.bin import datagen
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.problems import packed, text_problems
from ut_keras.text import text_encoder

USER_PACKAGE = """
import os

from ut_keras.problems import problem, text_problems


@problem.register("my_lower_case")
class MyLowerCase(text_problems.Text2TextProblem):
    approx_vocab_size = 2**8

    def generate_samples(self, split, data_dir, tmp_dir, seed):
        with open(os.path.join(tmp_dir, f"{split}.txt"), encoding="utf-8") as file:
            for line in file:
                yield {"inputs": line.strip().lower(), "targets": line.strip()}
"""


def test_problem_of_ten_lines_is_loaded_by_t2t_usr_dir(tmp_path, registries, capsys):
    """ut-datagen loads the problem from a package next to the data."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(USER_PACKAGE)
    (tmp_path / "train.txt").write_text("Two Dogs Play\nIn the Snow\n" * 60)
    (tmp_path / "dev.txt").write_text("In the Snow\n")
    argv = [f"--t2t_usr_dir={tmp_path}/mine", "--problem=my_lower_case"]
    assert datagen.main([*argv, f"--data_dir={tmp_path}/data", f"--tmp_dir={tmp_path}"]) == 0
    shown = capsys.readouterr().out
    assert "my_lower_case: wrote 120 train, 1 dev examples" in shown
    assert re.search(r"my_lower_case: vocabulary of \d+ subwords", shown)
    names = os.listdir(tmp_path / "data")
    assert "vocab.my_lower_case.256.subwords" in names
    assert "my_lower_case-train-00099-of-00100" in names
    encoder = text_encoder.SubwordTextEncoder(
        str(tmp_path / "data" / "vocab.my_lower_case.256.subwords")
    )
    ((dev,),) = (
        list(tfrecords.read(path))
        for path in tfrecords.find(str(tmp_path / "data"), "my_lower_case", "dev")
    )
    assert encoder.decode(dev["inputs"]) == "in the snow<EOS>"
    assert encoder.decode(dev["targets"]) == "In the Snow<EOS>"
    # A file of another problem in tmp_dir causes no note.
    (tmp_path / "other.train.en").write_text("Two dogs\n")
    # The raw text changes, but the data exist already.
    argv += [f"--data_dir={tmp_path}/data", f"--tmp_dir={tmp_path}"]
    assert datagen.main(argv) == 0
    assert "note:" not in capsys.readouterr().out
    (tmp_path / "train.txt").write_text("Three Dogs Play\n")
    assert datagen.main(argv) == 0
    [note] = [line for line in capsys.readouterr().out.splitlines() if "note:" in line]
    assert "my_lower_case-train-* were not made from the present files" in note
    assert f"remove {tmp_path}/data/my_lower_case-train-*" in note
    assert "have changed: train.txt." in note


class Words(text_problems.Text2SelfProblem):
    name = "words"
    num_train_shards = 1
    vocab_type = "tokens"
    approx_vocab_size = 2
    oov_token = "<unk>"

    def generate_samples(self, split, data_dir, tmp_dir, seed):
        for text in ("b a b", "c b a", "d"):
            yield {"targets": text}


class WordsPacked(packed.Packed, Words):
    name = "words_packed"
    vocab_name = "words"
    packed_length = 6


def test_tokens_are_the_most_frequent_words(tmp_path):
    assert Words().generate_data(str(tmp_path)) == {"train": 3, "dev": 3}
    lines = text_encoder.read_lines(str(tmp_path / "vocab.words.tokens"))
    assert lines == ["<pad>", "<EOS>", "<unk>", "b", "a"]
    rows = [record["targets"] for record in tfrecords.read(f"{tmp_path}/words-dev-00000-of-00001")]
    assert rows == [[3, 4, 3, 1], [2, 3, 4, 1], [2, 1]]


def test_packed_words_share_the_vocabulary(tmp_path):
    Words().generate_data(str(tmp_path))
    before = os.path.getmtime(tmp_path / "vocab.words.tokens")
    assert WordsPacked().generate_data(str(tmp_path))["dev"] == 2
    assert os.path.getmtime(tmp_path / "vocab.words.tokens") == before
    rows = list(tfrecords.read(f"{tmp_path}/words_packed-dev-00000-of-00001"))
    assert [row["targets"] for row in rows] == [[3, 4, 3, 1, 2, 1], [2, 3, 4, 1]]
    assert rows[0]["targets_segmentation"] == [1, 1, 1, 1, 2, 2]


class Colours(text_problems.Text2ClassProblem):
    name = "colours"
    num_train_shards = 3
    approx_vocab_size = 2**8

    def generate_samples(self, split, data_dir, tmp_dir, seed):
        for i in range(1400):
            yield {"inputs": f"{i} is\\ {i % 7}ä_", "targets": ("red", "blue")[i % 2]}


@pytest.mark.parametrize("one_by_one", [False, True])
def test_records_equal_texts_encoded_one_by_one(tmp_path, monkeypatch, one_by_one):
    problem = Colours()
    if one_by_one:  # a problem may override `encode_samples` like this
        inherited = Colours.encode_samples
        monkeypatch.setattr(Colours, "encode_samples", lambda *args: inherited(*args))
    problem.generate_data(str(tmp_path))
    encoder, labels = problem.feature_encoders(str(tmp_path)).values()
    expected = [
        tfrecords.serialize(
            {
                "targets": labels.encode(sample["targets"]),
                "inputs": [*encoder.encode(sample["inputs"]), text_encoder.EOS],
            }
        )
        for sample in problem.generate_samples("train", None, None, 0)
    ]
    paths = tfrecords.find(str(tmp_path), "colours", "train")
    found = [
        record for path in paths for record in tf.data.TFRecordDataset(path).as_numpy_iterator()
    ]
    assert sorted(found) == sorted(expected)


def test_labels_file_has_one_label_per_line(tmp_path, monkeypatch):
    """If labels are invalid, `generate_data` leaves no file with these labels."""
    samples = [{"inputs": "a", "targets": "good\n"}]
    monkeypatch.setattr(Colours, "generate_samples", lambda *_: samples)
    with pytest.raises(DataError, match="labels of colours must be .*Received: .*good"):
        Colours().generate_data(str(tmp_path))
    assert not any("labels" in name for name in os.listdir(tmp_path))


def test_max_samples_for_vocab_limits_the_vocabulary(tmp_path):
    problem = Words()
    problem.max_samples_for_vocab = 1
    assert list(problem.texts_for_vocab(None, None)) == ["b a b"]


@pytest.mark.parametrize("vocab_type", ["subwords", "tokens"])
def test_missing_vocabulary(tmp_path, vocab_type):
    problem = Words()
    problem.vocab_type = vocab_type
    with pytest.raises(DataError, match="vocabulary file"):
        problem.feature_encoders(str(tmp_path))


def test_problem_of_bytes_can_be_pickled():
    problem = pickle.loads(pickle.dumps(problems.get("cola_characters")))
    assert type(problem).__name__ == "ColaCharacters"
    assert (problem.name, problem.vocab_type) == ("cola_characters", "characters")
    assert problems.get("cola").vocab_type != "characters"


class _Shared(text_problems.Text2TextProblem):
    """A problem that calls `meanwhile` during generation. All instances share a vocabulary."""

    approx_vocab_size = 300
    num_train_shards = 1
    vocab_filename = "vocab.shared"

    def __init__(self, name, meanwhile=lambda: None):
        self.name, self.meanwhile = name, meanwhile

    def generate_samples(self, split, data_dir, tmp_dir, seed):
        for _ in range(20):
            yield {"inputs": self.name, "targets": self.name}

    def texts_for_vocab(self, data_dir, tmp_dir):
        yield from super().texts_for_vocab(data_dir, tmp_dir)
        self.meanwhile()


def test_vocabulary_of_existing_data_is_not_replaced(tmp_path):
    first = _Shared("elephants")
    second = _Shared("zucchini", lambda: first.generate_data(str(tmp_path)))
    second.generate_data(str(tmp_path))
    for problem in (first, second):
        [path] = tfrecords.find(str(tmp_path), problem.name, "train")
        ids = next(tfrecords.read(path))["targets"][:-1]
        assert problem.feature_encoders(str(tmp_path))["targets"].decode(ids) == problem.name


class RareWords(text_problems.Text2SelfProblem):
    name = "rare_words"
    num_train_shards = 1
    vocab_type = "tokens"
    approx_vocab_size = 2

    def generate_samples(self, split, data_dir, tmp_dir, seed):
        rare = "new" if split == "dev" and self.approx_vocab_size > 3 else "c"
        yield from ({"targets": text} for text in ("a b", "a b", rare))


def test_failed_run_leaves_no_vocabulary_without_all_words(tmp_path):
    """The next run with another `approx_vocab_size` or `oov_token` builds the vocabulary again."""
    made, folder = RareWords(), str(tmp_path)
    vocabulary = tmp_path / "vocab.rare_words.tokens"
    advice = r"Received: 'c'\. .*oov_token=None, approx_vocab_size=2\.$"
    with pytest.raises(DataError, match=advice):
        made.generate_data(folder)
    assert not vocabulary.exists()
    made.approx_vocab_size = 9
    # The train split is written before the dev split fails, so its vocabulary must stay.
    with pytest.raises(DataError, match=rf"remove {vocabulary} and rare_words-\*\.$"):
        made.generate_data(folder)
    assert vocabulary.exists()


def test_vocabulary_of_another_run_is_named_and_kept(tmp_path):
    made, vocabulary = RareWords(), tmp_path / "vocab.rare_words.tokens"
    made.oov_token = "<unk>"
    text_encoder.TokenTextEncoder(tokens=["a", "b"]).store_to_file(str(vocabulary))
    with pytest.raises(DataError, match=rf"oov_token='<unk>', .* remove {vocabulary}\.$"):
        made.generate_data(str(tmp_path))
    assert vocabulary.exists()
