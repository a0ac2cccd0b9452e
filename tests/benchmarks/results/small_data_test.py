"""Tests of the problems that use a small part of a paper's data."""

import math

import numpy as np
import pytest
import tensorflow as tf

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.problems import agreement_files, lambada

pytestmark = pytest.mark.usefixtures("small_data")


def _generate(name, tmp_path):
    problem = problems.get(name)
    counts = problem.generate_data(str(tmp_path / "data"), str(tmp_path))
    records = {
        split: [
            record
            for path in tfrecords.find(tmp_path / "data", problem.filename, split)
            for record in tfrecords.read(path)
        ]
        for split in counts
    }
    return problem, records


def test_small_agreement_holds_out_sentences_of_the_test_split(tmp_path, monkeypatch):
    unchecked = {
        name: file._replace(sha256=None) for name, file in agreement_files.OTHER_FILES.items()
    }
    monkeypatch.setattr(agreement_files, "OTHER_FILES", unchecked)
    (tmp_path / "subj_agr_filtered.text").write_text(
        "The keys of a boat are old <eos>\nthe walruses sing <eos>\n"
    )
    (tmp_path / "subj_agr_filtered.gold").write_text("5\tare\tis\t1\n2\tsing\tsings\t0\n")
    own = [f"the NNS of NN {n} are CD\t1\t5\tVBP\tare\tis" for n in "abcdefghij"]
    same = "the NNS of a NN are old\t1\t5\tVBP\tare\tis"
    (tmp_path / "wiki-dev.txt").write_text("\n".join(["head", same, *own]) + "\n")
    (tmp_path / "wiki-test.txt").write_text("head\nthe NNS sing\t1\t2\tVBP\tsing\tsings\n")

    problem, records = _generate("small_sva_language_modeling", tmp_path)
    encoder = problem.feature_encoders(tmp_path / "data")["targets"]
    texts = {
        split: [encoder.decode(record["targets"]) for record in found]
        for split, found in records.items()
    }
    assert texts["dev"] == ["the NNS of NN a are <EOS>"]
    assert sorted(texts["train"]) == [f"the NNS of NN {n} are <EOS>" for n in "bcdefghij"]
    # The rare word "keys" is replaced by a part of speech. "sing" is not in the vocabulary.
    tested = [
        (text, encoder.decode(record["wrong_verb"]), record["attractors"])
        for text, record in zip(texts["test"], records["test"], strict=True)
    ]
    assert tested[0] == ("the NNS of a NN are <EOS>", "is", [1])
    assert "sing" not in encoder.decode(range(encoder.vocab_size)).split()


@pytest.fixture
def lambada_files(tmp_path):
    dev = "".join(f"tom saw {name}\n" for name in "abcdefghij")
    (tmp_path / lambada.DEV).write_text(dev)
    skipped = "saw\n" * 4  # every fifth passage is in the test split
    (tmp_path / lambada.TEST).write_text(f"tom saw tom\n{skipped}tom saw zebra\n")
    (tmp_path / lambada.CONTROL).write_text("saw tom saw\n")
    words = ["tom", "saw", *"abcdefghij"]
    (tmp_path / lambada.VOCAB).write_text("".join(f"{word}\t1\n" for word in words))
    return tmp_path


def test_small_lambada_trains_on_nine_tenths_of_development(lambada_files):
    problem, records = _generate("small_lambada_lm", lambada_files)
    encoder = problem.feature_encoders(lambada_files / "data")["targets"]
    texts = {
        split: [(encoder.decode(record["targets"]), record["set"]) for record in found]
        for split, found in records.items()
    }
    assert sorted(texts["train"]) == [(f"tom saw {name} <EOS>", [0]) for name in "abcdefghi"]
    assert texts["dev"] == [("tom saw j <EOS>", [0])]
    assert texts["test"] == [
        ("tom saw tom <EOS>", [0]),
        ("tom saw <UNK> <EOS>", [0]),
        ("saw tom saw <EOS>", [1]),
    ]


def test_small_lambada_metrics_count_one_set(lambada_files):
    problem, records = _generate("small_lambada_lm", lambada_files)
    targets = tf.constant([record["targets"] for record in records["test"]])
    features = {
        "targets": targets,
        "set": tf.constant([record["set"] for record in records["test"]]),
    }
    size = problem.feature_specs(lambada_files / "data")["targets"].vocab_size
    logits = np.zeros([3, 4, size], np.float32)
    logits[0, 2, targets[0, 2]] = 99  # the last word of the first test passage is right
    logits[2, 2, targets[2, 1]] = 99  # the last word of the control passage is wrong
    metrics = problem.feature_metrics(lambada_files / "data")

    def value(name):
        total, count = metrics[name].function(tf.constant(logits), targets, features)
        return float(total), float(count)

    assert value("last_word_accuracy/test") == (1, 2)
    assert value("last_word_accuracy/control") == (0, 1)
    assert value("last_word_accuracy") == (1, 3)
    assert value("last_word_perplexity/test") == (pytest.approx(math.log(size)), 2)
    assert value("last_word_perplexity/control") == (pytest.approx(99), 1)


def test_small_reading_comprehension_has_both_sets(lambada_files):
    problem, records = _generate("small_lambada_rc", lambada_files)
    assert [record["set"] for record in records["test"]] == [[0], [0], [1]]
    targets = tf.constant([record["targets"] for record in records["test"]])
    inputs = tf.constant([record["inputs"] for record in records["test"]])
    features = {"inputs": inputs, "set": tf.constant([[0], [0], [1]])}
    logits = tf.one_hot(
        targets[:, 0], problem.feature_specs(lambada_files / "data")["targets"].vocab_size
    )
    metrics = problem.feature_metrics(lambada_files / "data")
    found = {
        name: tuple(float(x) for x in metric.function(logits, targets, features))
        for name, metric in metrics.items()
    }
    assert found["last_word_accuracy/test"] == (1, 2)  # the second word is not in the vocabulary
    assert found["last_word_accuracy/control"] == (1, 1)
    assert found["last_word_accuracy_from_context/test"][1] == 2
