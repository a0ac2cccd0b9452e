"""Compositional table lookup: apply functions to a symbol, one after another.

    inputs    "5 d a f"     the symbol 5, then d, a and f             [7, 13, 10, 15, 1]
    targets   "2"           f(a(d(5)))                                [2]

There are eight symbols and eight functions a to h. Each function is a fixed permutation of the
symbols (the values in the example above are not the real ones). `ctl_backward` reverses the inputs:
"f a d 5". Each function of a composition requires one step.

    problem                             train   dev    test     depths: number of functions
    ctl_forward, ctl_backward           1 to 5  6 to 8 9, 10    deeper than in training
    ctl_forward_iid, ctl_backward_iid   1 to 5  2 to 5 2 to 5   the same depths, other compositions
    ctl_forward_11, ctl_backward_11     1 to 5  6 to 8 9, 10    as published: "<s> 5 d a f"

The task is from Liška et al. 2018 ("Memorize or generalize?"). The depths are those of Csordás et
al. 2022 ("The Neural Data Router"), where the target is also a class. Only the problems with eleven
functions have the published tables and the published number of train examples.
"""

from collections.abc import Iterable

import numpy as np

from ut_keras.problems import generated_classes, problem
from ut_keras.problems.problem import Texts

_SYMBOLS = tuple("01234567")
_FUNCTIONS = tuple("abcdefghijk")


def _tables(text: str) -> np.ndarray:
    """Return the permutations of eight symbols in `text`, an int array [functions, 8]."""
    return np.array([[int(symbol) for symbol in word] for word in text.split()])


# Literals, because NumPy may change the numbers that `default_rng` samples. Another table is
# another task: a model would then be scored on functions that it was not trained on.
TABLES = _tables("24365017 62745103 32176054 54307216 21360547 47650123 10423567 57631240")
# `numpy.random.RandomState(0x12345678).permutation(8)`, eleven times, as in the authors' code.
PUBLISHED_TABLES = _tables(
    "61570423 65732041 15730462 42150736 75640321 46032571 51042673 23014567 "
    "65042371 74253106 46213057"
)


@problem.register("ctl_forward")
class TableLookup(generated_classes.GeneratedClasses):
    """A task to apply functions to a symbol in the given order.

    Attributes:
        depths: dict from split to the smallest and the largest number of functions.
        order: int. 1, or -1 if the words are written in reverse.
        tables: int array [functions, 8]. Only the first `num_composed` functions are composed.
        num_composed: int. See `tables`.
    """

    paper = "Csordás et al. 2022"
    words = _SYMBOLS + _FUNCTIONS[:8]
    labels = _SYMBOLS
    sizes = {"train": 50_000, "dev": 1_000, "test": 1_000}
    depths = {"train": (1, 5), "dev": (6, 8), "test": (9, 10)}
    order = 1
    tables = TABLES
    num_composed = 8

    def sample_words(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
        depth = rng.integers(*self.depths[split], endpoint=True)
        functions = rng.integers(self.num_composed, size=depth)
        return self.composed(int(rng.integers(8)), functions)

    def composed(self, first: int, functions: Iterable[int]) -> tuple[list[str], str]:
        """Return (list of words, label) for the symbol `first` and function indices."""
        symbol = first
        for function in functions:
            symbol = self.tables[function, symbol]
        words = [_SYMBOLS[first], *(_FUNCTIONS[f] for f in functions)]
        return words[:: self.order], _SYMBOLS[symbol]

    def is_all_trained(self, words: list[str]) -> bool:
        return len(words) == 2


@problem.register("ctl_forward_11")
class PublishedTableLookup(TableLookup):
    """The published task: eleven functions, two of which occur only alone in training.

    Training has 53,136 different compositions of the other nine functions. It also has every single
    function once for each symbol, and the two special functions another 30 times. The tables are
    those of the authors' code, github.com/RobertCsordas/ndr, dataset/compositional_table_lookup.py.
    The sampling, and the choice of the examples for validation and test, are not the published
    ones.
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
        sampled: set[str] = set()
        while len(sampled) < count:
            sample = self.sample(rng, split)
            if sample["inputs"] not in sampled:
                sampled.add(sample["inputs"])
                yield sample


_IID = {"train": (1, 5), "dev": (2, 5), "test": (2, 5)}

problem.declare("ctl_forward_iid", TableLookup, depths=_IID)
problem.declare("ctl_backward", TableLookup, order=-1)
problem.declare("ctl_backward_iid", TableLookup, order=-1, depths=_IID)
problem.declare("ctl_backward_11", PublishedTableLookup, order=-1)
