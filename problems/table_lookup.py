"""Compositional table lookup: functions of a symbol, applied one after the other.

    inputs    "5 d a f"     the symbol 5; then d, a and f of it       [7, 13, 10, 15, 1]
    targets   "2"           f(a(d(5)))                                [2]

There are eight symbols and eight functions a to h, each a permutation of the symbols that is always
the same one; the example's values are made up. `ctl_backward` has the inputs the other way round,
"f a d 5". One function needs one step, and a deeper composition more.

    problem                             train   dev    test     depths, functions in a row
    ctl_forward, ctl_backward           1 to 5  6 to 8 9, 10    what training has, and deeper ones
    ctl_forward_iid, ctl_backward_iid   1 to 5  2 to 5 2 to 5   compositions that training has not

From Liška et al. 2018 ("Memorize or generalize?"); depths as in Csordás et al. 2022 ("The Neural
Data Router"), whose answer is a class, too. The tables and the number of examples are ours.
"""

import numpy as np

from problems import generated_classes, problem

_SYMBOLS = tuple("01234567")
_FUNCTIONS = tuple("abcdefgh")
TABLES = np.random.default_rng(0).permuted(np.tile(np.arange(8), (8, 1)), axis=1)


@problem.register("ctl_forward")
class TableLookup(generated_classes.GeneratedClasses):
    """The functions in the order in which they are applied."""

    paper = "Csordás et al. 2022"
    words = _SYMBOLS + _FUNCTIONS
    labels = _SYMBOLS
    sizes = {"train": 50_000, "dev": 1_000, "test": 1_000}
    depths = {"train": (1, 5), "dev": (6, 8), "test": (9, 10)}

    def draw(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
        shallowest, deepest = self.depths[split]
        functions = rng.integers(8, size=rng.integers(shallowest, deepest + 1))
        symbol = first = int(rng.integers(8))
        for function in functions:
            symbol = TABLES[function, symbol]
        return [_SYMBOLS[first], *(_FUNCTIONS[f] for f in functions)], _SYMBOLS[symbol]

    def is_all_trained(self, words: list[str]) -> bool:
        return len(words) == 2


@problem.register("ctl_forward_iid")
class TableLookupIid(TableLookup):
    """Tests the depths that it trains."""

    depths = {"train": (1, 5), "dev": (2, 5), "test": (2, 5)}


@problem.register("ctl_backward")
class TableLookupBackward(TableLookup):
    """The functions as they are written, the last one first."""

    def draw(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
        words, label = super().draw(rng, split)
        return words[::-1], label


@problem.register("ctl_backward_iid")
class TableLookupBackwardIid(TableLookupBackward):
    """Tests the depths that it trains."""

    depths = TableLookupIid.depths
