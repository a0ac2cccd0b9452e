import os
import re
import tracemalloc
import types

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.problems import own_text
from ut_keras.text import text_encoder
from ut_keras.text.ragged_ids import RaggedIds

HPARAMS = types.SimpleNamespace(batch_size=512, max_length=256)


def generate(name, tmp_path, **how):
    problem = problems.get(name)
    counts = problem.generate_data(str(tmp_path / "data"), str(tmp_path), num_processes=1, **how)
    return problem, counts


def records(problem, tmp_path, split):
    paths = tfrecords.find(tmp_path / "data", problem.filename, split)
    return [record for path in paths for record in tfrecords.read(path)]


def write(folder, **files):
    for name, lines in files.items():
        text = "".join(line + "\n" for line in lines)
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


def test_text2self_txt_reads_lines(tmp_path):
    lines = [f"Sentence {i}\twith a tab, ä." for i in range(40)]
    write(tmp_path, train__txt=["", *lines], test__txt=["  last one "])
    problem, counts = generate("text2self_txt", tmp_path)
    assert counts == {"train": 38, "dev": 2, "test": 1}
    encoder = problem.feature_encoders(str(tmp_path / "data"))["targets"]
    assert [encoder.decode(r["targets"][:-1]) for r in records(problem, tmp_path, "dev")] == [
        lines[19],
        lines[39],
    ]
    (test,) = records(problem, tmp_path, "test")
    assert list(test) == ["targets"]
    assert encoder.decode(test["targets"]) == "last one<EOS>"
    assert list(problem.feature_specs(str(tmp_path / "data"))) == ["targets"]
    assert list(problem.feature_metrics(str(tmp_path / "data"))) == ["per_word_perplexity"]


def test_number_of_subwords_depends_on_file_size(tmp_path, capsys):
    lines = [f"{i} bottles of {i * i % 997} green walls" for i in range(400)]
    write(tmp_path, train__txt=lines)
    problem, _ = generate("text2self_txt", tmp_path)
    few = problem.feature_encoders(str(tmp_path / "data"))["targets"].vocab_size
    assert few < 100
    assert f"text2self_txt: {few} subwords for" in capsys.readouterr().out
    (tmp_path / "more").mkdir()
    write(tmp_path / "more", train__txt=lines * 40)
    problem, _ = generate("text2self_txt", tmp_path / "more")
    assert problem.feature_encoders(str(tmp_path / "more" / "data"))["targets"].vocab_size > 4 * few


def test_tokens_can_be_the_vocabulary(tmp_path):
    class Words(own_text.Text2SelfTxt):
        name, vocab_type, oov_token = "own_words", "tokens", "<unk>"

    write(tmp_path, train__txt=["two words", "three words here"] * 10)
    problem = Words()
    problem.generate_data(str(tmp_path / "data"), str(tmp_path), num_processes=1)
    encoder = problem.feature_encoders(str(tmp_path / "data"))["targets"]
    assert encoder.decode(records(problem, tmp_path, "train")[0]["targets"][:-1]) == "two words"


class _OwnEncoder:
    """An encoder with the ids of SentencePiece's default settings, where 0 is unknown."""

    vocab_size = 4

    def encode(self, text):
        return [3 if word == "two" else 0 for word in text.split()]

    def decode(self, ids):
        return " ".join(["unk", "<s>", "</s>", "two"][i] for i in ids)

    def encode_ragged(self, texts):
        return RaggedIds.from_lists([self.encode(text) for text in texts])


@pytest.mark.parametrize(
    ("own_encoder", "words", "received"),
    [
        (None, ["two", "words"], "own_words.tokens must begin .*Received: 'two' and 'words'"),
        (None, ["<pad>", "<EOS>", "two", "words"], None),
        (None, ["[PAD]", "</s>", "two", "words"], None),
        (None, ["[PAD]", "words", "two"], r"Received: '\[PAD\]' and 'words'"),
        (None, ["<two>", "</s>", "words", "two"], "Received: '<two>' and '</s>'"),
        (None, ["<pad>", "<EOS>", "<two>", "words"], "must not give the id 1.* '<EOS> words'"),
        (_OwnEncoder(), [], "must not give the id 0.*Received: _OwnEncoder.* 'two words'"),
    ],
)
def test_reserved_ids_of_words_print_one_note(tmp_path, capsys, own_encoder, words, received):
    class Words(own_text.Text2SelfTxt):
        name, vocab_type = "own_words", "tokens"

        def text_encoder(self, data_dir):
            return own_encoder or super().text_encoder(data_dir)

    text = "<two> words" if "<two>" in words else "two words"
    if {"<EOS>", "<two>"} < {*words}:
        text = "<EOS> words"
    write(tmp_path, train__txt=[text] * 20)
    (tmp_path / "data").mkdir()
    write(tmp_path / "data", vocab__own_words__tokens=words)
    Words().generate_data(str(tmp_path / "data"), str(tmp_path), num_processes=1)
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    assert len(notes) == bool(received)
    assert all(re.search(received, note) for note in notes)


def test_text2class_tsv_reads_labels(tmp_path):
    write(
        tmp_path,
        train__tsv=[f"text number {i}\t{label}" for i in range(10) for label in ("good", "so so")],
        dev__tsv=["a text\tso so", "a text\tgood"],
    )
    problem, counts = generate("text2class_tsv", tmp_path)
    assert counts == {"train": 20, "dev": 2}
    folder = str(tmp_path / "data")
    assert text_encoder.read_lines(f"{folder}/labels.text2class_tsv.txt") == ["good", "so so"]
    assert [record["targets"] for record in records(problem, tmp_path, "dev")] == [[1], [0]]
    spec = problem.feature_specs(folder)["targets"]
    assert (spec.vocab_size, spec.modality) == (2, "class_label")
    encoder = problem.feature_encoders(folder)["inputs"]
    assert encoder.decode(records(problem, tmp_path, "dev")[0]["inputs"]) == "a text<EOS>"
    assert "good" not in "".join(encoder.subtokens)
    batches = problem.dataset("train", folder, HPARAMS)
    assert sum(targets.shape[0] for _, targets in batches) == 20


def test_unknown_label_raises(tmp_path):
    write(tmp_path, train__tsv=["a\tx", "b\ty"], dev__tsv=["c\tz"])
    with pytest.raises(DataError, match="labels of the dev split.*Received: z"):
        generate("text2class_tsv", tmp_path)
    write(tmp_path, train__tsv=["a\tx", "b\ty", "c\tz"])  # the train split now has the label
    assert generate("text2class_tsv", tmp_path, max_cases=2)[1] == {"train": 2, "dev": 1}
    labels = str(tmp_path / "data" / "labels.text2class_tsv.txt")
    assert text_encoder.read_lines(labels) == ["x", "y", "z"]


@pytest.mark.parametrize(("labels", "is_hinted"), [("0.25 -1.5 3e-2 7 .5", True), ("1 a", False)])
def test_messages_say_that_numbers_are_classes(labels, is_hinted, tmp_path, capsys):
    labels = labels.split()
    text = [f"text {i}\t{labels[i % len(labels)]}" for i in range(40)]
    (tmp_path / "train.tsv").write_text("\n".join(text))
    (tmp_path / "dev.tsv").write_text("text\t0.75\n")
    with pytest.raises(DataError, match=r"Received: 0\.75") as raised:
        problems.get("text2class_tsv").generate_data(str(tmp_path / "data"), str(tmp_path))
    assert ("a class of its own" in str(raised.value)) == is_hinted

    (tmp_path / "dev.tsv").write_text(text[0])
    different = [f"text\t{labels[i % len(labels)]}{i}" for i in range(40)]
    (tmp_path / "train.tsv").write_text("\n".join([*text, *different]))
    problems.get("text2class_tsv").generate_data(str(tmp_path / "more"), str(tmp_path))
    printed = capsys.readouterr().out
    assert "note: the 80 lines" in printed and ("a class of its own" in printed) == is_hinted


@pytest.mark.parametrize("labels", ["x\ny\n\n", "x\ny\nx\n"])
def test_invalid_label_file_raises(tmp_path, labels):
    """A model would have a class that no example has."""
    write(tmp_path, train__tsv=["a\tx", "b\ty"], dev__tsv=["c\ty"])
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "labels.text2class_tsv.txt"
    path.write_text(labels)
    with pytest.raises(DataError, match=f"The labels in {path} must be .*without duplicates"):
        generate("text2class_tsv", tmp_path)
    path.write_text("y\nx\n")
    generate("text2class_tsv", tmp_path)
    assert records(problems.get("text2class_tsv"), tmp_path, "dev")[0]["targets"] == [0]


@pytest.mark.parametrize(
    ("name", "file"), [("text2self_txt", "train.txt"), ("text2class_tsv", "train.tsv")]
)
def test_missing_train_file_raises(tmp_path, name, file):
    missing = tmp_path / "missing"
    with pytest.raises(DataError, match=f"--tmp_dir.*tmp_dir='{missing}', which does not exist"):
        problems.get(name).generate_data(str(tmp_path / "data"), str(missing))
    with pytest.raises(DataError, match=f"{file} .*text.*tmp_dir='{tmp_path}'"):
        generate(name, tmp_path)
    (tmp_path / "data.csv").touch()
    with pytest.raises(DataError, match="tmp_dir='.*data.csv', which is a file"):
        problems.get(name).generate_data(str(tmp_path / "data"), str(tmp_path / "data.csv"))


def test_repeated_lines_of_the_train_file_print_a_note(tmp_path, capsys):
    write(tmp_path, train__tsv=[f"text {i % 3}\ttarget" for i in range(100)])
    generate("text2text_tsv", tmp_path)
    assert "note: 5 of 5 lines of the dev split are also in the" in capsys.readouterr().out


def test_check_for_repeated_lines_stores_no_line_of_the_train_file(tmp_path):
    write(tmp_path, train__txt=[f"line {i}" for i in range(20_000)], dev__txt=["line 1", "line"])
    problem = problems.get("text2self_txt")
    tracemalloc.start()
    problem._note_repeated_lines(str(tmp_path))
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest < 500_000


def test_csv_in_place_of_tsv_names_the_conversion(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\nfine,good\n")
    with pytest.raises(DataError, match=r"with train.csv\. docs/own_data.md shows how .* CSV"):
        generate("text2class_tsv", tmp_path)
    with pytest.raises(DataError, match=r"train.csv', which is a file\. docs/own_data.md shows"):
        problems.get("text2class_tsv").generate_data(str(tmp_path), str(tmp_path / "train.csv"))
    write(tmp_path, train__tsv=["text,label", "fine,good"])
    with pytest.raises(DataError, match=r"has no tab\. docs/own_data.md .*train.tsv, line 1"):
        generate("text2class_tsv", tmp_path)


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        (["Text\tLabel", "a\tx"], "seems to be a header: Text<TAB>Label"),
        (['"a"\tx', "b\tx"], "train split: 1 line has a field in double quotes"),
        (['"a ""b"""\tx', "b\tx", "c\tx"], "train split: 1 line has a field in double quotes"),
        ([f"x\ttext {i}" for i in range(12)], "the 12 lines of the train split have 12 labels"),
        (
            [f"{i % 2}\ttext {i % 12}" for i in range(40)],
            "the 40 lines of the train split have 12 labels. Check that the label is the last",
        ),
        (["a\tx", "b\tx"], "all lines have the label 'x', so there is nothing to learn"),
        (["a\tnan", "b\tx"], "the label 'nan' seems to be a missing value, but it counts"),
        (["a\t<NA>", "b\tx"], "the label '<NA>' seems to be a missing value"),
        (["a\t1.0", "b\t1", "c\t2"], "the labels '1' and '1.0' seem to mean the same"),
        (["a\tGood", "b\tgood"], "the labels 'Good' and 'good' seem to mean the same"),
        (
            [f"text {i}\t{i % 2}" for i in range(40)],
            "39 of 39 lines of the dev split are also in the train split. Results on this split",
        ),
    ],
)
def test_lines_that_look_wrong_print_a_note(tmp_path, capsys, lines, note):
    write(tmp_path, train__tsv=lines, dev__tsv=lines[1:])
    generate("text2class_tsv", tmp_path)
    assert note in capsys.readouterr().out


def test_labels_are_printed_and_good_lines_print_no_note(tmp_path, capsys):
    lines = ['"a" or b\tx', '"quoted"\ty', *[f"text {i}\tx" for i in range(10)]]
    few = [*lines[:4], *[f"other text {i}\ty" for i in range(8)]]
    write(tmp_path, train__tsv=lines, dev__tsv=few)
    generate("text2class_tsv", tmp_path)
    printed = capsys.readouterr().out
    assert "text2class_tsv: 2 labels: 'x', 'y'\n" in printed and "note:" not in printed


def test_text2text_tmpdir_reads_parallel_files(tmp_path):
    write(
        tmp_path,
        inputs__train__txt=[f"source {i}" for i in range(9)],
        targets__train__txt=[f"target {i}" for i in range(9)],
        inputs__eval__txt=["source of the eval set"],
        targets__eval__txt=["target of the eval set"],
        vocab__txt=["\ufeffsource", "target", "of", "the", "1"],
    )
    problem, counts = generate("text2text_tmpdir", tmp_path)
    assert counts == {"train": 9, "dev": 1}
    assert "vocab.text2text_tmpdir.32768.subwords" in os.listdir(tmp_path / "data")

    problem, counts = generate("text2text_tmpdir_tokens", tmp_path)
    encoder = problem.feature_encoders(str(tmp_path / "data"))["inputs"]
    assert text_encoder.read_lines(
        str(tmp_path / "data" / "vocab.text2text_tmpdir_tokens.tokens")
    ) == ["<pad>", "<EOS>", "<UNK>", "source", "target", "of", "the", "1"]
    (dev,) = records(problem, tmp_path, "dev")
    assert dev == {"inputs": [3, 5, 6, 2, 2, 1], "targets": [4, 5, 6, 2, 2, 1]}
    assert encoder.decode(dev["inputs"]) == "source of the <UNK> <UNK> <EOS>"


PARALLEL = {
    "inputs__train__txt": ["the cat sat"] * 12,
    "targets__train__txt": ["on the mat"] * 12,
    "inputs__eval__txt": ["the cat"],
    "targets__eval__txt": ["the mat"],
}
WORDS = ["the", "cat", "sat", "on", "mat"]


@pytest.mark.parametrize(
    "vocabulary, message",
    [
        (WORDS, []),
        (
            ["\u2581the\t-3.2", "<unk>\t0", "\u2581cat\t-4"],
            ["3 lines", "'\u2581the\\t-3.2'", "<unk>", "100%"],
        ),
        (["the</w> 1234"], ["1 line ", "'the</w> 1234'", "100%", "'the', 'cat', 'sat'"]),
        (["<unk>", "<s>", *WORDS], ["<unk>, <s>", "<UNK>"]),
        (["[UNK]", *WORDS], ["[UNK]"]),
        (["the", "cat"], []),  # three of six words are unknown
        (["the"], ["67%", "'cat', 'sat', 'on'"]),
        (["the", "\u2581cat"], ["67%"]),
    ],
)
def test_vocabulary_without_words_of_the_text_prints_one_note(
    tmp_path, capsys, vocabulary, message
):
    write(tmp_path, **PARALLEL, vocab__txt=vocabulary)
    generate("text2text_tmpdir_tokens", tmp_path)
    out = capsys.readouterr().out
    notes = [line for line in out.splitlines() if line.startswith("note: ")]
    assert bool(notes) == bool(message)
    assert all("vocab.txt" in note for note in notes)
    for part in message:
        assert sum(part in note for note in notes) >= 1, (part, notes)
    assert len(notes) == len({*notes})


def test_special_words_in_the_text_print_no_note(tmp_path, capsys):
    write(tmp_path, **{**PARALLEL, "inputs__train__txt": ["<s> the cat"] * 12})
    write(tmp_path, vocab__txt=["<s>", *WORDS])
    generate("text2text_tmpdir_tokens", tmp_path)
    assert "note:" not in capsys.readouterr().out


def test_note_on_unknown_words_uses_first_examples(tmp_path, capsys):
    """The note counts words of the first examples, but all examples are still written."""
    texts = ["the cat"] * 1200 + ["other words here"] * 4000
    write(tmp_path, **PARALLEL)
    write(tmp_path, inputs__train__txt=texts, targets__train__txt=texts, vocab__txt=WORDS)
    problem, counts = generate("text2text_tmpdir_tokens", tmp_path)
    assert counts == {"train": 5200, "dev": 1}
    assert "note:" not in capsys.readouterr().out
    read = records(problem, tmp_path, "train")
    assert sum(record["inputs"] == [3, 4, 1] for record in read) == 1200
    problem.generate_data(str(tmp_path / "few"), str(tmp_path), max_cases=3)
    assert len(tfrecords.find(tmp_path / "few", problem.filename, "train"))


def test_changed_words_print_note(tmp_path, capsys):
    write(tmp_path, **PARALLEL, vocab__txt=WORDS)
    for words, is_noted in ((WORDS, False), (WORDS, False), ([*WORDS, "more"], True)):
        write(tmp_path, vocab__txt=words)
        capsys.readouterr()
        generate("text2text_tmpdir_tokens", tmp_path)
        assert ("these have changed: vocab.txt." in capsys.readouterr().out) == is_noted


@pytest.mark.parametrize(
    ("name", "noted"),
    [("text2class_tsv", ["vocab.text2class_tsv.8192.subwords"]), ("text2text_tmpdir_tokens", [])],
)
def test_note_names_only_side_files_that_max_cases_limits(tmp_path, capsys, name, noted):
    write(tmp_path, **PARALLEL, vocab__txt=WORDS)
    write(tmp_path, train__tsv=["a film\tgood", "a book\tbad"] * 20)
    problem, data = problems.get(name), tmp_path / "data"
    problem.generate_data(str(data), str(tmp_path), max_cases=9)
    for path in data.glob(f"{name}-*"):
        path.unlink()
    capsys.readouterr()
    problem.generate_data(str(data), str(tmp_path))
    notes = [line for line in capsys.readouterr().out.splitlines() if "may be built" in line]
    assert [note.split()[1] for note in notes] == noted


def test_text2text_tmpdir_names_missing_file(tmp_path):
    write(tmp_path, inputs__train__txt=["a"], targets__train__txt=["b"])
    with pytest.raises(DataError, match="inputs.eval.txt.*--tmp_dir.*tmp_dir="):
        generate("text2text_tmpdir", tmp_path)


def test_missing_raw_file_leaves_no_folder(tmp_path):
    """A wrong tmp_dir is often a typing error, so data_dir may be one too."""
    for folder in ("data", "more/data"):
        with pytest.raises(DataError, match="tmp_dir"):
            problems.get("text2text_tsv").generate_data(str(tmp_path / folder), str(tmp_path))
    assert not os.listdir(tmp_path)
