import collections
import gzip
import os
import random
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.problems import agreement_table
from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.data.writing import generation_plan
from ut_keras.errors import DataError
from ut_keras.problems import agreement_files

TABLE = "agr_50_mostcommon_10K.tsv.gz"
HPARAMS = types.SimpleNamespace(batch_size=2048, max_length=256)
# The first word of each row identifies the row.
ROWS = [
    (f"w{i} the keys to the cabinet {verb} here", 6, tag, nouns, attractors)
    for i, (verb, tag, nouns, attractors) in enumerate(
        [("are", "VBP", 1, 1), ("is", "VBZ", 1, 0), ("keep", "VBP", 2, 1), ("keeps", "VBZ", 0, 0)]
        * 50
    )
]


def generate(name, tmp_path, tmp_dir=None):
    problem = problems.get(name)
    counts = problem.generate_data(str(tmp_path / "data"), str(tmp_dir or tmp_path))
    return problem, counts


def records(problem, tmp_path, split):
    paths = tfrecords.find(tmp_path / "data", problem.filename, split)
    return [example for path in paths for example in tfrecords.read(path)]


def test_agreement_problems_are_registered():
    names = [name for name in problems.names() if name.startswith("sva_")]
    assert len(names) == 8
    assert "sva_number_prediction" in names
    assert "sva_language_modeling_edinburgh_nlu" in names


def test_agreement_has_t2ts_splits_and_vocabulary(tmp_path):
    agreement_table.write(tmp_path / TABLE, ROWS)
    problem, counts = generate("sva_language_modeling", tmp_path)
    # The next lines repeat T2T's computation with Python 3.
    rows = list(ROWS)
    random.seed(1)
    random.shuffle(rows)
    expected = {
        "train": rows[:18],
        "dev": rows[18:20],
        "test": [row for row in rows[20:] if row[3] == row[4]],
    }
    assert counts == {split: len(found) for split, found in expected.items()}
    names = os.listdir(tmp_path / "data")
    assert "vocab.sva_language_modeling.tokens" in names
    assert "sva_language_modeling-train-00000-of-00001" in names
    assert "sva_language_modeling-test-00009-of-00010" in names
    encoder = problem.feature_encoders(tmp_path / "data")["targets"]
    for split, rows_of_split in expected.items():
        texts = {encoder.decode(r["targets"]) for r in records(problem, tmp_path, split)}
        assert texts == {" ".join(row[0].split()[:7]) + " <EOS>" for row in rows_of_split}
    # The vocabulary has the words of all splits by count, then in alphabetical order.
    assert encoder.decode(range(8)) == "<pad> <EOS> the cabinet here keys to are"
    assert encoder.vocab_size == 2 + 5 + 4 + 200


def test_agreement_matches_worked_record(tmp_path):
    agreement_table.write(tmp_path / TABLE, ROWS)
    number, _ = generate("sva_number_prediction", tmp_path)
    words = number.feature_encoders(tmp_path / "data")["inputs"]
    labels = number.feature_encoders(tmp_path / "data")["targets"]
    found = records(number, tmp_path, "train") + records(number, tmp_path, "test")
    assert len(found) > 30
    for record in found:
        first, rest = words.decode(record["inputs"]).split(" ", 1)
        assert rest == "the keys to the cabinet <EOS>"
        row = ROWS[int(first[1:])]
        assert labels.decode(record["targets"]) == row[2]
        assert record["attractors"] == [row[4]]
    model, _ = generate("sva_language_modeling", tmp_path)
    words = model.feature_encoders(tmp_path / "data")["targets"]
    others = {"are": "is", "is": "are", "keep": "keeps", "keeps": "keep"}
    for record in records(model, tmp_path, "test"):
        verb = words.decode(record["targets"]).split()[-2]
        assert words.decode(record["wrong_verb"]) == others[verb]
    # A model reads neither attractors nor the wrong verb.
    assert set(model.feature_specs(tmp_path / "data")) == {"targets"}
    assert set(number.feature_specs(tmp_path / "data")) == {"inputs", "targets"}


def test_wrong_verb_outside_the_vocabulary_is_padding(tmp_path):
    agreement_table.write(tmp_path / TABLE, [("it rains", 1, "VBZ", 0, 0)] * 100)
    problem, _ = generate("sva_language_modeling", tmp_path)
    assert records(problem, tmp_path, "dev") == [
        {"targets": [2, 3, 1], "wrong_verb": [0], "attractors": [0]}
    ]


def test_many_attractors_share_a_bucket(tmp_path):
    agreement_table.write(tmp_path / TABLE, [("it rains", 1, "VBZ", 9, 9)] * 100)
    problem, _ = generate("sva_number_prediction", tmp_path)
    assert records(problem, tmp_path, "dev")[0]["attractors"] == [6]


def test_records_of_t2t_can_be_read(tmp_path):
    agreement_table.write(tmp_path / TABLE, ROWS)
    problem, _ = generate("sva_language_modeling", tmp_path)
    (path,) = tfrecords.find(tmp_path / "data", problem.filename, "dev")
    tfrecords.write([{"targets": [2, 3, 1]}], [path])
    os.remove(generation_plan.origin_path(tmp_path / "data", problem.filename, "dev"))
    ((features, _),) = problem.dataset("dev", tmp_path / "data", HPARAMS)
    assert features["wrong_verb"].numpy().tolist() == [[0]]
    assert features["attractors"].numpy().tolist() == [[7]]
    metrics = problem.feature_metrics(tmp_path / "data")
    for metric in metrics.values():
        _, count = metric.function(tf.zeros([1, 3, 9]), features["targets"], features)
        assert float(count) == 0


def test_verb_ranking_compares_both_forms(tmp_path):
    agreement_table.write(tmp_path / TABLE, ROWS)
    problem, _ = generate("sva_language_modeling", tmp_path)
    # The right verb is 5, and the wrong verb is 6. One example is shorter, one example is padding,
    # and one example has no wrong verb.
    targets = tf.constant([[4, 4, 5, 1], [4, 5, 1, 0], [4, 4, 5, 1], [0] * 4, [4, 4, 5, 1]])
    features = {
        "targets": targets,
        "wrong_verb": tf.constant([[6], [6], [6], [0], [0]]),
        "attractors": tf.constant([[0], [1], [1], [1], [1]]),
    }
    logits = np.zeros([5, 4, 9], np.float32)
    logits[0, 2, [5, 6]] = 2, 1  # the right verb has the higher logit
    logits[1, 1, [5, 6]] = 1, 2  # the wrong verb has the higher logit
    logits[1, 2, [5, 6]] = 9, 2  # logits at EOS have no effect
    logits[2, 2, [5, 6]] = 3, 3  # a tie is wrong
    logits[4, 2, 5] = 9
    metrics = problem.feature_metrics(tmp_path / "data")
    results = {
        name: tuple(float(x) for x in metric.function(tf.constant(logits), targets, features))
        for name, metric in metrics.items()
    }
    assert results["verb_ranking_accuracy"] == (1, 3)
    assert results["verb_ranking_accuracy/attractors_0"] == (1, 1)
    assert results["verb_ranking_accuracy/attractors_1"] == (0, 2)
    assert results["verb_ranking_accuracy/attractors_2"] == (0, 0)
    assert len(results) == 7


def test_accuracy_by_attractors(tmp_path):
    agreement_table.write(tmp_path / TABLE, ROWS)
    problem, _ = generate("sva_number_prediction", tmp_path)
    logits = tf.constant([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    targets = tf.constant([[0], [1], [1]])
    features = {"attractors": tf.constant([[0], [5], [5]])}
    metrics = problem.feature_metrics(tmp_path / "data")
    assert sorted(metrics) == [f"accuracy/attractors_{n}" for n in range(6)]
    total, count = metrics["accuracy/attractors_5"].function(logits, targets, features)
    assert (float(total), float(count)) == (1, 2)
    total, count = metrics["accuracy/attractors_0"].function(logits, targets, features)
    assert (float(total), float(count)) == (1, 1)


def assert_data_error(pattern, name, tmp_path):
    with pytest.raises(DataError, match=pattern) as error:
        generate(name, tmp_path)
    assert "\n" not in str(error.value)


def test_quotation_mark_that_hides_rows_is_an_error(tmp_path):
    agreement_table.write(tmp_path / TABLE, ROWS)
    with gzip.open(tmp_path / TABLE, "rt") as file:
        header, *rows = file.read().splitlines()
    rows[1], rows[2] = f'"{rows[1]}', f'a " quote {rows[2]}'
    with gzip.open(tmp_path / TABLE, "wt") as file:
        file.write("\n".join([header, *rows, ""]))
    assert_data_error(f"{TABLE}, line 4: ", "sva_number_prediction", tmp_path)


def test_damaged_table_is_named(tmp_path):
    name = "sva_number_prediction"
    agreement_table.write(tmp_path / TABLE, [*ROWS[:3], ("too short", 6, "VBZ", 0, 0)])
    assert_data_error(rf"{TABLE}, line 5: .*too short", name, tmp_path)
    for number in ("\u00b2", "\u0661", "1" * 5000):
        agreement_table.write(tmp_path / TABLE, [("it rains", 0, "VBZ", number, 0)])
        assert_data_error(rf"{TABLE}, line 2: ", name, tmp_path)
    agreement_table.write(tmp_path / TABLE, [("it rained", 1, "VBD", 0, 0)])
    assert_data_error("verb_pos VBZ or VBP.*line 2", name, tmp_path)
    with gzip.open(tmp_path / TABLE, "wt") as file:
        file.write("sentence\tverb_pos\n")
    assert_data_error("must have the columns.*verb_index", name, tmp_path)
    with open(tmp_path / TABLE, "r+b") as file:
        file.truncate(20)
    assert_data_error("must be a complete text file", name, tmp_path)


def test_other_test_sets_require_the_vocabulary(tmp_path):
    pattern = "vocabulary of sva_number_prediction in data_dir.*vocab.sva_number_prediction.tokens"
    assert_data_error(pattern, "sva_number_prediction_gulordava", tmp_path)


def test_other_test_sets_are_read(tmp_path, monkeypatch):
    unchecked = {
        name: file._replace(sha256=None) for name, file in agreement_files.OTHER_FILES.items()
    }
    monkeypatch.setattr(agreement_files, "OTHER_FILES", unchecked)
    rows = [*ROWS, ("NN NNS CD VBP VBZ as a rule", 3, "VBP", 0, 0)]
    agreement_table.write(tmp_path / TABLE, rows)
    generate("sva_language_modeling", tmp_path)
    (tmp_path / "subj_agr_filtered.text").write_text("The Keys unlike 2 boats are <eos>\n")
    (tmp_path / "subj_agr_filtered.gold").write_text("5\tare\tis\t3\n")
    (tmp_path / "generated.tab").write_text(
        "correct_number\tform\tclass\tprefix\tn_attr\n"
        "sing\tis\tcorrect\tThe keys\t1\nsing\tare\twrong\tThe keys\t1\n"
        "plur\tgo\tcorrect\tThe keys\t0\nplur\tgoes\twrong\tThe keys\t0\n"
    )
    (tmp_path / "wiki-dev.txt").write_text("head\nthe NNS keep\t1\t2\tVBP\tkeep\tkeeps\n")
    (tmp_path / "wiki-test.txt").write_text("head\nthe keys VBP\t1\t2\tVBP\tunlock\tunlocks\n")

    def read(name, split="test"):
        problem, _ = generate(f"sva_language_modeling_{name}", tmp_path)
        decode = problem.feature_encoders(tmp_path / "data")["targets"].decode
        return [
            (decode(r["targets"]), decode(r["wrong_verb"]), r["attractors"])
            for r in records(problem, tmp_path, split)
        ]

    assert read("linzen_testset") == [("the keys NN CD NNS are <EOS>", "is", [3])]
    assert read("gulordava") == [
        ("the keys is <EOS>", "are", [1]),
        ("the keys VBP <EOS>", "VBZ", [0]),  # a part of speech replaces a rare verb
    ]
    assert read("edinburgh_nlu", "dev") == [("the NNS keep <EOS>", "keeps", [7])]
    assert read("edinburgh_nlu", "test") == [("the keys VBP <EOS>", "VBZ", [7])]


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("keep", "keeps"),
        ("pass", "passes"),
        ("use", "uses"),
        ("carry", "carries"),
        ("play", "plays"),
        ("lie", "lies"),
        ("go", "goes"),
        ("have", "has"),
        ("are", "is"),
        ("do", "does"),
        ("VBP", "VBZ"),
    ],
)
def test_other_form_follows_spelling(plural, singular):
    known = {plural, singular}
    assert agreement_files.other_form(plural, "VBP", known) == singular
    assert agreement_files.other_form(singular, "VBZ", known) == plural
    assert agreement_files.other_form(singular, "VBZ", {singular}) is None


def test_verb_forms_of_real_data(shared_dir):
    folder = os.path.join(shared_dir, "data", "sva", "edinburgh_nlu")
    pairs = set()
    for name in ("wiki-dev.txt", "wiki-test.txt"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            pairs.update(tuple(line.split("\t")[3:]) for line in file.read().splitlines()[1:])
    known = {word for _, *forms in pairs for word in forms}
    wrong = [
        (v, other) for tag, v, other in pairs if agreement_files.other_form(v, tag, known) != other
    ]
    # The remaining pairs are capitalized, or they are mistakes in the data: (et, et), (Are, Is),
    # (album, album).
    assert len(pairs) == 567
    assert len(wrong) == 10


@pytest.mark.slow  # this test reads the complete files
def test_agreement_reads_real_table(shared_dir, tmp_path):
    folder = os.path.join(shared_dir, "data", "sva")
    agreement_table.write_real(tmp_path / TABLE, folder)
    problem, counts = generate("sva_language_modeling", tmp_path)
    assert counts == {"train": 733, "dev": 81, "test": 7334}
    record = next(r for r in records(problem, tmp_path, "test") if r["targets"][0] == 7318)
    assert record == {
        "targets": [7318, 8, 161, 373, 5, 37, 498, 11, 1],
        "wrong_verb": [9],
        "attractors": [2],
    }
    for name, attractors, without in (
        ("linzen_testset", {0: 1972, 1: 1957, 2: 1943, 3: 1287, 4: 330}, 64),
        ("gulordava", {0: 330, 1: 70, 2: 10}, 13),
        ("edinburgh_nlu", {7: 4000}, 21),
    ):
        tmp_dir = os.path.join(folder, name)
        problem, _ = generate(f"sva_language_modeling_{name}", tmp_path, tmp_dir)
        found = records(problem, tmp_path, "test")
        assert collections.Counter(r["attractors"][0] for r in found) == attractors
        assert sum(r["wrong_verb"] == [0] for r in found) == without
