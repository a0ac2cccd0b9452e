"""Constituency parsing (Wall Street Journal) as translation to linearized trees.

    (TOP (S (NP (NNP Mr.) (NNP Vinken)) (VP (VBZ is) (NP (NP (NN chairman)) …)) (. .)))

Both features share a vocabulary of about 32,768 subwords. A record of the tree above, with the ids
of a smaller vocabulary of 10,748 subwords, which was built from the treebank's public sample:

    inputs    Mr. Vinken is chairman of Elsevier N.V. , the Dutch publishing group .
              [66, 40, 4988, 52, 302, …, 971, 321, 19, 1]
    targets   S NP NNP NNP /NP VP VBZ NP NP NN /NP PP IN NP NP NNP NNP /NP , NP DT NNP VBG NN /NP
              /NP /PP /NP /VP . /S
              [5, 3, 9, 9, 2, 3, 4, 29, 3, 3, 7, …, 2, 4, 17, 5, 1]

Put `wsjTrain.trees` and `wsjEval.trees` into tmp_dir, and `wsjTest.trees` if you have it. They may
be gzipped. A tree may take several lines, as in the treebank's `.mrg` files. The outer TOP bracket
is optional. It is usual to train on sections 02-21 of the Penn Treebank, to validate on section 22
and to test on section 23. The treebank requires a licence.

The name of the problem and the format of the trees (see `to_line`) are the same as in T2T. There
are two differences:

- Traces and function tags are removed, as usual in parsing. T2T keeps them.
- The vocabulary is built from the training trees. T2T builds it from the first 1,000 pairs of
  `wsj.train.text.txt` and `wsj.train.tags.txt`.

Decoded trees are scored by the F1 of labelled brackets, see `score`.
"""

import collections
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Texts
from ut_keras.text import text_lines

# Labels of the bracket around a sentence. This bracket is not a phrase. In `.mrg` files, its label
# is "".
OUTERMOST = ("", "TOP", "ROOT", "S1")
_TOKEN = re.compile(r"[()]|[^\s()]+")
_FUNCTION = re.compile(r"(?<!^)[-=].*")


class Tree(NamedTuple):
    """A node of a parse tree: a phrase, or a part of speech with its word."""

    label: str
    children: list  # list of `Tree`, or a list of one str, the word

    @property
    def is_word(self) -> bool:
        return isinstance(self.children[0], str)


def read(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Yield the trees in lines of text. A tree may span several lines.

    Raises:
        DataError: if brackets or words are misplaced. The error message names the file.
    """
    stack = []
    for number, line in enumerate(lines, start=1):
        previous = None
        for token in _TOKEN.findall(line):
            if token == "(":
                stack.append(Tree("", []))
            elif not stack:
                raise _error(name, number, f"{token!r} outside of a tree")
            elif token != ")":
                if previous == "(":
                    stack[-1] = Tree(token, [])
                else:
                    stack[-1].children.append(token)
            else:
                tree = stack.pop()
                words = [child for child in tree.children if isinstance(child, str)]
                if not tree.children or (words and len(tree.children) > 1):
                    raise _error(name, number, f"{tree.label!r} with {len(words)} words in it")
                if stack:
                    stack[-1].children.append(tree)
                else:
                    yield tree
            previous = token
    if stack:
        raise _error(name, "the last", f"{len(stack)} brackets that are not closed")


def _error(name, number, received):
    return DataError(
        f"A tree must be a pair of brackets that contains a label, then either one word or trees. "
        f"Received: {name}, line {number}: {received}."
    )


def clean(tree: Tree) -> Tree | None:
    """Return the tree without traces (-NONE-) and function tags (NP-SBJ-1 becomes NP).

    The return value is None if no word remains.
    """
    if tree.is_word:
        return None if tree.label == "-NONE-" else tree
    children = [child for child in map(clean, tree.children) if child]
    return Tree(_FUNCTION.sub("", tree.label), children) if children else None


def to_line(tree: Tree) -> tuple[list[str], list[str]]:
    """Return (words, symbols), two lists of str.

        (TOP (S (NP (PRP It)) (VP (VBZ works)) (. .)))
        words     It works .
        symbols   S NP PRP /NP VP VBZ /VP . /S

    This is T2T's format, which follows Vinyals et al. 2015. A phrase opens with its label and
    closes with a slash and its label. A part of speech replaces its word. The outermost TOP is
    omitted.
    """
    words, symbols = [], []

    def walk(node):
        if node.is_word:
            symbols.append(node.label)
            words.append(node.children[0])
            return
        is_phrase = node.label not in OUTERMOST
        if is_phrase:
            symbols.append(node.label)
        for child in node.children:
            walk(child)
        if is_phrase:
            symbols.append(f"/{node.label}")

    walk(tree)
    return words, symbols


_PUNCTUATION = frozenset([",", ":", "``", "''", "."])
_SAME = {"PRT": "ADVP"}
_SUFFIX = re.compile(r"[-=].*")


def score(references: list[str], hypotheses: list[str]) -> dict[str, float]:
    """Return the F1 score of labelled brackets, as in EVALB with COLLINS.prm.

    A bracket is the label of a phrase together with the words that it spans. A predicted bracket is
    correct if the reference tree also contains it. If a bracket occurs several times in a tree,
    each occurrence counts. The counts are summed over all sentences before F1 is computed. These
    rules apply to both trees:

    - `TOP` is not a bracket.
    - The words `, : `` '' .` are removed. A phrase without remaining words is not a bracket.
    - The part of a label after - or = is removed. PRT equals ADVP.

    A model can output symbols that are not a tree over the sentence. EVALB skips such a sentence.
    This function scores such a sentence, with these rules for the hypothesis:

    - A closing symbol closes its phrase and all phrases that were opened inside it.
    - A closing symbol is ignored if no phrase with its label is open.
    - Phrases that are still open at the end are closed at the end.
    - The n-th part of speech belongs to the n-th word.
    - The reference tree determines which words are punctuation.

    If every hypothesis is a tree over its sentence and has the right tags for punctuation, the
    numbers equal EVALB's. (PYEVALB counts a repeated bracket only once and keeps punctuation.)

    Args:
        references: list of str. Symbols as in `to_line`, separated by spaces.
        hypotheses: list of str, in the same format.

    Returns:
        dict with values in [0, 1]: "labelled_f1", "labelled_precision", "labelled_recall",
        "labelled_complete_match" (share of sentences whose brackets are all correct) and
        "whole_trees" (share of hypotheses that are trees over the right number of words).
    """
    phrases, parts_of_speech = _symbols(references)
    right = in_references = in_hypotheses = complete = whole = 0
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        tags, gold, _ = _parse(reference.split(), phrases)
        symbols = hypothesis.split()
        # A closing symbol in the hypothesis shows that its label is a phrase, even if no reference
        # contains this label.
        closed = {symbol[1:] for symbol in symbols if symbol.startswith("/")}
        written, found, is_balanced = _parse(symbols, phrases | (closed - parts_of_speech))
        is_whole = is_balanced and len(written) == len(tags)
        offsets = _word_offsets(tags, len(written))
        gold, found = _brackets(gold, offsets), _brackets(found, offsets)
        in_references += gold.total()
        in_hypotheses += found.total()
        right += (gold & found).total()
        complete += is_whole and gold == found
        whole += is_whole
    count = max(1, len(references))
    recall, precision = right / max(1, in_references), right / max(1, in_hypotheses)
    return {
        "labelled_f1": 2 * right / max(1, in_references + in_hypotheses),
        "labelled_precision": precision,
        "labelled_recall": recall,
        "labelled_complete_match": complete / count,
        "whole_trees": whole / count,
    }


def _symbols(references):
    """Return (labels of phrases, parts of speech)."""
    symbols = {symbol for reference in references for symbol in reference.split()}
    phrases = {symbol[1:] for symbol in symbols if symbol.startswith("/")}
    return phrases, {symbol for symbol in symbols if symbol[0] != "/"} - phrases


def _parse(symbols, phrases):
    """Parse symbols into a list of tags and a list of brackets.

    Returns:
        (tags, brackets, is_balanced). `tags` are the parts of speech. `brackets` is a list of
        (label, first word, last word + 1). `is_balanced` is True if every phrase is closed in the
        right order.
    """
    tags: list[str] = []
    brackets: list[tuple[str, int, int]] = []
    stack: list[tuple[str, int]] = []
    is_balanced = True
    for symbol in symbols:
        if symbol.startswith("/"):
            labels = [label for label, _ in stack]
            is_balanced &= labels[-1:] == [symbol[1:]]
            while symbol[1:] in labels:
                label, start = stack.pop()
                brackets.append((label, start, len(tags)))
                if label == symbol[1:]:
                    break
        elif symbol in phrases:
            stack.append((symbol, len(tags)))
        else:
            tags.append(symbol)
    is_balanced &= not stack
    brackets.extend((label, start, len(tags)) for label, start in stack)
    return tags, brackets, is_balanced


def _word_offsets(tags, count):
    """Return, for each word, the number of earlier words that are not punctuation.

    The list ends with the total. Words without a tag, up to `count`, are not punctuation.
    """
    counted = [tag not in _PUNCTUATION for tag in tags] + [True] * (count - len(tags))
    return [0, *itertools.accumulate(counted)]


def _brackets(found, offsets):
    """Return the brackets to score. Their positions do not count punctuation.

    The result is a Counter.
    """
    brackets: collections.Counter[tuple[str, int, int]] = collections.Counter()
    for label, start, end in found:
        label = _SUFFIX.sub("", label)
        if offsets[start] < offsets[end] and label not in OUTERMOST:
            brackets[_SAME.get(label, label), offsets[start], offsets[end]] += 1
    return brackets


_FILES = {
    split: download.RawFile(name, "", licence="LDC User Agreement (Penn Treebank, LDC99T42)")
    for split, name in (
        ("train", "wsjTrain.trees"),
        ("dev", "wsjEval.trees"),
        ("test", "wsjTest.trees"),
    )
}


@problem.register("wsj_parsing")
class WsjParsing(text_problems.Text2TextProblem):
    """The problem of translating the words of a sentence to its linearized tree."""

    splits = ("train", "dev", "test")
    paper = "Vinyals et al. 2015, Grammar as a Foreign Language (not in the UT paper)"
    raw_files = tuple(_FILES.values())
    other_results = ("decode/labelled_*", "decode/whole_trees")

    def splits_to_generate(self, tmp_dir: str | None) -> tuple[str, ...]:
        return self.splits if _find_file(tmp_dir, "test") else self.splits[:2]

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        path = next(iter(_find_file(tmp_dir, split)), None)
        if not path:
            raise DataError(
                f"tmp_dir must contain {_FILES[split].name} with trees in brackets. "
                f"Received: tmp_dir={tmp_dir!r}, which does not contain this file."
            )
        lines = raw_text.with_text(text_lines.lines_without_carriage_returns(path), path)
        for tree in map(clean, read(lines, path)):
            if tree:
                words, symbols = to_line(tree)
                yield {"inputs": " ".join(words), "targets": " ".join(symbols)}

    def score_decoded(
        self, sources: list[str], references: list[str], hypotheses: list[str]
    ) -> dict[str, float]:
        return score(references, hypotheses)


def _find_file(tmp_dir, split):
    name = _FILES[split].name
    return raw_text.find_local(tmp_dir, _FILES[split], name, f"{name}.gz")
