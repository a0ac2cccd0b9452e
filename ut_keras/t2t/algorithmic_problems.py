"""Stand-in for data_generators.algorithmic: problems with generated data.

    class Doubled(algorithmic.AlgorithmicProblem):
        num_symbols = 10

        def generator(self, nbr_symbols, max_length, nbr_cases):
            for _ in range(nbr_cases):
                inputs = np.random.randint(nbr_symbols, size=max_length).tolist()
                yield {"inputs": inputs, "targets": inputs + inputs}

The classes call numpy's random functions in the same order as T2T, so t2t-datagen and ut-datagen
write the same records for the same seed. The built-in problems of the same names are in
`ut_keras.problems.algorithmic`.

References: tensor2tensor/data_generators/algorithmic.py.
"""

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from ut_keras.t2t import generator_utils, hparam, naming, problem, text_encoder
from ut_keras.t2t.naming import Metrics, ModalityType

_Cases: TypeAlias = Iterator[dict[str, Any]]


class AlgorithmicProblem(problem.Problem):
    """A problem whose `generator` yields symbols, which are numbers from 0.

    The id of symbol i is i + 2. EOS ends each feature.
    """

    num_symbols: Any = problem.RequiredAttribute()
    generator: Any = problem.RequiredAttribute()  # (nbr_symbols, max_length, nbr_cases)
    train_length: Any = 40
    dev_length: Any = 400
    train_size: Any = 100_000
    dev_size: Any = 10_000
    num_shards: Any = 10
    # Some generators of T2T also yield the symbol `num_symbols`. In T2T, its id is outside the
    # vocabulary. Here, the vocabulary of such a problem has one more id.
    _yields_num_symbols = False

    def generate_data(self, data_dir: str, tmp_dir: str | None, task_id: int = -1) -> None:
        generator_utils.generate_dataset_and_shuffle(
            self._records(self.train_length, self.train_size),
            self.training_filepaths(data_dir, self.num_shards, shuffled=True),
            self._records(self.dev_length, self.dev_size),
            self.dev_filepaths(data_dir, 1, shuffled=True),
            shuffle=False,
        )

    def _records(self, max_length, number):
        for case in self.generator(self.num_symbols, max_length, number):
            yield {name: _to_ids(symbols) for name, symbols in case.items()}

    def hparams(self, defaults: hparam.HParams, model_hparams: hparam.HParams) -> None:
        size = self.num_symbols + self._yields_num_symbols + text_encoder.NUM_RESERVED_TOKENS
        names = ("inputs", "targets")
        defaults.modality = dict.fromkeys(names, ModalityType.SYMBOL)
        defaults.vocab_size = dict.fromkeys(names, size)
        defaults.input_space_id = problem.SpaceID.DIGIT_0
        defaults.target_space_id = problem.SpaceID.DIGIT_1


def _named(problem_class):
    """Set the name of a class in T2T, which is part of the names of its data files."""
    problem_class.name = naming.camelcase_to_snakecase(problem_class.__name__)
    return problem_class


def _to_ids(symbols: Iterable[int]) -> list[int]:
    ids = [symbol + text_encoder.NUM_RESERVED_TOKENS for symbol in symbols]
    return [*ids, text_encoder.EOS_ID]


def _random_symbols(number: int, length: int) -> list[int]:
    # A single call of randint for all symbols would yield other symbols than T2T.
    return [np.random.randint(number) for _ in range(length)]


@_named
class AlgorithmicIdentityBinary40(AlgorithmicProblem):
    """The task to copy strings."""

    num_symbols = 2

    def generator(self, nbr_symbols: int, max_length: int, nbr_cases: int) -> _Cases:
        for _ in range(nbr_cases):
            inputs = _random_symbols(nbr_symbols, np.random.randint(max_length) + 1)
            yield {"inputs": inputs, "targets": inputs}


@_named
class AlgorithmicIdentityDecimal40(AlgorithmicIdentityBinary40):
    """The task to copy strings of 10 symbols."""

    num_symbols = 10


@_named
class AlgorithmicIdentityVocab95Train20Eval30(AlgorithmicIdentityBinary40):
    """The task to copy strings of 95 symbols."""

    num_symbols = 95
    train_length = 20
    dev_length = 30
    train_size = 1_000_000


@_named
class AlgorithmicShiftDecimal40(AlgorithmicProblem):
    """The task to add 10 to each symbol."""

    num_symbols = 20
    dev_length = 80

    def generator(self, nbr_symbols: int, max_length: int, nbr_cases: int) -> _Cases:
        shift = 10
        for _ in range(nbr_cases):
            inputs = _random_symbols(nbr_symbols - shift, np.random.randint(max_length) + 1)
            yield {"inputs": inputs, "targets": [symbol + shift for symbol in inputs]}


@_named
class AlgorithmicReverseBinary40(AlgorithmicProblem):
    """The task to reverse strings."""

    num_symbols = 2

    def generator(self, nbr_symbols: int, max_length: int, nbr_cases: int) -> _Cases:
        for _ in range(nbr_cases):
            inputs = _random_symbols(nbr_symbols, np.random.randint(max_length) + 1)
            yield {"inputs": inputs, "targets": inputs[::-1]}


@_named
class AlgorithmicReverseDecimal40(AlgorithmicReverseBinary40):
    """The task to reverse strings of 10 symbols."""

    num_symbols = 10


@_named
class AlgorithmicReverseBinary40Test(AlgorithmicReverseBinary40):
    """The task to reverse strings, with little data."""

    train_length = 10
    dev_length = 10
    train_size = 1_000
    dev_size = 100
    num_shards = 1


def zipf_distribution(nbr_symbols: int, alpha: float) -> list[float]:
    """Return 0 and the cumulative probabilities of the symbols by Zipf's law."""
    weights = np.power(np.arange(1, nbr_symbols + 1), -alpha)
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    return [value / cumulative[-1] for value in cumulative]


def zipf_random_sample(distr_map: list[float], sample_len: int) -> list[int]:
    """Return random symbols from 1 to the number of symbols."""
    return list(np.searchsorted(distr_map, np.random.random(sample_len)))


def reverse_generator_nlplike(
    nbr_symbols: int,
    max_length: int,
    nbr_cases: int,
    scale_std_dev: float = 100,
    alpha: float = 1.5,
) -> _Cases:
    """Yield strings that are distributed like sentences.

    Lengths are normally distributed. Symbols follow Zipf's law.
    """
    distribution = zipf_distribution(nbr_symbols, alpha)
    for _ in range(nbr_cases):
        length = np.random.normal(loc=max_length / 2, scale=max_length / scale_std_dev)
        inputs = zipf_random_sample(distribution, int(abs(length) + 1))
        yield {"inputs": inputs, "targets": inputs[::-1]}


@_named
class AlgorithmicReverseNlplike8k(AlgorithmicProblem):
    """The task to reverse strings like sentences, with 8,000 symbols."""

    num_symbols = 8_000
    train_length = 70
    dev_length = 70
    _yields_num_symbols = True

    def generator(self, nbr_symbols: int, max_length: int, nbr_cases: int) -> _Cases:
        return reverse_generator_nlplike(nbr_symbols, max_length, nbr_cases, 10, 1.3)


@_named
class AlgorithmicReverseNlplike32k(AlgorithmicReverseNlplike8k):
    """The task to reverse strings like sentences, with 32,000 symbols."""

    num_symbols = 32_000

    def generator(self, nbr_symbols: int, max_length: int, nbr_cases: int) -> _Cases:
        return reverse_generator_nlplike(nbr_symbols, max_length, nbr_cases, 10, 1.05)


def lower_endian_to_number(l: Iterable[int], base: int) -> int:  # noqa: E741 (T2T's name)
    """Return the number with these digits.

    The least significant digit is the first.
    """
    return sum(digit * base**power for power, digit in enumerate(l))


def number_to_lower_endian(n: int, base: int) -> list[int]:
    """Return the digits of a number. The least significant digit is the first."""
    digits = []
    while n >= base:
        n, digit = divmod(n, base)
        digits.append(digit)
    return [*digits, n]


def random_number_lower_endian(length: int, base: int) -> list[int]:
    """Return the digits of a random number. The most significant digit is the last."""
    if length == 1:
        return _random_symbols(base, 1)
    # The last digit is not 0.
    return [*_random_symbols(base, length - 1), np.random.randint(base - 1) + 1]


class _Arithmetic(AlgorithmicProblem):
    """A task to compute a number from two numbers.

    The symbol `num_symbols` separates the two numbers.
    """

    num_symbols = 2
    _yields_num_symbols = True
    _result: Callable[[int, int], int]

    def generator(self, base: int, max_length: int, nbr_cases: int) -> _Cases:
        if max_length < 3:
            raise ValueError(f"max_length must be at least 3. Received: {max_length}.")
        for _ in range(nbr_cases):
            length = np.random.randint(max_length // 2) + 1
            other_length = np.random.randint(max_length - length - 1) + 1
            digits = random_number_lower_endian(length, base)
            other_digits = random_number_lower_endian(other_length, base)
            result = self._result(
                *(lower_endian_to_number(d, base) for d in (digits, other_digits))
            )
            inputs = [*digits, base, *other_digits]
            yield {"inputs": inputs, "targets": number_to_lower_endian(result, base)}


@_named
class AlgorithmicAdditionBinary40(_Arithmetic):
    """The task to add binary numbers."""

    _result = staticmethod(operator.add)


@_named
class AlgorithmicAdditionDecimal40(AlgorithmicAdditionBinary40):
    """The task to add decimal numbers."""

    num_symbols = 10


@_named
class AlgorithmicMultiplicationBinary40(_Arithmetic):
    """The task to multiply binary numbers."""

    _result = staticmethod(operator.mul)


@_named
class AlgorithmicMultiplicationDecimal40(AlgorithmicMultiplicationBinary40):
    """The task to multiply decimal numbers."""

    num_symbols = 10


@_named
class AlgorithmicSortProblem(AlgorithmicProblem):
    """The task to sort numbers. If `unique` is True, all numbers are different."""

    train_length = 10
    unique: Any = False

    @property
    def num_symbols(self) -> int:
        return max(self.train_length, self.dev_length)

    @property
    def dev_length(self) -> int:
        return self.train_length * 2

    def generator(self, nbr_symbols: int, max_length: int, nbr_cases: int) -> _Cases:
        for _ in range(nbr_cases):
            length = np.random.randint(max_length) + 1
            if self.unique:
                inputs = np.arange(nbr_symbols)
                np.random.shuffle(inputs)
                inputs = inputs[:length]
            else:
                inputs = np.random.randint(nbr_symbols, size=length)
            yield {"inputs": inputs.tolist(), "targets": sorted(inputs.tolist())}

    def eval_metrics(self) -> list[str]:
        return [*super().eval_metrics(), Metrics.EDIT_DISTANCE]
