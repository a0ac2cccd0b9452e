import gzip
import os
import shutil
import zipfile

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.problems import wsj_parsing

TREE = "(TOP (S (NP (PRP It)) (VP (VBZ works)) (. .)))\n"
RAW = """\
( (S
    (NP-SBJ-1 (-NONE- *) )
    (NP=2 (NNS -LRB-s-RRB-))
    (ADVP|PRT (RB up))
    (-LRB- -LRB-) ))
"""


def lines(text):
    return [
        tuple(map(" ".join, wsj_parsing.to_line(t)))
        for t in wsj_parsing.read(text.splitlines(), "f")
    ]


def generate(tmp_path, tmp_dir=None):
    problem = problems.get("wsj_parsing")
    counts = problem.generate_data(str(tmp_path / "data"), str(tmp_dir or tmp_path))
    return problem, counts


def records(problem, tmp_path, split):
    encoder = problem.feature_encoders(tmp_path / "data")["inputs"]
    paths = tfrecords.find(tmp_path / "data", problem.filename, split)
    for path in paths:
        for example in tfrecords.read(path):
            assert all(ids[-1] == 1 for ids in example.values())
            yield {name: encoder.decode(ids[:-1]) for name, ids in example.items()}


@pytest.mark.parametrize("label", ["TOP ", "ROOT ", "S1 ", ""])
def test_to_line_matches_t2t(label):
    assert lines(TREE.replace("TOP ", label)) == [("It works .", "S NP PRP /NP VP VBZ /VP . /S")]


def test_other_outermost_labels_are_kept():
    assert lines("(NP (NN dog) )") == [("dog", "NP NN /NP")]


def test_trees_may_have_several_lines():
    assert lines(RAW)[0][1] == (
        "S NP-SBJ-1 -NONE- /NP-SBJ-1 NP=2 NNS /NP=2 ADVP|PRT RB /ADVP|PRT -LRB- /S"
    )
    assert len(lines(RAW + "\n" + TREE + TREE)) == 3


def test_clean_removes_traces_and_function_tags():
    (tree,) = wsj_parsing.read(RAW.splitlines(), "f")
    words, symbols = wsj_parsing.to_line(wsj_parsing.clean(tree))
    assert " ".join(words) == "-LRB-s-RRB- up -LRB-"
    assert " ".join(symbols) == "S NP NNS /NP ADVP|PRT RB /ADVP|PRT -LRB- /S"
    (empty,) = wsj_parsing.read(["(S (NP (-NONE- *)))"], "f")
    assert wsj_parsing.clean(empty) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NN a)\n", "1 brackets that are not closed"),
        ("(S (NN a)))", "line 1: '\\)' outside of a tree"),
        ("\nword", "line 2: 'word' outside of a tree"),
        ("(S (NN a b))", "line 1: 'NN' with 2 words"),
        ("(S (NN))", "line 1: 'NN' with 0 words"),
        ("(S (NN a) b)", "line 1: 'S' with 1 words"),
    ],
)
def test_invalid_tree_is_named(text, message):
    with pytest.raises(DataError, match=message):
        lines(text)


def test_wsj_parsing_generates_data(tmp_path):
    (tmp_path / "wsjTrain.trees").write_text(TREE * 10)
    with gzip.open(tmp_path / "wsjEval.trees.gz", "wt") as file:
        file.write(TREE)
    problem, counts = generate(tmp_path)
    assert counts == {"train": 10, "dev": 1}
    assert "vocab.wsj_parsing.32768.subwords" in os.listdir(tmp_path / "data")
    assert list(records(problem, tmp_path, "dev")) == [
        {"inputs": "It works .", "targets": "S NP PRP /NP VP VBZ /VP . /S"}
    ]
    (tmp_path / "wsjTest.trees").write_text(TREE * 2)
    assert generate(tmp_path)[1] == {"test": 2}


def test_carriage_returns_are_removed_as_in_t2t(tmp_path):
    (tmp_path / "wsjTrain.trees").write_bytes(
        b"(TOP (S (NP (PRP I\rt)) (VP (VBZ works)) (. .)))\r\n"
    )
    problem = problems.get("wsj_parsing")
    [sample] = problem.generate_samples("train", "", str(tmp_path), 0)
    assert sample["inputs"] == "It works ."


def test_missing_and_damaged_files_are_named(tmp_path):
    (tmp_path / "wsjTrain.trees").write_text(TREE)
    with pytest.raises(DataError, match="tmp_dir .*wsjEval.trees"):
        generate(tmp_path)
    (tmp_path / "wsjEval.trees.gz").write_bytes(gzip.compress(TREE.encode())[:-9])
    with pytest.raises(DataError, match="wsjEval.trees.gz must be a complete text"):
        generate(tmp_path)


def test_decoded_trees_are_scored():
    problem = problems.get("wsj_parsing")
    tree = "S NP PRP /NP VP VBZ /VP . /S"
    scores = problem.score_decoded(["It works ."], [tree], ["S PRP VP VBZ /VP . /S"])
    assert scores["labelled_recall"] == pytest.approx(2 / 3)
    assert scores["labelled_precision"] == 1


def test_real_data(shared_dir, tmp_path):
    folder = os.path.join(shared_dir, "data", "treebank")
    for ours, theirs in (("wsjTrain", "train"), ("wsjEval", "eval")):
        source = os.path.join(folder, f"wsj_sample.{theirs}.clean.trees.gz")
        shutil.copy(source, tmp_path / f"{ours}.trees.gz")
    problem, counts = generate(tmp_path)
    assert counts == {"train": 3_669, "dev": 245}
    assert problem.feature_encoders(tmp_path / "data")["targets"].vocab_size == 10_748
    found = list(records(problem, tmp_path, "dev"))
    assert found[1]["inputs"].startswith("The patent for Interleukin-3 covers materials and")
    targets = [record["targets"] for record in found]
    scores = problem.score_decoded([""] * 245, targets, targets)
    assert scores["labelled_f1"] == scores["whole_trees"] == 1


def test_real_data_with_traces(shared_dir):
    folder = os.path.join(shared_dir, "data", "treebank")
    both = []
    for form in ("raw", "clean"):
        path = os.path.join(folder, f"wsj_sample.eval.{form}.trees.gz")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            both.append(
                [
                    wsj_parsing.to_line(wsj_parsing.clean(tree))
                    for tree in wsj_parsing.read(file, path)
                ]
            )
    assert len(both[0]) == 245
    assert both[0] == both[1]


def test_real_data_on_several_lines(shared_dir):
    path = os.path.join(shared_dir, "data", "treebank", "treebank.zip")
    with zipfile.ZipFile(path) as archive:
        text = archive.read("treebank/combined/wsj_0001.mrg").decode()
    found = [
        wsj_parsing.to_line(wsj_parsing.clean(tree))
        for tree in wsj_parsing.read(text.splitlines(), path)
    ]
    assert len(found) == 2
    assert found[1][0][:4] == ["Mr.", "Vinken", "is", "chairman"]
    assert found[1][1][:6] == ["S", "NP", "NNP", "NNP", "/NP", "VP"]


GOLD = "S NP DT NN /NP VP VBZ NP DT NN /NP /VP . /S"


def f1(gold, written):
    return wsj_parsing.score([gold], [written])["labelled_f1"]


def test_score_matches_worked_example():
    # The reference has S 0-5, NP 0-2, VP 2-5 and NP 3-5. The hypothesis has VP 2-3 instead of VP
    # 2-5.
    written = "S NP DT NN /NP VP VBZ /VP NP DT NN /NP . /S"
    assert wsj_parsing.score([GOLD], [written]) == {
        "labelled_f1": 0.75,
        "labelled_precision": 0.75,
        "labelled_recall": 0.75,
        "labelled_complete_match": 0.0,
        "whole_trees": 1.0,
    }
    assert set(wsj_parsing.score([GOLD], [GOLD]).values()) == {1.0}


def test_equal_brackets_count_as_often_as_they_occur():
    scores = wsj_parsing.score(["NP NP NN /NP /NP"], ["NP NN /NP"])
    assert scores["labelled_recall"] == 1 / 2
    assert scores["labelled_precision"] == 1
    assert scores["labelled_f1"] == pytest.approx(2 / 3)


def test_score_sums_over_all_sentences():
    # In the two sentences, 4 of 4 brackets and 0 of 1 brackets are correct. The score is not the
    # mean of 1 and 0.
    scores = wsj_parsing.score([GOLD, "NP NN /NP"], [GOLD, "VP NN /VP"])
    assert scores["labelled_f1"] == 4 / 5
    assert scores["labelled_complete_match"] == 1 / 2


def test_score_ignores_punctuation():
    gold = "S `` NP NN /NP , VP VBZ /VP '' . /S"
    assert f1(gold, "S `` NP NN , /NP VP VBZ '' /VP . /S") == 1
    # The reference tree determines which words are punctuation. EVALB would skip the sentence.
    assert f1(gold, "S `` NP NN NN /NP VP VBZ '' /VP . /S") == 1
    # A phrase that consists of a comma is not a bracket. The brackets S and NP remain.
    scores = wsj_parsing.score(["S PRN , /PRN NP NN /NP VB /S"], ["S , NN VB /S"])
    assert scores["labelled_recall"] == 1 / 2


def test_score_normalizes_labels():
    assert f1("VP VB PRT RP /PRT /VP", "VP VB ADVP RP /ADVP /VP") == 1
    assert f1("S NP-SBJ NN /NP-SBJ VB /S", "S NP NN /NP VB /S") == 1
    assert f1("TOP S NP NN /NP VB /S /TOP", "S NP NN /NP VB /S") == 1
    # One of two brackets is wrong because its label is in no reference.
    assert f1("S NP NN /NP VB /S", "S FRAG NN /FRAG VB /S") == 1 / 2


@pytest.mark.parametrize(
    ("written", "right", "in_written"),
    [
        ("S NP DT NN", 1, 2),  # the end closes NP 0-2 and S 0-2
        ("S NP DT NN /NP VP VBZ /VP /PP /S", 3, 3),  # /PP closes no bracket
        ("S NP DT NN VP VBZ /VP /S", 2, 3),  # /S also closes NP 0-3
        ("NP DT NN /NP VP VBZ /VP", 2, 2),
        ("S NP DT NN /NP VP VBZ NN /VP /S", 1, 3),  # an additional word gives VP 2-4 and S 0-4
        ("/S / /", 0, 0),
        ("", 0, 0),
    ],
)
def test_score_counts_invalid_trees(written, right, in_written):
    gold = "S NP DT NN /NP VP VBZ /VP /S"
    scores = wsj_parsing.score([gold], [written])
    assert scores["labelled_f1"] == pytest.approx(2 * right / (3 + in_written))
    assert scores["labelled_complete_match"] == 0


def test_score_reports_whole_trees():
    gold = "S NP DT NN /NP VP VBZ /VP /S"
    written = ["S DT NN VBZ /S", "S DT NN /S", "S DT NN VBZ", "S DT NN VBZ /NP /S"]
    assert wsj_parsing.score([gold] * 4, written)["whole_trees"] == 1 / 4


def test_score_of_nothing_is_zero():
    assert wsj_parsing.score([], [])["labelled_f1"] == 0
