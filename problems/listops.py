"""ListOps: nested lists of digits, each with an operation (Nangia & Bowman 2018).

    inputs    "[MAX 2 [MED 9 4 1 ] 0 ]"    [12, 4, 14, 11, 6, 3, 16, 2, 16, 1]
    targets   "4"                          [4]

The operations are the maximum (`[MAX`), the minimum (`[MIN`), the median rounded down (`[MED`) and
the sum modulo 10 (`[SM`) of two to five values. A value is a digit or a list. The depth of lists is
1 to 5 in training, 6 in validation and 7 or 8 in the test; `listops_iid` has 1 to 5 in all splits.
A list has at most 50 tokens.

The numbers of values and the depths are those of Csordás et al. 2022 ("The Neural Data Router"), if
they are published there. The sampling and the number of examples are different.
"""

import statistics
from collections.abc import Callable

import numpy as np

from ut_keras.problems import generated_classes, problem

_DIGITS = tuple("0123456789")
_OPERATIONS: dict[str, Callable[[list[int]], int]] = {
    "[MAX": max,
    "[MIN": min,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}
_MOST_VALUES = 5
# Share of the values that are lists. It does not count the list that is needed to reach the depth.
_NESTED = 0.25


@problem.register("listops")
class ListOps(generated_classes.GeneratedClasses):
    """A task whose test split has deeper lists than its train split."""

    paper = "Csordás et al. 2022"
    words = (*_DIGITS, *_OPERATIONS, "]")
    labels = _DIGITS
    depths = {"train": (1, 5), "dev": (6, 6), "test": (7, 8)}
    most_words = 50

    def sample_words(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
        depth = int(rng.integers(*self.depths[split], endpoint=True))
        words, value = _list(rng, depth, self.most_words - _fewest_words(depth))
        return words, str(value)


def _fewest_words(depth):
    """Return the smallest number of words of a list with this depth.

    A list of digits has depth 1.
    """
    return 3 * depth + 1


def _list(rng, depth, spare):
    """Sample (words, value) of a list of at most `_fewest_words` + `spare` words."""
    operation = list(_OPERATIONS)[rng.integers(len(_OPERATIONS))]
    more = min(int(rng.integers(_MOST_VALUES - 1)), spare)
    spare -= more
    deep = int(rng.integers(2 + more))
    words, values = [operation], []
    for number in range(2 + more):
        is_deep = depth > 1 and number == deep
        deepest = min(depth - 1, spare // 3)  # the largest depth of a list that replaces a digit
        if is_deep or (deepest > 0 and rng.random() < _NESTED):
            inner_depth = depth - 1 if is_deep else int(rng.integers(1, deepest + 1))
            if not is_deep:
                spare -= _fewest_words(inner_depth) - 1
            inner_spare = int(rng.integers(spare + 1))
            spare -= inner_spare
            inner, value = _list(rng, inner_depth, inner_spare)
        else:
            value = int(rng.integers(10))
            inner = [_DIGITS[value]]
        words += inner
        values.append(value)
    return [*words, "]"], _OPERATIONS[operation](values)


problem.declare("listops_iid", ListOps, depths=dict.fromkeys(ListOps.depths, (1, 5)))
