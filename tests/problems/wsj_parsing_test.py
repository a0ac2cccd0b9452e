import gzip
import os
import shutil
import zipfile

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.problems import trees

TREE = "(TOP (S (NP (PRP It)) (VP (VBZ works)) (. .)))\n"
RAW = """\
( (S
    (NP-SBJ-1 (-NONE- *) )
    (NP=2 (NNS -LRB-s-RRB-))
    (ADVP|PRT (RB up))
    (-LRB- -LRB-) ))
"""


def lines(text):
    return [tuple(map(" ".join, trees.to_line(t))) for t in trees.read(text.splitlines(), "f")]


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
def test_linearised_as_in_t2t(label):
    assert lines(TREE.replace("TOP ", label)) == [("It works .", "S NP PRP /NP VP VBZ /VP . /S")]


def test_other_outermost_labels_stay():
    assert lines("(NP (NN dog) )") == [("dog", "NP NN /NP")]


def test_trees_on_several_lines():
    assert lines(RAW)[0][1] == (
        "S NP-SBJ-1 -NONE- /NP-SBJ-1 NP=2 NNS /NP=2 ADVP|PRT RB /ADVP|PRT -LRB- /S"
    )
    assert len(lines(RAW + "\n" + TREE + TREE)) == 3


def test_traces_and_function_tags_are_taken_out():
    (tree,) = trees.read(RAW.splitlines(), "f")
    words, symbols = trees.to_line(trees.clean(tree))
    assert " ".join(words) == "-LRB-s-RRB- up -LRB-"
    assert " ".join(symbols) == "S NP NNS /NP ADVP|PRT RB /ADVP|PRT -LRB- /S"
    (empty,) = trees.read(["(S (NP (-NONE- *)))"], "f")
    assert trees.clean(empty) is None


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
def test_broken_trees(text, message):
    with pytest.raises(DataError, match=message):
        lines(text)


def test_generate(tmp_path):
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


def test_missing_and_damaged_files(tmp_path):
    (tmp_path / "wsjTrain.trees").write_text(TREE)
    with pytest.raises(DataError, match="Expected wsjEval.trees in tmp_dir"):
        generate(tmp_path)
    (tmp_path / "wsjEval.trees.gz").write_bytes(gzip.compress(TREE.encode())[:-9])
    with pytest.raises(DataError, match="wsjEval.trees.gz must be a whole text"):
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
            both.append([trees.to_line(trees.clean(tree)) for tree in trees.read(file, path)])
    assert len(both[0]) == 245
    assert both[0] == both[1]


def test_real_data_on_several_lines(shared_dir):
    path = os.path.join(shared_dir, "data", "treebank", "treebank.zip")
    with zipfile.ZipFile(path) as archive:
        text = archive.read("treebank/combined/wsj_0001.mrg").decode()
    found = [trees.to_line(trees.clean(tree)) for tree in trees.read(text.splitlines(), path)]
    assert len(found) == 2
    assert found[1][0][:4] == ["Mr.", "Vinken", "is", "chairman"]
    assert found[1][1][:6] == ["S", "NP", "NNP", "NNP", "/NP", "VP"]
