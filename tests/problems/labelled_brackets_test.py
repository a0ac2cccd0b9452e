import pytest

from ut_keras.problems import labelled_brackets

GOLD = "S NP DT NN /NP VP VBZ NP DT NN /NP /VP . /S"


def f1(gold, written):
    return labelled_brackets.score([gold], [written])["labelled_f1"]


def test_worked_example():
    # Right: S 0-5, NP 0-2, VP 2-5, NP 3-5. Written: VP 2-3 in place of VP 2-5.
    written = "S NP DT NN /NP VP VBZ /VP NP DT NN /NP . /S"
    assert labelled_brackets.score([GOLD], [written]) == {
        "labelled_f1": 0.75,
        "labelled_precision": 0.75,
        "labelled_recall": 0.75,
        "labelled_complete_match": 0.0,
        "whole_trees": 1.0,
    }
    assert set(labelled_brackets.score([GOLD], [GOLD]).values()) == {1.0}


def test_equal_brackets_count_as_often_as_they_occur():
    scores = labelled_brackets.score(["NP NP NN /NP /NP"], ["NP NN /NP"])
    assert scores["labelled_recall"] == 1 / 2
    assert scores["labelled_precision"] == 1
    assert scores["labelled_f1"] == pytest.approx(2 / 3)


def test_sums_over_all_sentences():
    # 4 of 4 and 0 of 1: not the mean of 1 and 0.
    scores = labelled_brackets.score([GOLD, "NP NN /NP"], [GOLD, "VP NN /VP"])
    assert scores["labelled_f1"] == 4 / 5
    assert scores["labelled_complete_match"] == 1 / 2


def test_punctuation_is_taken_out():
    gold = "S `` NP NN /NP , VP VBZ /VP '' . /S"
    assert f1(gold, "S `` NP NN , /NP VP VBZ '' /VP . /S") == 1
    # What is punctuation, the right tree says; EVALB would leave the sentence out.
    assert f1(gold, "S `` NP NN NN /NP VP VBZ '' /VP . /S") == 1
    # The phrase of a comma alone is no bracket: S and NP are left.
    scores = labelled_brackets.score(["S PRN , /PRN NP NN /NP VB /S"], ["S , NN VB /S"])
    assert scores["labelled_recall"] == 1 / 2


def test_labels():
    assert f1("VP VB PRT RP /PRT /VP", "VP VB ADVP RP /ADVP /VP") == 1
    assert f1("S NP-SBJ NN /NP-SBJ VB /S", "S NP NN /NP VB /S") == 1
    assert f1("TOP S NP NN /NP VB /S /TOP", "S NP NN /NP VB /S") == 1
    # A label that no right tree has is one bracket of two that is wrong.
    assert f1("S NP NN /NP VB /S", "S FRAG NN /FRAG VB /S") == 1 / 2


@pytest.mark.parametrize(
    ("written", "right", "in_written"),
    [
        ("S NP DT NN", 1, 2),  # Closed at the end: NP 0-2, S 0-2.
        ("S NP DT NN /NP VP VBZ /VP /PP /S", 3, 3),  # /PP closes nothing.
        ("S NP DT NN VP VBZ /VP /S", 2, 3),  # /S closes NP 0-3 too.
        ("NP DT NN /NP VP VBZ /VP", 2, 2),
        ("S NP DT NN /NP VP VBZ NN /VP /S", 1, 3),  # A word too many: VP 2-4, S 0-4.
        ("/S / /", 0, 0),
        ("", 0, 0),
    ],
)
def test_what_is_no_tree_counts(written, right, in_written):
    gold = "S NP DT NN /NP VP VBZ /VP /S"
    scores = labelled_brackets.score([gold], [written])
    assert scores["labelled_f1"] == pytest.approx(2 * right / (3 + in_written))
    assert scores["labelled_complete_match"] == 0


def test_whole_trees():
    gold = "S NP DT NN /NP VP VBZ /VP /S"
    written = ["S DT NN VBZ /S", "S DT NN /S", "S DT NN VBZ", "S DT NN VBZ /NP /S"]
    assert labelled_brackets.score([gold] * 4, written)["whole_trees"] == 1 / 4


def test_nothing_to_score():
    assert labelled_brackets.score([], [])["labelled_f1"] == 0
