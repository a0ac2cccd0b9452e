"""A package's `TranslateProblem` reads the files that its `source_data_files` names."""

import gzip
import re

import pytest

from tests.text import sacre_bleu_test
from ut_keras import problems
from ut_keras.errors import DataError
from ut_keras.t2t import text_problems, translate

_PACKAGE = """
from tensor2tensor.data_generators import problem, text_problems, translate
from tensor2tensor.utils import registry

@registry.register_problem
class Mine(translate.TranslateProblem):
    vocab_type = text_problems.VocabType.CHARACTER
    dataset_splits = [{"split": split, "shards": 1} for split in ("train", "eval", "test")]

    def __init__(self, was_reversed, was_copy):  # T2T always passes both
        super().__init__(was_reversed, was_copy)

    def is_generate_per_split(self):  # a method, as in some problems of T2T
        return True

    def source_data_files(self, dataset_split):
        return [["", (f"{dataset_split}.en", f"{dataset_split}.de")]]
"""


def test_split_reads_its_own_files_line_by_line(load, tmp_path):
    """Unlike in T2T, "test" and "dev" differ. A carriage return does not end a line."""
    for split in ("train", "eval", "test"):
        (tmp_path / f"{split}.en").write_bytes(f"{split}\none\rtwo\nend\r\n".encode())
        (tmp_path / f"{split}.de").write_text(f"{split}er\neinszwei\nEnde\n")
    load(_PACKAGE)
    problem = problems.get("mine")
    problem.generate_data(str(tmp_path / "data"), str(tmp_path))
    for split in ("train", "dev", "test"):
        name = "eval" if split == "dev" else split
        base = tmp_path / f"mine-compiled-{split}"
        assert base.with_suffix(".lang1").read_text() == f"{name}\nonetwo\nend\n"
        assert base.with_suffix(".lang2").read_text() == f"{name}er\neinszwei\nEnde\n"


@pytest.mark.parametrize(
    "class_name, files, tokenizer",
    [
        ("TranslateEnzhMine", ("a", "b"), "zh"),
        ("TranslateZhenMine", ("a", "b"), "13a"),
        ("TranslateTestMine", ("train.en", "train.zh"), "zh"),
        ("TranslateZhenMine", ("train.en", "train.zh"), "13a"),
        ("Mine", ("train.en.gz", "train.zh.gz"), "zh"),
        ("Mine", ("UNv1.0.en-zh.zh", "UNv1.0.en-zh.en"), "13a"),
        ("Mine", ("src.txt", "dev-ref.zh_CN.sgm"), "zh"),
        ("TranslateMine", ("tsv", 1, 0, "?.tsv"), "13a"),
    ],
)
def test_bleu_uses_tokenizer_of_target_language(load, class_name, files, tokenizer):
    source = _PACKAGE.replace("class Mine", f"class {class_name}")
    load(source.replace('(f"{dataset_split}.en", f"{dataset_split}.de")', repr(files)))
    name = "mine" if class_name == "Mine" else re.sub("(?=[A-Z])", "_", class_name)[1:].lower()
    references, hypotheses = sacre_bleu_test.REFERENCES, sacre_bleu_test.HYPOTHESES
    expected = sacre_bleu_test.CHINESE if tokenizer == "zh" else 0
    scores = problems.get(name).score_decoded(hypotheses, references, hypotheses)
    assert scores == {"bleu": pytest.approx(expected, abs=5e-3)}
    if tokenizer == "zh":
        scores = problems.get(f"{name}_rev").score_decoded(hypotheses, references, hypotheses)
        assert scores == {"bleu": 0}


def test_target_space_id_selects_chinese(load, tmp_path):
    method = """
    def hparams(self, defaults, unused_model_hparams):
        super().hparams(defaults, unused_model_hparams)
        defaults.target_space_id = problem.SpaceID.ZH_TOK
"""
    load(_PACKAGE.replace(".en", ".a").replace(".de", ".b") + method)
    mine = problems.get("mine")
    assert mine.feature_languages() == {"inputs": "", "targets": "zh"}


def test_joined_files_of_an_earlier_process_print_note(tmp_path, capsys):
    """As in T2T, these files are read even if the raw files have changed."""
    (tmp_path / "one").write_text("new\n")
    (tmp_path / "two").write_text("neu\n")
    arguments = str(tmp_path), [["", ("one", "two")]]
    for _ in range(2):
        translate.compile_data(*arguments, "both")
    assert not capsys.readouterr().out
    for side in ("lang1", "lang2"):
        (tmp_path / f"earlier.{side}").write_text("old\n")
    base = translate.compile_data(*arguments, "earlier")
    assert f"existing files {base}.lang1" in capsys.readouterr().out


def test_tsv_columns_are_read(tmp_path):
    """The tables may be compressed. `compile_data` skips pairs with an empty side."""
    table = "\tno source\tx\nzwei\ttwo\tx\ndrei\n vier\tfour \n"
    (tmp_path / "a.tsv").write_text(table)
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(table.replace("two", "2").encode()))
    base = translate.compile_data(str(tmp_path), [["", ("tsv", 1, 0, "?.tsv*")]], "both")
    with open(f"{base}.lang1") as sources, open(f"{base}.lang2") as targets:
        assert sources.read() == "two\nfour\n2\nfour\n"
        assert targets.read() == "zwei\nvier\n" * 2


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ("a\nz\n", ["a", "b"], r"one of \['a', 'b'\]. Received: 'z' in .*labels"),
        ("0\ngood\n", None, "a number. Received: 'good' in .*labels"),
        (b"\xe4\n", None, "Text must be UTF-8. Received: .*labels, line 1"),
    ],
)
def test_unknown_label_raises(tmp_path, labels, classes, message):
    (tmp_path / "texts").write_text("one\ntwo\n")
    (tmp_path / "labels").write_bytes(labels if isinstance(labels, bytes) else labels.encode())
    paths = [str(tmp_path / name) for name in ("texts", "labels")]
    with pytest.raises(DataError, match=message):
        list(text_problems.text2class_txt_iterator(*paths, classes))


@pytest.mark.parametrize(
    ("sources", "targets", "note"),
    [
        ("a\nb\nc\n", "A\nB\n", r"one has more lines than \S*two.* line 2 "),
        ("a\nb\n", "A\nB\n\nD\n", r"two has more lines than \S*one.* line 2 "),
        ("", "A\n", r"two has more lines than \S*one.* line 0 "),
        ("a\nb\n\n", "A\nB", ""),
        ("a\nb", "A\nB\n\n\n", ""),
    ],
)
def test_files_of_different_lengths_print_note(tmp_path, capsys, sources, targets, note):
    (tmp_path / "one").write_text(sources)
    (tmp_path / "two").write_text(targets)
    paths = [str(tmp_path / name) for name in ("one", "two")]
    found = [sample["targets"] for sample in text_problems.text2text_txt_iterator(*paths)]
    assert found == ["A", "B"][: len(sources)]
    printed = capsys.readouterr().out
    assert re.search(note, printed) if note else not printed
    if sources:
        translate.compile_data(str(tmp_path), [["", ("one", "two")]], "both")
        assert (tmp_path / "both.lang2").read_text() == "A\nB\n"


def test_label_file_with_further_lines_prints_note(tmp_path, capsys):
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "two").write_text("A\tExtra_Label: 1\nB\n")
    paths = [str(tmp_path / name) for name in ("one", "two")]
    (sample,) = text_problems.text2text_txt_iterator_with_label(*paths)
    assert sample == {"inputs": "a", "targets": "A", "extra_label": [1]}
    assert "two has more lines" in capsys.readouterr().out


def test_lines_without_tab_print_note(tmp_path, capsys):
    (tmp_path / "pairs").write_text("a\tA\nb\n\nc\t\n")  # after `strip`, line 4 has no TAB
    samples = list(text_problems.text2text_txt_tab_iterator(str(tmp_path / "pairs")))
    assert samples == [{"inputs": "a", "targets": "A"}]
    assert re.search(r"note: 2 lines of \S*pairs have no TAB", capsys.readouterr().out)
    (tmp_path / "pairs").write_text("a\tA\n\n")
    assert len(list(text_problems.text2text_txt_tab_iterator(str(tmp_path / "pairs")))) == 1
    assert not capsys.readouterr().out


def test_removed_carriage_returns_print_note(tmp_path, capsys):
    (tmp_path / "dos").write_bytes(b"one two\r\nthree\r\n")
    assert list(text_problems.txt_line_iterator(str(tmp_path / "dos"))) == ["one two", "three"]
    assert not capsys.readouterr().out
    (tmp_path / "mac").write_bytes(b"one\rtwo\rthree")
    assert list(text_problems.txt_line_iterator(str(tmp_path / "mac"))) == ["onetwothree"]
    assert f"note: lines of {tmp_path}/mac have carriage returns" in capsys.readouterr().out


def test_lines_with_too_few_columns_print_note(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("1\tone\teins\n2\ttwo\nzwei\n\n3\t\tdrei\n")
    translate.compile_data(str(tmp_path), [["", ("tsv", 1, 2, "a.tsv")]], "both")
    assert (tmp_path / "both.lang2").read_text() == "eins\n"
    assert "note: 2 lines of a.tsv have fewer than 3 columns" in capsys.readouterr().out


def test_sgm_segments_belong_together_in_any_layout(tmp_path):
    """T2T pairs the lines of the files, so it exchanges or drops segments of such files."""
    (tmp_path / "a.sgm").write_text("<doc>\n<seg>one\nline</seg>\n<seg>two</seg>\n</doc>\n")
    (tmp_path / "b.sgm").write_text("<doc>\n<p>\n<seg>eins</seg><seg>zwei</seg>\n</p></doc>\n")
    base = translate.compile_data(str(tmp_path), [["", ("a.sgm", "b.sgm")]], "out")
    with open(f"{base}.lang1") as one, open(f"{base}.lang2") as other:
        assert (one.read(), other.read()) == ("one line\ntwo\n", "eins\nzwei\n")


def test_sgm_entities_stay_as_in_t2t(tmp_path):
    """Unlike the built-in problems, `compile_data` does not decode entities.

    docs/t2t.md lists this difference.
    """
    for name in ("a.sgm", "b.sgm"):
        (tmp_path / name).write_text('<doc>\n<seg id="1"> one &amp; two &lt;3 </seg>\n</doc>\n')
    base = translate.compile_data(str(tmp_path), [["", ("a.sgm", "b.sgm")]], "out")
    with open(f"{base}.lang1") as file:
        assert file.read() == "one &amp; two &lt;3\n"
