"""Generated tasks on symbol strings: copy, shift, reverse, add, sort, encrypt.

A record of `algorithmic_addition_decimal40`, 59 + 4 = 63, least significant digit first:

    inputs   "9 5 10 4"   [11, 7, 12, 6, 1]      10 separates the numbers
    targets  "3 6"        [5, 8, 1]

Symbols 0, 1, ... have ids 2, 3, ..., and EOS (1) ends both features. As in T2T, train lengths are
uniform in 1..40 and dev lengths in 1..400.

T2T has no test split. The test split of ut_keras is the paper's test of generalization to longer
strings (Dehghani et al. 2019, table 4): 1,000 strings of exactly 400 symbols. For addition and
multiplication, the 400 symbols include both numbers and the separator. The paper's scores are
measured without teacher forcing: seq-acc is `decode/accuracy_per_sequence` and char-acc is
`decode/accuracy`. T2T's `accuracy` and `accuracy_per_sequence` are teacher-forced.

    python trainer.py --problem=algorithmic_reverse_decimal40 --schedule=train_eval_and_decode \
      --eval_use_test_set --decode_hparams=beam_size=1,extra_length=10 …

`algorithmic_reverse_decimal40_held_out` measures the trained lengths: its dev strings have the same
lengths as the train strings, but no dev string is in the train split.

In T2T, some ids of the separator and of `reverse_nlplike` are outside the vocabulary. Here the
separator is inside the vocabulary. The symbols of `reverse_nlplike` begin with the first symbol and
are all inside the vocabulary, and its lengths are at most 70.
"""

import functools
import operator
import zlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ut_keras.problems import older_records, problem
from ut_keras.problems.problem import Encoders, Records
from ut_keras.text import text_encoder

_Pair: TypeAlias = tuple[list[int], list[int]]  # symbols of inputs and targets


class AlgorithmicProblem(problem.Problem):
    """A task to compute the function `answer` of a random string.

    The length and the symbols of the string are distributed uniformly. A subclass defines `answer`,
    or overrides `sample` instead.
    """

    splits: tuple[str, ...] = ("train", "dev", "test")
    licence = "generated"
    target_space_id = 11  # T2T's SpaceID.DIGIT_1
    input_space_id = 10  # T2T's SpaceID.DIGIT_0
    num_symbols = 2
    num_input_symbols = 0  # number of different symbols in the inputs; 0 means all symbols
    has_separator = False
    answer: Callable[[list[int]], list[int]]
    train_length = 40
    dev_length = 400
    train_size = 100_000
    dev_size = 10_000
    test_size = 1_000

    def sample(self, rng: np.random.Generator, max_length: int, exact: bool = False) -> _Pair:
        """Sample (inputs, targets).

        The inputs have at most `max_length` symbols, or exactly this number if `exact` is True.
        """
        length = max_length if exact else rng.integers(1, max_length + 1)
        symbols = rng.integers(self.num_input_symbols or self.num_symbols, size=length).tolist()
        return symbols, self.answer(symbols)

    def feature_encoders(self, data_dir: str | None = None) -> Encoders:
        size = self.num_symbols + self.has_separator + text_encoder.NUM_RESERVED_IDS
        return dict.fromkeys(("inputs", "targets"), text_encoder.IntegerTextEncoder(size))

    def generate_encoded_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Records:
        rng = np.random.default_rng(seed)
        for _ in range(getattr(self, f"{split}_size")):
            sequences = zip(("inputs", "targets"), self.sample_of_split(rng, split), strict=True)
            yield {name: _to_ids(symbols) for name, symbols in sequences}

    def check_counts(self, split: str, data_dir: str, counts: Sequence[int]) -> None:
        super().check_counts(split, data_dir, counts)
        method = type(self).generate_encoded_samples
        if method is AlgorithmicProblem.generate_encoded_samples:
            # Otherwise, a user's class may write records of another form, such as without EOS.
            files = self.split_files(split, data_dir)
            older_records.check_end(self.name, ("inputs", "targets"), files)

    def sample_of_split(self, rng: np.random.Generator, split: str) -> _Pair:
        """Sample (inputs, targets) of "train", "dev" or "test"."""
        max_length = self.train_length if split == "train" else self.dev_length
        return self.sample(rng, max_length, exact=split == "test")


def _to_ids(symbols):
    return [symbol + text_encoder.NUM_RESERVED_IDS for symbol in symbols] + [text_encoder.EOS]


class HeldOut(AlgorithmicProblem):
    """A task whose train and dev splits have different strings of the same lengths.

    One in 50 of all strings with more than one symbol belongs to the dev split. There are so few
    strings of one symbol that the dev split would contain the same string again and again.
    """

    def sample_of_split(self, rng: np.random.Generator, split: str) -> _Pair:
        shortest = 1 if split == "train" else 2
        # Each length is equally frequent in both splits, because it is sampled only once.
        length = int(rng.integers(shortest, self.train_length + 1))
        while True:
            inputs, targets = self.sample(rng, length, exact=True)
            is_held_out = length > 1 and zlib.crc32(bytes(inputs)) % 50 == 0
            if is_held_out == (split != "train"):
                return inputs, targets


class ReverseNlplike(AlgorithmicProblem):
    """A task to reverse strings that are distributed like sentences.

    Lengths are normally distributed with mean 35 and standard deviation 7. Symbols follow Zipf's
    law.
    """

    splits = ("train", "dev")
    exponent = 1.0
    train_length = 70
    dev_length = 70

    def sample(self, rng: np.random.Generator, max_length: int, exact: bool = False) -> _Pair:
        length = int(abs(rng.normal(max_length / 2, max_length / 10)) + 1)
        uniform = rng.random(min(length, max_length))
        symbols = np.searchsorted(self._cumulated, uniform, side="right").tolist()
        return symbols, symbols[::-1]

    @functools.cached_property
    def _cumulated(self):
        """The cumulative distribution of the symbols, float [num_symbols].

        The last value is 1.
        """
        weights = np.cumsum(np.arange(1, self.num_symbols + 1.0) ** -self.exponent)
        return weights / weights[-1]


class Cipher(AlgorithmicProblem):
    """A task to encrypt strings of `max_length` symbols.

    At position i, symbol s becomes the symbol (s - key[i % len(key)]) % num_symbols.
    """

    splits = ("train", "dev")
    key: tuple[int, ...] = (1,)
    frequencies: tuple[float, ...]  # the relative frequency of each symbol

    def sample(self, rng: np.random.Generator, max_length: int, exact: bool = False) -> _Pair:
        weights = np.array(self.frequencies)
        symbols = rng.choice(len(weights), size=max_length, p=weights / weights.sum())
        shifts = np.resize(self.key, max_length)
        return symbols.tolist(), ((symbols - shifts) % self.num_symbols).tolist()


class Arithmetic(AlgorithmicProblem):
    """A task to compute `result` of two numbers, the least significant digits first.

    The symbol `num_symbols` separates the numbers. The first number has 1..max_length / 2 digits.
    The number of digits of the second number is chosen such that the inputs have at most (or
    exactly) max_length symbols.
    """

    has_separator = True
    result: Callable[[int, int], int]

    def sample(self, rng: np.random.Generator, max_length: int, exact: bool = False) -> _Pair:
        base = self.num_symbols
        left_length = rng.integers(1, max_length // 2 + 1)
        left = _random_digits(rng, base, left_length)
        longest = max_length - 1 - left_length
        right = _random_digits(rng, base, longest if exact else rng.integers(1, longest + 1))
        numbers = (int("".join(map(str, reversed(digits))), base) for digits in (left, right))
        result = np.base_repr(self.result(*numbers), base)
        return left + [base] + right, [int(digit) for digit in reversed(result)]


def _random_digits(rng, base, length):
    digits = rng.integers(base, size=length).tolist()
    if length > 1:
        digits[-1] = int(rng.integers(1, base))  # the leading digit is not zero
    return digits


_PAPER_TASK = {"num_symbols": 10, "paper": "Dehghani et al. 2019, table 4"}
_FOR_TESTS = {"splits": ("train", "dev"), "num_train_shards": 1, "dev_size": 100}
_IDENTITY = staticmethod(lambda symbols: symbols)
_REVERSED = staticmethod(lambda symbols: symbols[::-1])
_PLUS, _TIMES = staticmethod(operator.add), staticmethod(operator.mul)

problem.declare("algorithmic_identity_binary40", AlgorithmicProblem, answer=_IDENTITY)
problem.declare(
    "algorithmic_identity_decimal40", AlgorithmicProblem, answer=_IDENTITY, **_PAPER_TASK
)
problem.declare(
    "algorithmic_identity_vocab95_train20_eval30",
    AlgorithmicProblem,
    answer=_IDENTITY,
    num_symbols=95,
    train_length=20,
    dev_length=30,
    train_size=1_000_000,
)
# In T2T's version of this problem, there is no EOS, and the ids of symbols begin at 0, which is the
# id of padding.
problem.declare("tiny_algo", AlgorithmicProblem, answer=_IDENTITY, **_FOR_TESTS, train_size=100)
problem.declare(
    "algorithmic_shift_decimal40",
    AlgorithmicProblem,
    answer=staticmethod(lambda symbols: [symbol + 10 for symbol in symbols]),
    num_symbols=20,
    num_input_symbols=10,
    dev_length=80,
)
problem.declare("algorithmic_reverse_binary40", AlgorithmicProblem, answer=_REVERSED)
problem.declare(
    "algorithmic_reverse_decimal40", AlgorithmicProblem, answer=_REVERSED, **_PAPER_TASK
)
problem.declare(
    "algorithmic_reverse_decimal40_held_out",
    HeldOut,
    answer=_REVERSED,
    **_PAPER_TASK,
    splits=("train", "dev"),
    dev_length=40,
    dev_size=1_000,
)
problem.declare(
    "algorithmic_reverse_binary40_test",
    AlgorithmicProblem,
    answer=_REVERSED,
    **_FOR_TESTS,
    train_length=10,
    dev_length=10,
    train_size=1_000,
)
problem.declare("algorithmic_reverse_nlplike8k", ReverseNlplike, num_symbols=8_000, exponent=1.3)
problem.declare("algorithmic_reverse_nlplike32k", ReverseNlplike, num_symbols=32_000, exponent=1.05)
problem.declare("algorithmic_addition_binary40", Arithmetic, result=_PLUS)
problem.declare("algorithmic_addition_decimal40", Arithmetic, result=_PLUS, **_PAPER_TASK)
problem.declare("algorithmic_multiplication_binary40", Arithmetic, result=_TIMES)
problem.declare("algorithmic_multiplication_decimal40", Arithmetic, result=_TIMES, num_symbols=10)
problem.declare(
    "algorithmic_sort_problem",  # symbols may occur several times
    AlgorithmicProblem,
    answer=staticmethod(sorted),
    eval_metrics=(*problem.Problem.eval_metrics, "edit_distance"),
    num_symbols=20,
    train_length=10,
    dev_length=20,
)
_FIVE = {"num_symbols": 5, "frequencies": (0.4, 0.3, 0.2, 0.08, 0.02)}
_TWO_HUNDRED = {"num_symbols": 200, "frequencies": tuple(range(200))}
_SHIFT = {"key": (1,), "train_length": 100, "dev_length": 100}
_VIGENERE = {"key": (1, 3), "train_length": 200, "dev_length": 200}
problem.declare("algorithmic_cipher_shift5", Cipher, **_FIVE, **_SHIFT)
problem.declare("algorithmic_cipher_shift200", Cipher, **_TWO_HUNDRED, **_SHIFT)
problem.declare("algorithmic_cipher_vigenere5", Cipher, **_FIVE, **_VIGENERE)
problem.declare("algorithmic_cipher_vigenere200", Cipher, **_TWO_HUNDRED, **_VIGENERE)
