"""Strings that are in a language or not: parity and balanced brackets. Nothing to download.

    parity40    "1 0 1 1"    odd     [3, 2, 3, 3, 1]  [1]      an odd number of ones
    parity10                                                   the same, shorter
    dyck40      "( ) ( ("    no      [2, 3, 2, 2, 1]  [0]      every bracket closed, none too early

Training has lengths up to 40, of `parity10` up to 10 (brackets: even ones), uniform; the test is
twice as long, exactly 80 or 20. Short strings, of less than 5, 10 or 12, are all trained on, so
that validation has longer ones only (of `parity10` 88, of 6 to 10 digits). Half of the strings of
brackets are balanced; of the others, two brackets of a balanced one have changed places, so that to
count them is not enough.
"""

import itertools
from collections.abc import Iterable

import numpy as np

from ut_keras.problems import generated_classes, problem

_LONGEST = 40
_OPENS, _CLOSES = "(", ")"


@problem.register("parity40")
class Parity40(generated_classes.GeneratedClasses):
    """Whether the number of ones is odd."""

    words = ("0", "1")
    labels = ("even", "odd")
    longest = _LONGEST
    all_trained_length = 9

    def draw(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
        length = 2 * self.longest if split == "test" else rng.integers(1, self.longest + 1)
        bits = rng.integers(2, size=length)
        return [str(bit) for bit in bits], self.labels[bits.sum() % 2]

    def is_all_trained(self, words: list[str]) -> bool:
        return len(words) <= self.all_trained_length


# As many digits as a depth of 14 can count one by one.
problem.declare("parity10", Parity40, longest=10, all_trained_length=4)


@problem.register("dyck40")
class Dyck40(generated_classes.GeneratedClasses):
    """Whether brackets of one kind are balanced (Dyck-1)."""

    words = (_OPENS, _CLOSES)
    labels = ("no", "yes")

    def draw(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
        pairs = _LONGEST if split == "test" else int(rng.integers(1, _LONGEST // 2 + 1))
        brackets = _balanced(rng, pairs)
        if rng.random() < 0.5:
            return brackets, "yes"
        while is_balanced(brackets):
            i, j = rng.integers(len(brackets), size=2)
            brackets[i], brackets[j] = brackets[j], brackets[i]
        return brackets, "no"

    def is_all_trained(self, words: list[str]) -> bool:
        return len(words) < 12


def is_balanced(brackets: Iterable[str]) -> bool:
    """Whether every bracket is closed, and none before it is opened."""
    depths = list(itertools.accumulate(1 if b == _OPENS else -1 for b in brackets))
    return min(depths) >= 0 and depths[-1] == 0


def _balanced(rng, pairs):
    """Draws one of all balanced strings of so many pairs, each as likely (the cycle lemma).

    Of the rotations of n + 1 opening and n closing brackets one alone never returns to depth 0; its
    first bracket, left out, leaves a balanced string.
    """
    steps = rng.permutation([1] * (pairs + 1) + [-1] * pairs)
    depths = steps.cumsum()
    start = len(depths) - depths[::-1].argmin()  # behind the last lowest point
    rotated = [*steps[start:], *steps[:start]]
    return [_OPENS if step > 0 else _CLOSES for step in rotated[1:]]
