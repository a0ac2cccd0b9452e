"""Tests of problems that classify one or two texts, such as GLUE."""

import os

import pytest

from tests.problems import archives
from ut_keras import hparams, models, problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.problems import glue

pytestmark = pytest.mark.usefixtures("no_checksums")

_NLI = "0\t{0} 1 premise\t{0} 1 more\tnot_entailment\n1\t{0} 2\t{0} two\tentailment\n"
_SNLI = "neutral\t-\t-\t(p)\t(p)\t{0} man\t{0} woman\tid\n-\t-\t-\t(p)\t(p)\tno\tlabel\tid\n"
_QQP = "0\t1\t2\tHow {0}?\tWhy {0}?\t1\n1\t3\t4\tone question only\n"
_MNLI = "\t".join("01234567") + "\t{0} premise\t{0} hypothesis\t{1}contradiction\n"


def _tables(folder, header, train, dev, name="dev"):
    return {f"{folder}/train.tsv": header + train, f"{folder}/{name}.tsv": header + dev}


def _both(text):
    return text.format("train"), text.format("dev")


# `PROBLEMS` maps a name to (archive, members of the archive, vocabulary, samples of the dev split).
PROBLEMS = {
    "cola": (
        "CoLA.zip",
        _tables("CoLA", "", *_both('gj04\t1\t\tThe {0} "sank" it.\ngj04\t0\t*\tThe {0} it.\n')),
        "vocab.cola.8192.subwords",
        [(('The dev "sank" it.',), "acceptable"), (("The dev it.",), "unacceptable")],
    ),
    "sentiment_sst_binary": (
        "SST-2.zip",
        _tables("SST-2", "sentence\tlabel\n", *_both("a {0} joy \t1\n{0} bore\t0\n")),
        "vocab.sentiment_sst_binary.16384.subwords",
        [(("a dev joy ",), "pos"), (("dev bore",), "neg")],
    ),
    "quora_question_pairs": (
        "QQP.zip",
        _tables("QQP", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n", *_both(_QQP)),
        "vocab.quora_question_pairs.32768.subwords",
        [(("How dev?", "Why dev?"), "duplicate"), (("Why dev?", "How dev?"), "duplicate")],
    ),
    "multi_nli": (
        "MNLI.zip",
        _tables(
            "MNLI", "header\n", _MNLI.format("train", ""), _MNLI.format("dev", "a\tb\t"),
            "dev_matched",
        ),
        "vocab.multi_nli.32768.subwords",
        [(("dev premise", "dev hypothesis"), "contradiction")],
    ),
    **{
        name: (
            archive,
            _tables(folder, "index\tsentence1\tsentence2\tlabel\n", *_both(_NLI)),
            vocabulary,
            [(("dev 1 premise", "dev 1 more"), "not_entailment"), (("dev 2", "dev two"),
             "entailment")],
        )
        for name, archive, folder, vocabulary in (
            ("question_nli", "QNLIv2.zip", "QNLI", "vocab.question_nli.32768.subwords"),
            ("rte", "RTE.zip", "RTE", "vocab.rte.8192.subwords"),
            ("winograd_nli", "WNLI.zip", "WNLI", "vocab.wnli.8192"),
        )
    },
    "stanford_nli": (
        "snli_1.0.zip",
        {f"snli_1.0/snli_1.0_{split}.txt": "header\n" + _SNLI.format(split)
         for split in ("train", "dev")},
        "vocab.stanford_nli.32768.subwords",
        [(("dev man", "dev woman"), "neutral")],
    ),
    "sci_tail": (
        "SciTailV1.1.zip",
        {f"SciTailV1.1/tsv_format/scitail_1.0_{split}.tsv": f"{split} one\t{split} two\tentails\n"
         for split in ("train", "dev")},
        "vocab.sci_tail.8192.subwords",
        [(("dev one", "dev two"), "entails")],
    ),
}  # fmt: skip


def _samples(problem, split, tmp_path):
    samples = problem.generate_samples(split, None, str(tmp_path), seed=0)
    return [(sample["inputs"], sample["targets"]) for sample in samples]


@pytest.mark.parametrize("name", PROBLEMS)
def test_glue_problems_read_samples_from_files(name, tmp_path):
    archive, members, vocabulary, expected = PROBLEMS[name]
    archives.write(tmp_path / archive, members)
    problem, counts = archives.generate(name, tmp_path)
    assert _samples(problem, "dev", tmp_path) == expected
    assert counts["dev"] == len(expected)
    assert vocabulary in os.listdir(tmp_path / "data")
    encoders = problem.feature_encoders(str(tmp_path / "data"))
    between = encoders["inputs"].encode("$")[:1]
    wanted = []
    for inputs, label in expected:
        first, *others = map(encoders["inputs"].encode, inputs)
        ids = sum(([*between, *other] for other in others), first)
        wanted.append(([*ids, 1], encoders["targets"].encode(label)))
    (path,) = tfrecords.find(tmp_path / "data", name, "dev")
    found = [(list(r["inputs"]), list(r["targets"])) for r in tfrecords.read(path)]
    assert sorted(found) == sorted(wanted)
    # As in T2T, the code contains the names of the classes, so there is no file with labels.
    assert not any(name.startswith("labels.") for name in os.listdir(tmp_path / "data"))


def test_characters_encode_two_texts(tmp_path):
    archives.write(tmp_path / PROBLEMS["rte"][0], PROBLEMS["rte"][1])
    problem, _ = archives.generate("rte_characters", tmp_path)
    assert ("dev 2$dev two", "entailment") in archives.texts(problem, tmp_path, "dev")
    data_dir = str(tmp_path / "data")
    hp = hparams.get("transformer_tiny", "hidden_size=8,filter_size=8,num_heads=2,batch_size=256")
    features, _ = next(iter(problem.dataset("dev", data_dir, hp)))
    model = models.get("transformer_encoder", hp, problem, data_dir)
    assert model(features).shape[1] == 2


@pytest.mark.parametrize(
    ("name", "inputs", "is_noted"),
    [
        ("rte_characters", [67, 1, 38, 68, 1], True),  # T2T 1.8 to 1.10
        ("rte_characters", [67, 1, 4, 68, 1], True),  # T2T 1.7
        ("rte_characters", [67, 38, 68, 1], False),
        ("cola_characters", [67, 1], False),
    ],
)
def test_eos_between_texts_is_noted(name, inputs, is_noted, tmp_path, capsys):
    path = str(tmp_path / f"{name}-dev-00000-of-00001")
    tfrecords.write([{"inputs": inputs, "targets": [1]}], [path])
    hp = hparams.get("transformer_tiny")
    features, _ = next(iter(problems.get(name).dataset("dev", str(tmp_path), hp)))
    assert features["inputs"].numpy().tolist() == [inputs]
    note = f"note: {name}: in {path}, EOS ends each text of an example, as in T2T before 1.11."
    assert (note in capsys.readouterr().out) == is_noted


def test_msr_paraphrase_corpus_is_split_by_ids(tmp_path):
    folder = tmp_path / "MRPC"
    folder.mkdir()
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    rows = [f"{i % 2}\t1{i}\t2{i}\tone {i}\ttwo {i}\n" for i in range(5)]
    (folder / "msr_paraphrase_train.txt").write_text(header + "".join(rows[:4]))
    (folder / "msr_paraphrase_test.txt").write_text(header + rows[4])
    (folder / "dev_ids.tsv").write_text("11\t21\n")
    problem, counts = archives.generate("msr_paraphrase_corpus", tmp_path)
    assert counts == {"train": 6, "dev": 2, "test": 2}
    assert _samples(problem, "dev", tmp_path) == [
        (("one 1", "two 1"), "paraphrase"),
        (("two 1", "one 1"), "paraphrase"),
    ]
    assert _samples(problem, "test", tmp_path)[0] == (("one 4", "two 4"), "not_paraphrase")


def test_multi_nli_text2text_has_class_as_text(tmp_path):
    archives.write(tmp_path / PROBLEMS["multi_nli"][0], PROBLEMS["multi_nli"][1])
    problem, _ = archives.generate("multi_nli_text2text", tmp_path)
    assert archives.texts(problem, tmp_path, "dev") == [
        ("multinli premise: dev premise hypothesis: dev hypothesis", "contradiction")
    ]


@pytest.mark.parametrize(
    "row",
    [
        *("0\tone text\tentailment", "0\ta\tb\tmaybe", "0\ta\tb\t2"),
        *("0\ta\tb\t\u00b2", "0\ta\tb\t\u0661", "0\ta\tb\t" + "1" * 5000),
    ],
)
def test_invalid_row_is_named_by_its_number(row, tmp_path):
    tables = _tables("RTE", "header\n", "0\ta\tb\t1\n" + row, "0\ta\tb\t1\n")
    archives.write(tmp_path / "RTE.zip", tables)
    with pytest.raises(DataError, match="not_entailment.*train.tsv, line 3: '0"):
        archives.generate("rte", tmp_path)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("cola", "gj04\t1\t\tThe ship\tsank."),
        ("sentiment_sst_binary", "joy\t1\t0"),
        ("quora_question_pairs", "0\t1\t2\tHow?\tor 3\t0\t1"),
        ("rte", "0\tone\t1\tmore\tentailment"),
    ],
)
def test_text_with_a_tab_is_an_error(name, row, tmp_path):
    archive, members, *_ = PROBLEMS[name]
    members = {path: f"{content}{row}\n" for path, content in members.items()}
    archives.write(tmp_path / archive, members)
    number = len(members[next(iter(members))].splitlines())
    with pytest.raises(DataError, match=f"at most . columns.*line {number}: '"):
        archives.generate(name, tmp_path)


def test_shared_vocabulary_is_required(tmp_path):
    archives.write(tmp_path / PROBLEMS["multi_nli"][0], PROBLEMS["multi_nli"][1])
    with pytest.raises(DataError, match="vocab.languagemodel_lm1b32k.32768.subwords"):
        archives.generate("multi_nli_shared_vocab", tmp_path)
    problem, _ = archives.generate("multi_nli", tmp_path)
    data = tmp_path / "data"
    name = "vocab.languagemodel_lm1b32k.32768.subwords"
    assert problems.get("languagemodel_lm1b32k").vocab_filename == name
    os.rename(data / problem.vocab_filename, data / name)
    assert archives.generate("multi_nli_shared_vocab", tmp_path)[1] == {"train": 1, "dev": 1}


def test_common_file_name_is_not_read(tmp_path):
    name = "rte"
    archives.write(tmp_path / PROBLEMS[name][0], PROBLEMS[name][1])
    expected = archives.generate(name, tmp_path)[1]
    (tmp_path / "other").mkdir()
    archives.write(tmp_path / "other" / PROBLEMS[name][0], PROBLEMS[name][1])
    (tmp_path / "other" / "train.tsv").write_text("a\tb\tc\tentailment\n" * 9)
    assert archives.generate(name, tmp_path / "other")[1] == expected


def test_no_break_spaces_around_a_text_are_kept_as_in_t2t(tmp_path):
    tables = _tables("CoLA", "", *_both("gj04\t1\t\t\xa0{0}\xa0 \n"))
    archives.write(tmp_path / "CoLA.zip", tables)
    assert _samples(problems.get("cola"), "dev", tmp_path) == [(("\xa0dev\xa0",), "acceptable")]


def test_names_of_classes_can_be_numbers():
    class Stars(glue.LabelledTables):
        class_labels = ("1", "2", "3")
        text_columns, label_column = (0,), 1

    found = [next(Stars().samples(["a text", label], "dev", ""))["targets"] for label in "123"]
    assert found == ["1", "2", "3"]
