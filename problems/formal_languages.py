"""Generated strings to classify: parity and balanced brackets.

    parity40    "1 0 1 1"    odd     [3, 2, 3, 3, 1]  [1]      an odd number of ones
    parity10                                                   the same, shorter
    dyck40      "( ) ( ("    no      [2, 3, 2, 2, 1]  [0]      whether brackets are balanced

Train lengths are uniform up to 40, or up to 10 for `parity10`; bracket strings have even lengths.
Test strings have exactly twice the largest length, 80 or 20. All short strings belong to training.
Short means fewer than 5 digits in `parity10`, 10 digits in `parity40`, or 12 brackets in `dyck40`.
Validation therefore has only longer strings (for `parity10`, 88 strings with 6 to 10 digits). Half
of the bracket strings are balanced. In the other half, two brackets of a balanced string are
exchanged, so counting brackets is not enough.
"""

import itertools
from collections.abc import Iterable

import numpy as np

from ut_keras.problems import generated_classes, problem

_LONGEST = 40
_OPENS, _CLOSES = "(", ")"


@problem.register("parity40")
class Parity40(generated_classes.GeneratedClasses):
    """A task to classify whether the number of ones is odd."""

    words = ("0", "1")
    labels = ("even", "odd")
    longest = _LONGEST
    all_trained_length = 9

    def sample_words(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
        length = 2 * self.longest if split == "test" else rng.integers(1, self.longest + 1)
        bits = rng.integers(2, size=length)
        return [str(bit) for bit in bits], self.labels[bits.sum() % 2]

    def is_all_trained(self, words: list[str]) -> bool:
        return len(words) <= self.all_trained_length


# A model with a depth of 14 can count up to 10 digits one by one.
problem.declare("parity10", Parity40, longest=10, all_trained_length=4)


@problem.register("dyck40")
class Dyck40(generated_classes.GeneratedClasses):
    """A task to classify whether brackets of one kind are balanced (Dyck-1)."""

    words = (_OPENS, _CLOSES)
    labels = ("no", "yes")

    def sample_words(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
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
    """Return whether every bracket is closed, and none before it is opened."""
    depths = list(itertools.accumulate(1 if b == _OPENS else -1 for b in brackets))
    return min(depths) >= 0 and depths[-1] == 0


def _balanced(rng, pairs):
    """Sample a balanced string of `pairs` pairs uniformly, by the cycle lemma.

    Take any string of n + 1 opening and n closing brackets. Exactly one rotation of this string
    never returns to depth 0. If its first bracket is removed, this rotation is a balanced string.
    """
    steps = rng.permutation([1] * (pairs + 1) + [-1] * pairs)
    depths = steps.cumsum()
    start = len(depths) - depths[::-1].argmin()  # the position after the last minimum
    rotated = [*steps[start:], *steps[:start]]
    return [_OPENS if step > 0 else _CLOSES for step in rotated[1:]]
