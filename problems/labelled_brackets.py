"""F1 of labelled brackets, by the rules of EVALB with the parameters COLLINS.prm.

A bracket is a phrase's label with the words that it spans. Of those in the right tree and those in
the one to score, each counts as often as it occurs; a bracket is right if it is in both.

    recall = right / in the right trees        precision = right / in the trees to score

over all sentences together. EVALB's rules: `TOP` is no bracket; the words `, : `` '' .` are taken
out, whereupon a phrase of nothing is no bracket; what follows - or = in a label is cut off; PRT is
the same as ADVP.

What a model writes need not be a tree over the sentence. EVALB gives up on such a sentence and
leaves it out; here it counts. A closing symbol closes all that is open within it, or is ignored if
nothing of its label is open; what is open at the end is closed. The n-th part of speech stands for
the n-th word, and which words are punctuation the right tree says. For trees over the sentence with
the right punctuation the numbers are EVALB's. (PYEVALB, last released in 2016, counts equal
brackets once and leaves punctuation in.)
"""

import collections
import re

from ut_keras.problems import trees

_PUNCTUATION = frozenset([",", ":", "``", "''", "."])
_SAME = {"PRT": "ADVP"}
_FUNCTION = re.compile(r"[-=].*")


def score(references: list[str], hypotheses: list[str]) -> dict[str, float]:
    """Scores linearised trees.

    Args:
        references, hypotheses: lists of str, symbols as of `trees.to_line` with spaces between.

    Returns:
        {"labelled_f1", "labelled_precision", "labelled_recall", "labelled_complete_match": share of
        sentences with the right brackets and no other, "whole_trees": share of hypotheses that are
        trees over as many words}, all in [0, 1].
    """
    phrases, parts_of_speech = _symbols(references)
    right = in_references = in_hypotheses = complete = whole = 0
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        tags, gold, _ = _parse(reference.split(), phrases)
        symbols = hypothesis.split()
        # A label that no reference has is known by its closing symbol.
        closed = {symbol[1:] for symbol in symbols if symbol.startswith("/")}
        written, found, is_balanced = _parse(symbols, phrases | (closed - parts_of_speech))
        is_whole = is_balanced and len(written) == len(tags)
        places = _places(tags, len(written))
        gold, found = _brackets(gold, places), _brackets(found, places)
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
    """(the labels of phrases, the parts of speech)."""
    symbols = {symbol for reference in references for symbol in reference.split()}
    phrases = {symbol[1:] for symbol in symbols if symbol.startswith("/")}
    return phrases, {symbol for symbol in symbols if symbol[0] != "/"} - phrases


def _parse(symbols, phrases):
    """(parts of speech, [(label, first word, word behind the last)], whether it is balanced)."""
    tags: list[str] = []
    brackets: list[tuple[str, int, int]] = []
    stack: list[tuple[str, int]] = []
    is_balanced = True
    for symbol in symbols:
        if symbol.startswith("/"):
            labels = [label for label, _ in stack]
            is_balanced &= labels[-1:] == [symbol[1:]]
            if symbol[1:] in labels:
                while True:
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


def _places(tags, count):
    """For each place between `count` words (or more), how many words that count are before it."""
    counted = [tag not in _PUNCTUATION for tag in tags]
    counted += [True] * (count - len(tags))
    places = [0]
    for is_counted in counted:
        places.append(places[-1] + is_counted)
    return places


def _brackets(found, places):
    """The brackets that count, as a Counter."""
    brackets: collections.Counter[tuple[str, int, int]] = collections.Counter()
    for label, start, end in found:
        label = _FUNCTION.sub("", label)
        if places[start] < places[end] and label not in trees.OUTERMOST:
            brackets[_SAME.get(label, label), places[start], places[end]] += 1
    return brackets
