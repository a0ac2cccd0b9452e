import gzip
import io
import math
import os
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.problems import lambada, last_word

DEV = "tom went home . the dog saw tom\nmary said zebra\n"
TEST = "mary saw the dog\n"
CONTROL = "the dog went home\n"
VOCAB = '<s>\t9\n</s>\t9\n.\t8\nthe\t7\ntom\t6\ndog\t5\nsaw\t4\nmary\t4\nhome\t3\n"\t2\nwent\t1\n'
CONTEXT = " ".join(["the dog saw tom"] * 13)  # the context has 52 words
NOVEL = f"{CONTEXT}\n\nmary saw tom . ''\nthe end .\n{CONTEXT}\nmary went home .\n"


def write_files(folder, novels=True):
    for name, text in (
        (lambada.DEV, DEV),
        (lambada.TEST, TEST),
        (lambada.CONTROL, CONTROL),
        (lambada.VOCAB, VOCAB),
        *([("train-novels/Fantasy/1.txt", NOVEL)] if novels else []),
    ):
        os.makedirs(os.path.dirname(folder / name), exist_ok=True)
        (folder / name).write_text(text)


def generate(name, tmp_path, tmp_dir=None):
    problem = problems.get(name)
    counts = problem.generate_data(str(tmp_path / "data"), str(tmp_dir or tmp_path))
    return problem, counts


def records(problem, tmp_path, split):
    encoders = problem.feature_encoders(tmp_path / "data")
    paths = tfrecords.find(tmp_path / "data", problem.filename, split)
    return [
        {name: encoders[name].decode(ids) for name, ids in example.items()}
        for path in paths
        for example in tfrecords.read(path)
    ]


def test_language_model_has_sentences(tmp_path):
    write_files(tmp_path)
    problem, counts = generate("lambada_lm", tmp_path)
    assert counts == {"train": 5, "dev": 2, "test": 1}
    encoder = problem.feature_encoders(tmp_path / "data")["targets"]
    # Padding, EOS and unknown words have different ids.
    assert encoder.decode(range(6)) == "<pad> <EOS> <UNK> <s> </s> ."
    assert encoder.vocab_size == 3 + 11
    assert records(problem, tmp_path, "dev") == [
        {"targets": "tom went home . the dog saw tom <EOS>"},
        {"targets": "mary <UNK> <UNK> <EOS>"},
    ]
    assert {"targets": "mary went home . <EOS>"} in records(problem, tmp_path, "train")
    assert "lambada_lm-train-00009-of-00010" in os.listdir(tmp_path / "data")
    assert "vocab.lambada_lm.tokens" in os.listdir(tmp_path / "data")


def test_reading_comprehension(tmp_path):
    write_files(tmp_path)
    problem, _ = generate("lambada_rc", tmp_path)
    assert records(problem, tmp_path, "dev") == [
        {"inputs": "tom went home . the dog saw <EOS>", "targets": "tom"},
        {"inputs": "mary <UNK> <EOS>", "targets": "<UNK>"},
    ]
    specs = problem.feature_specs(tmp_path / "data")
    assert specs["targets"].modality == "class_label"
    assert specs["targets"].vocab_size == specs["inputs"].vocab_size == 14


def test_reading_comprehension_trains_on_passages(tmp_path):
    write_files(tmp_path)
    (tmp_path / "train.txt").write_text("somebody's\n")
    problem, counts = generate("lambada_rc", tmp_path)
    # The context of "tom" contains this word, but the context of "home" does not contain "home".
    assert records(problem, tmp_path, "train") == [
        {"inputs": f"{CONTEXT} mary saw <EOS>", "targets": "tom"}
    ]


def test_reading_comprehension_uses_passages_of_chu_et_al(tmp_path):
    write_files(tmp_path, novels=False)
    write_archive(
        tmp_path / "lambada-train-valid.tar.gz", {"lambada-train-valid/train.txt": b"dog the dog\n"}
    )
    problem, counts = generate("lambada_rc", tmp_path)
    assert counts == {"train": 1, "dev": 2, "test": 1}
    assert records(problem, tmp_path, "train") == [{"inputs": "dog the <EOS>", "targets": "dog"}]


@pytest.mark.parametrize("way", ["lm", "rc"])
def test_control_is_the_dev_split(tmp_path, way):
    write_files(tmp_path)
    problem, counts = generate(f"lambada_{way}_control", tmp_path)
    assert counts["dev"] == 1
    (record,) = records(problem, tmp_path, "dev")
    found = f"{record.get('inputs', '')} {record['targets']}"
    assert found.replace("<EOS>", "").split() == CONTROL.split()


def write_archive(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_files_are_read_from_the_archive(tmp_path):
    novels = io.BytesIO()
    with tarfile.open(fileobj=novels, mode="w") as archive:
        info = tarfile.TarInfo("train-novels/Fantasy/1.txt")
        info.size = len(NOVEL)
        archive.addfile(info, io.BytesIO(NOVEL.encode()))
    texts = {
        lambada.DEV: DEV,
        lambada.TEST: TEST,
        lambada.CONTROL: CONTROL,
        lambada.VOCAB: VOCAB,
    }
    files = {name: text.encode() for name, text in texts.items()}
    write_archive(
        tmp_path / "lambada-dataset.tar.gz", {**files, "train-novels.tar": novels.getvalue()}
    )
    expected = {"train": 5, "dev": 2, "test": 1}
    assert generate("lambada_lm", tmp_path)[1] == expected
    by_hand = tmp_path / "by_hand"
    with tarfile.open(tmp_path / "lambada-dataset.tar.gz") as archive:
        archive.extractall(by_hand, filter="data")
    assert generate("lambada_lm", by_hand)[1] == expected


def test_without_novels_there_is_no_train_split(tmp_path, capsys):
    write_files(tmp_path, novels=False)
    assert generate("lambada_lm", tmp_path)[1] == {"dev": 2, "test": 1}
    assert "no train-novels" in capsys.readouterr().out


def test_missing_and_damaged_files_are_named(tmp_path):
    write_files(tmp_path)
    os.remove(tmp_path / lambada.TEST)
    with pytest.raises(DataError, match=f"tmp_dir .*{lambada.TEST}"):
        generate("lambada_lm", tmp_path)
    (tmp_path / f"{lambada.TEST}.gz").write_bytes(gzip.compress(TEST.encode())[:-9])
    with pytest.raises(DataError, match="must be a complete text"):
        generate("lambada_lm", tmp_path)


# The tests below are about metrics.

UNKNOWN = 2


def values(function, logits, targets, features=None):
    total, count = function(tf.constant(logits), tf.constant(targets), features)
    return float(total), float(count)


def test_last_word_precedes_eos():
    targets = [[5, 6, 1, 0], [7, 6, 5, 1], [6, 1, 0, 0], [3, UNKNOWN, 1, 0], [0, 0, 0, 0]]
    logits = np.zeros([5, 4, 8], np.float32)
    logits[0, 1, 6] = 9  # this prediction is right
    logits[1, 2, 6] = 9  # wrong, because the word is 5
    logits[2, 0, 6] = 9  # this prediction is right
    logits[3, 1, UNKNOWN] = 9  # an unknown word is never correct
    assert values(last_word.mean(last_word.is_right(UNKNOWN)), logits, targets) == (2, 4)
    # One logit is 9 and seven logits are 0. `high` is the loss of a target with the logit 9. A
    # target with the logit 0 has the loss 9 + high.
    high = -9 + math.log(math.exp(9) + 7)
    total, count = values(last_word.cross_entropy, logits, targets)
    assert (total, count) == (pytest.approx(3 * high + (9 + high), rel=1e-5), 4)


def test_last_word_is_the_class():
    logits = np.zeros([3, 8], np.float32)
    logits[0, 5] = logits[1, 6] = logits[2, UNKNOWN] = 9
    function = last_word.mean(last_word.is_right(UNKNOWN))
    assert values(function, logits, [[5], [5], [UNKNOWN]]) == (1, 3)


def test_last_word_accuracy_from_context_uses_words_of_inputs():
    features = {"inputs": tf.constant([[5, 6, 1, 0], [5, 6, UNKNOWN, 1], [4, 6, 1, 0]])}
    logits = np.zeros([3, 8], np.float32)
    logits[:, [7, 0, 1, UNKNOWN]] = 9  # 7 is not in the context, and the other ids are not words
    logits[0, 5] = logits[1, 6] = logits[2, 4] = 1
    function = last_word.accuracy_from_context(UNKNOWN)
    assert values(function, logits, [[5], [5], [7]], features) == (1, 3)


@pytest.mark.parametrize("name", ["lambada_lm", "lambada_rc"])
def test_feature_metrics(tmp_path, name):
    write_files(tmp_path)
    problem, _ = generate(name, tmp_path)
    metrics = problem.feature_metrics(tmp_path / "data")
    assert "last_word_accuracy" in metrics
    if name == "lambada_lm":
        assert metrics["last_word_perplexity"].finish(math.log(135)) == pytest.approx(135)
    else:
        assert "last_word_accuracy_from_context" in metrics


# The test below reads real data.


def test_real_data(shared_dir, tmp_path):
    folder = os.path.join(shared_dir, "data", "lambada")
    problem, counts = generate("lambada_lm", tmp_path, folder)
    assert counts == {"dev": 4_869, "test": 5_153}
    encoder = problem.feature_encoders(tmp_path / "data")["targets"]
    assert encoder.vocab_size == 60_003
    (path,) = tfrecords.find(tmp_path / "data", problem.filename, "test")
    found = [example["targets"] for example in tfrecords.read(path)]
    assert found[0][:3] == [21, 27, 1350]
    assert found[0][-3:] == [64, 2062, 1]
    unknown = sum(ids[-2] == UNKNOWN for ids in found)
    assert round(unknown / len(found), 3) == 0.042
