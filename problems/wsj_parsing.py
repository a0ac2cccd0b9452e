"""Constituency parsing of the Penn Treebank's Wall Street Journal, as translation into a tree.

    (TOP (S (NP (NNP Mr.) (NNP Vinken)) (VP (VBZ is) (NP (NP (NN chairman)) …)) (. .)))

A record; both features share one of about 32,768 subwords, 10,748 of the test's sample:

    inputs    Mr. Vinken is chairman of Elsevier N.V. , the Dutch publishing group .
              [66, 40, 4988, 52, 302, …, 971, 321, 19, 1]
    targets   S NP NNP NNP /NP VP VBZ NP NP NN /NP PP IN NP NP NNP NNP /NP , NP DT NNP VBG NN /NP
              /NP /PP /NP /VP . /S
              [5, 3, 9, 9, 2, 3, 4, 29, 3, 3, 7, …, 2, 4, 17, 5, 1]

Put `wsjTrain.trees` and `wsjEval.trees` into tmp_dir, and `wsjTest.trees` if you have it; they may
be gzipped. A tree stands on one line or on several, as in the treebank's `.mrg` files, with or
without TOP around it. The usual sections are 02-21, 22 and 23; they are licensed.

Names and symbols are T2T's, see trees.py. Traces and function tags are taken out, as everywhere in
parsing; T2T leaves them in. The vocabulary is built from the training trees; T2T's from the first
1,000 pairs of `wsj.train.text.txt` and `wsj.train.tags.txt`. Free decoding is scored by F1 of
labelled brackets, see labelled_brackets.py.
"""

import os

from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import labelled_brackets, problem, text_problems, trees
from ut_keras.problems.problem import Texts
from ut_keras.text import text_lines

_FILES = {"train": "wsjTrain.trees", "dev": "wsjEval.trees", "test": "wsjTest.trees"}
_LICENCE = "LDC User Agreement (Penn Treebank, LDC99T42)"


@problem.register("wsj_parsing")
class WsjParsing(text_problems.Text2TextProblem):
    """Words -> linearised tree."""

    splits = ("train", "dev", "test")
    paper = "Vinyals et al. 2015, Grammar as a Foreign Language (not in the UT paper)"
    licence = _LICENCE
    raw_files = tuple(download.RawFile(name, "", licence=_LICENCE) for name in _FILES.values())

    def splits_to_generate(self, tmp_dir: str | None) -> tuple[str, ...]:
        return self.splits if _find(tmp_dir, _FILES["test"]) else self.splits[:2]

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        for split in ("train", "dev"):
            if not _find(tmp_dir, _FILES[split]):
                raise DataError(
                    f"Expected {_FILES[split]} in tmp_dir, with trees in brackets. "
                    f"Received: tmp_dir={tmp_dir!r} without it."
                )
        super().prepare(data_dir, tmp_dir)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        path = _find(tmp_dir, _FILES[split])
        for tree in map(trees.clean, trees.read(text_lines.lines(path), path)):
            if tree:
                words, symbols = trees.to_line(tree)
                yield {"inputs": " ".join(words), "targets": " ".join(symbols)}

    def score_decoded(
        self, sources: list[str], references: list[str], hypotheses: list[str]
    ) -> dict[str, float]:
        return labelled_brackets.score(references, hypotheses)


def _find(tmp_dir, name):
    path = os.path.join(tmp_dir or "", name)
    return next((path + end for end in ("", ".gz") if os.path.isfile(path + end)), None)
