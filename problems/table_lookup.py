"""Compositional table lookup: functions of a symbol, applied one after the other.

    inputs    "5 d a f"     the symbol 5; then d, a and f of it       [7, 13, 10, 15, 1]
    targets   "2"           f(a(d(5)))                                [2]

There are eight symbols and eight functions a to h, each a permutation of the symbols that is always
the same one; the example's values are made up. `ctl_backward` has the inputs the other way round,
"f a d 5". One function needs one step, and a deeper composition more.

    problem                             train   dev    test     depths, functions in a row
    ctl_forward, ctl_backward           1 to 5  6 to 8 9, 10    what training has, and deeper ones
    ctl_forward_iid, ctl_backward_iid   1 to 5  2 to 5 2 to 5   compositions that training has not
    ctl_forward_11, ctl_backward_11     1 to 5  6 to 8 9, 10    as published: "<s> 5 d a f"

From Liška et al. 2018 ("Memorize or generalize?"); depths as in Csordás et al. 2022 ("The Neural
Data Router"), whose answer is a class, too. The tables and the number of examples are ours, but for
the problems of eleven functions.
"""

from collections.abc import Iterable

import numpy as np

from ut_keras.problems import generated_classes, problem
from ut_keras.problems.problem import Texts

_SYMBOLS = tuple("01234567")
_FUNCTIONS = tuple("abcdefghijk")
TABLES = np.random.default_rng(0).permuted(np.tile(np.arange(8), (8, 1)), axis=1)
_PUBLISHED = np.random.RandomState(0x12345678)
PUBLISHED_TABLES = np.stack([_PUBLISHED.permutation(8) for _ in range(11)])


@problem.register("ctl_forward")
class TableLookup(generated_classes.GeneratedClasses):
    """The functions in the order in which they are applied.

    Attributes:
        depths: dict from split to the fewest and the most functions.
        order: int, 1, or -1 where they are written the last one first.
        tables: int array [functions, 8], of which the first `num_composed` are drawn.
    """

    paper = "Csordás et al. 2022"
    words = _SYMBOLS + _FUNCTIONS[:8]
    labels = _SYMBOLS
    sizes = {"train": 50_000, "dev": 1_000, "test": 1_000}
    depths = {"train": (1, 5), "dev": (6, 8), "test": (9, 10)}
    order = 1
    tables = TABLES
    num_composed = 8

    def draw(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
        depth = rng.integers(*self.depths[split], endpoint=True)
        functions = rng.integers(self.num_composed, size=depth)
        return self.composed(int(rng.integers(8)), functions)

    def composed(self, first: int, functions: Iterable[int]) -> tuple[list[str], str]:
        """Functions, by their numbers, of a symbol: (list of words, label)."""
        symbol = first
        for function in functions:
            symbol = self.tables[function, symbol]
        words = [_SYMBOLS[first], *(_FUNCTIONS[f] for f in functions)]
        return words[:: self.order], _SYMBOLS[symbol]

    def is_all_trained(self, words: list[str]) -> bool:
        return len(words) == 2


@problem.register("ctl_forward_11")
class PublishedTableLookup(TableLookup):
    """As published: eleven functions, of which two are trained alone only.

    Training has 53,136 compositions of the others, no two of them the same; each of the eleven once
    for each symbol, and each of those two 30 times more. The tables are those of the authors' code,
    github.com/RobertCsordas/ndr, dataset/compositional_table_lookup.py; what is drawn, and what
    training must not have, is ours.
    """

    words = ("<s>", *_SYMBOLS, *_FUNCTIONS)
    sizes = {"train": 53_136 + 9 * 8 + 2 * 8 * 31, "dev": 1_000, "test": 1_000}
    depths = {"train": (2, 5), "dev": (6, 8), "test": (9, 10)}
    tables = PUBLISHED_TABLES
    num_composed = 9

    def composed(self, first: int, functions: Iterable[int]) -> tuple[list[str], str]:
        words, label = super().composed(first, functions)
        return ["<s>", *words], label

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        rng, count = np.random.default_rng(seed), self.sizes[split]
        if split == "train":
            for function, first in np.ndindex(11, 8):
                words, label = self.composed(first, [function])
                for _ in range(1 if function < 9 else 31):
                    count -= 1
                    yield {"inputs": " ".join(words), "targets": label}
        drawn: set[str] = set()
        while len(drawn) < count:
            sample = self.sample(rng, split)
            if sample["inputs"] not in drawn:
                drawn.add(sample["inputs"])
                yield sample


_IID = {"train": (1, 5), "dev": (2, 5), "test": (2, 5)}

problem.declare("ctl_forward_iid", TableLookup, depths=_IID)
problem.declare("ctl_backward", TableLookup, order=-1)
problem.declare("ctl_backward_iid", TableLookup, order=-1, depths=_IID)
problem.declare("ctl_backward_11", PublishedTableLookup, order=-1)
