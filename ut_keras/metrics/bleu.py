"""T2T's BLEU, in [0, 1], with a single reference.

    bleu_wrapper("ref.txt", "hyp.txt")                          ->  0.2731      lower case
    bleu_wrapper("ref.txt", "hyp.txt", case_sensitive=True)     ->  0.2654

sacreBLEU, which is common in papers, splits text into words differently. For the same files,
sacreBLEU returns 0.2648 (case-sensitive).

References: Papineni et al. 2002; tensor2tensor/utils/bleu_hook.py; Post 2018 (sacreBLEU).
"""

import collections
import functools
import math
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any


def compute_bleu(
    references: Sequence[Sequence[Any]],
    hypotheses: Sequence[Sequence[Any]],
    max_order: int = 4,
    use_bp: bool = True,
) -> float:
    """Compute T2T's BLEU of a corpus.

        BLEU = min(1, exp(1 - r / h)) * (p_1 p_2 … p_max_order)^(1 / max_order)

    r and h are the numbers of tokens in the references and the hypotheses. p_n is the fraction of
    the hypotheses' n-grams that occur in their references. If no n-gram of an order matches, the
    function counts half a match for this order. For the next order without matches, it counts a
    quarter of a match, and so on. p_n is 1 for an order without n-grams.

    Args:
        references, hypotheses: lists of lists of tokens (or ids), one list for each segment.
        max_order: int. Length of the longest n-grams.
        use_bp: bool. Whether to apply the brevity penalty, which is the first factor.

    Returns:
        float in [0, 1].
    """
    matches, possible = [0] * max_order, [0] * max_order
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        for order in range(1, max_order + 1):
            reference_ngrams = _ngrams(reference, order)
            hypothesis_ngrams = _ngrams(hypothesis, order)
            matches[order - 1] += sum((reference_ngrams & hypothesis_ngrams).values())
            possible[order - 1] += sum(hypothesis_ngrams.values())
    reference_length = sum(map(len, references))
    hypothesis_length = sum(map(len, hypotheses))
    if not any(possible):
        return 0.0
    smoothing, log_precision = 1.0, 0.0
    for matched, total in zip(matches, possible, strict=True):
        if total and not matched:
            smoothing *= 2
        log_precision += math.log((matched or 1 / smoothing) / total) if total else 0.0
    bleu = math.exp(log_precision / max_order)
    if use_bp and hypothesis_length < reference_length:
        bleu *= math.exp(1 - reference_length / hypothesis_length)
    return bleu


def bleu_tokenize(text: str) -> list[str]:
    """Split a line into words as mteval-v14 does.

    Words are split at punctuation, except between digits: "1,000.5" is one word. As in mteval-v14,
    a full stop after a number at the end of a line remains part of the number. As in T2T, a
    backslash is not punctuation.
    """
    for pattern, replacement in _tokenization_rules():
        text = pattern.sub(replacement, text)
    return text.split()


def bleu_wrapper(ref_filename: str, hyp_filename: str, case_sensitive: bool = False) -> float:
    """Compute T2T's BLEU, in [0, 1], of a file of translations and a reference file.

    Raises:
        ValueError: if the files do not have the same number of lines.
    """
    references, hypotheses = _read(ref_filename), _read(hyp_filename)
    if len(references) != len(hypotheses):
        raise ValueError(
            "The two files must have the same number of lines. "
            f"Received: {ref_filename} with {len(references)}, {hyp_filename} with "
            f"{len(hypotheses)}."
        )
    return bleu_of_lines(references, hypotheses, case_sensitive)


def bleu_of_lines(
    references: Sequence[str], hypotheses: Sequence[str], case_sensitive: bool
) -> float:
    """Compute T2T's BLEU, in [0, 1], of two lists of lines."""

    def words(lines):
        return [bleu_tokenize(line if case_sensitive else line.lower()) for line in lines]

    return compute_bleu(words(references), words(hypotheses))


def _ngrams(tokens, order):
    starts = range(len(tokens) - order + 1)
    return collections.Counter(tuple(tokens[start : start + order]) for start in starts)


def _read(filename):
    with open(filename, encoding="utf-8", newline="") as file:
        return file.read().split("\n")


@functools.cache
def _tokenization_rules():
    """Return pairs (pattern, replacement), which are applied in this order."""
    punctuation, symbols = _character_class("P", excluding="\\"), _character_class("S")
    return (
        (re.compile(rf"([^\d])({punctuation})"), r"\1 \2 "),
        (re.compile(rf"({punctuation})([^\d])"), r" \1 \2"),
        (re.compile(rf"({symbols})"), r" \1 "),
    )


def _character_class(category, excluding=""):
    """Return a regular expression for the characters of a Unicode category."""
    every = map(chr, range(sys.maxunicode))
    chosen = (c for c in every if unicodedata.category(c)[0] == category and c not in excluding)
    return f"[{re.escape(''.join(chosen))}]"
