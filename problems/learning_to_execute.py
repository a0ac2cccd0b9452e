r"""Learning to Execute: predict a short program's output character by character.

A record of `lte_program`, whose literals have five digits:

    inputs   "x=(x=19156for[2]x+=41544)for[2]x+=17747"    bytes + 2, EOS (1) last
    targets  "137738"                                     [51, 53, 57, 57, 53, 58, 1]

Records of the other problems use two more constructs. `x=afor[n]x+=b` is a loop, which starts with
x = a and adds b to x n times. `aifb<celsed` is a condition: its value is a if b < c, otherwise d.

    lte_control           619if319>138else188                       "619"
    lte_addition          (19494+80239)+57931                       "157664"
    lte_algebra           (12-34)*56                                "768", -1232 modulo 1000
    lte_algebra_control   (4-2)if3<6else8                           "2"
    lte_copy              1203                                      "1203"
    lte_double            1203                                      "12031203"
    lte_reverse           1203                                      "3021"
    lte_program_zaremba   j=85#for x in range(3):j+=92#print((j-7)) "354", the exact value

`lte_program_units_first` has the programs of `lte_program`, with the last digit of every number
first: "x=(x=65191for[2]x+=44514)for[2]x+=74771" has the targets "837731". A model can then write
a sum in the order of written addition: it begins with the last digit.

**Tasks.** The first five tasks and the memory tasks follow Sonnet 1's generator. That generator has
the task names and limits of the Universal Transformer paper (tables 5 and 6): literals of up to 5
digits, up to 2 operations, and memory tasks of up to 55 digits. The paper does not name its
generator or its sets of operations. Here "program" has all five operations: + - * if for. The
targets are the value modulo 10^(digits + 1), which is never negative. `lte_program_zaremba` follows
Zaremba & Sutskever (2015), whose programs are in Python.

**Splits.** There is no curriculum. Train and dev use the mix strategy: the number of digits and the
number of operations are independent and uniform in 1..limit. In the test split, both numbers are
the limits, as in Sonnet. The paper does not say whether its scores are for the mix strategy or for
the limits, so report the scores of both dev and test. `lte_program_zaremba` has no fixed length, so
its test split uses the mix strategy too. Sizes: 1,000,000 train, 2,000 dev, 10,000 test.

The splits share no inputs. A checksum of the inputs determines to which split a sample belongs (one
tenth each to dev and test). If a sample does not belong to the split that is generated, another
sample is generated. Therefore training never sees one fifth of the inputs. This includes one fifth
of the shortest inputs, although only few of them exist.

**Scores** are measured without teacher forcing. The paper's seq-acc is
`decode/accuracy_per_sequence`, and its char-acc is `decode/accuracy`:

    python trainer.py --problem=lte_copy --schedule=train_eval_and_decode --eval_use_test_set \
      --decode_hparams=beam_size=1,extra_length=60 …

EOS ends both features and is not counted in the scores. Sonnet has no end symbol. EOS replaces the
end symbols "@" and "." of Zaremba & Sutskever.
"""

import operator
import random
import re
import zlib
from collections.abc import Callable, Sequence

from ut_keras.problems import generated_classes, problem

# Both generators chain operations: the value of one operation is an operand of the next operation,
# and all other operands are literals. `chain_program` follows Sonnet 1's example
# `learn_to_execute.py`. It uses Python's random numbers, so its samples differ from Sonnet's.
_ARITHMETIC = {
    "add": ("+", operator.add),
    "subtract": ("-", operator.sub),
    "multiply": ("*", operator.mul),
}


def chain_program(
    rng: random.Random, ops: Sequence[str], length: int, nesting: int
) -> tuple[str, int]:
    """Sample a program of nested operations.

    Args:
        rng: random.Random.
        ops: sequence of str. Some of "add", "subtract", "multiply", "if" and "for". The operations
            are sampled uniformly from this sequence.
        length: int. Number of digits of every literal. The first digit is not 0.
        nesting: int. Number of operations.

    Returns:
        (text, answer). `answer` is the value modulo 10^(length + 1).
    """
    text, value = _literal(rng, length)
    for number in range(nesting):
        if number:
            text = f"({text})"
        text, value = _operate(rng, rng.choice(ops), text, value, length)
    return text, value % 10 ** (length + 1)


def _literal(rng, length):
    value = rng.randrange(10 ** (length - 1), 10**length)
    return str(value), value


def _operate(rng, op, text, value, length):
    """Return (text, value) of an operation on the operand `text` with this `value`."""
    second, second_value = _literal(rng, length)
    if op == "for":
        times = rng.randrange(1, 10)
        return f"x={text}for[{times}]x+={second}", value + times * second_value
    if op == "if":
        third, third_value = _literal(rng, length)
        other, other_value = _literal(rng, length)
        sign = rng.choice("<>")
        holds = second_value < third_value if sign == "<" else second_value > third_value
        return f"{text}if{second}{sign}{third}else{other}", value if holds else other_value
    sign, function = _ARITHMETIC[op]
    return f"{text}{sign}{second}", function(value, second_value)


class PythonProgram:
    """Samples a Python program with Zaremba & Sutskever's mix strategy.

    The lines of the program are joined by "#". For each literal, this class first samples a length
    in 1..max_length, and then the literal in 1..10^length.
    """

    def __init__(self, rng: random.Random, max_length: int) -> None:
        self._rng = rng
        self._max_length = max_length
        self._lines: list[str] = []
        self._unused_names = rng.sample("abcdefghij", 10)
        self._previous: tuple[str, int] | None = None

    def sample(self, nesting: int) -> tuple[str, int]:
        """Sample (text, answer): a program with `nesting` operations, and its output."""
        ops = (self._pair, self._small_product, self._same, self._variable, self._loop, self._if)
        for _ in range(nesting):
            text, value = self._previous = self._rng.choice(ops)()
        return "#".join([*self._lines, f"print({text})"]), value

    # Operations. Each method returns (text, value).

    def _pair(self):
        (a, a_value), (b, b_value) = self._operands(2)
        sign, function = self._plus_or_minus()
        return f"({a}{sign}{b})", function(a_value, b_value)

    def _small_product(self):
        [(a, a_value)] = self._operands(1)
        k = self._small_number()
        text = f"({a}*{k})" if self._rng.random() < 0.5 else f"({k}*{a})"
        return text, a_value * k

    def _same(self):
        [operand] = self._operands(1)
        return operand

    def _variable(self):
        (a, a_value), (b, b_value) = self._operands(2)
        sign, function = self._plus_or_minus()
        name = self._unused_names.pop()
        self._lines.append(f"{name}={a};")
        return f"({name}{sign}{b})", function(a_value, b_value)

    def _loop(self):
        (a, a_value), (b, b_value) = self._operands(2)
        sign, function = self._plus_or_minus()
        name, times = self._unused_names.pop(), self._small_number()
        self._lines += [f"{name}={a}", f"for x in range({times}):{name}{sign}={b}"]
        return name, function(a_value, times * b_value)

    def _if(self):
        (a, a_value), (b, b_value), (c, c_value), (d, d_value) = self._operands(4)
        sign = self._rng.choice("<>")
        holds = a_value < b_value if sign == "<" else a_value > b_value
        return f"({c} if {a}{sign}{b} else {d})", c_value if holds else d_value

    # Methods that sample parts of operations.

    def _operands(self, count):
        """Return `count` pairs (text, value) in random order.

        One pair is the result of the previous operation, if there is one.
        """
        operands = [] if self._previous is None else [self._previous]
        while len(operands) < count:
            value = self._rng.randint(1, 10 ** self._length())
            operands.append((str(value), value))
        self._rng.shuffle(operands)
        return operands

    def _length(self):
        return self._rng.randint(1, self._max_length)

    def _small_number(self):
        return self._rng.randint(1, 4 * self._length())

    def _plus_or_minus(self):
        return self._rng.choice((("+", operator.add), ("-", operator.sub)))


_TENTHS = {"train": range(8), "dev": (8,), "test": (9,)}


class LearningToExecute(generated_classes.Generated):
    """Base class of the problems. A subclass defines `sample_texts`."""

    paper = "Dehghani et al. 2019, table 6"
    sizes = {"train": 1_000_000, "dev": 2_000, "test": 10_000}
    make_rng = random.Random
    max_digits = 5
    max_operations = 2

    def sample(self, rng: random.Random, split: str) -> dict[str, str]:
        while True:
            inputs, targets = self.sample_texts(rng, *self.limits(rng, split))
            if zlib.crc32(inputs.encode()) % 10 in _TENTHS[split]:
                return {"inputs": inputs, "targets": targets}

    def limits(self, rng: random.Random, split: str) -> tuple[int, int]:
        """Sample the number of digits and the number of operations."""
        if split == "test":
            return self.max_digits, self.max_operations
        return rng.randint(1, self.max_digits), rng.randint(1, self.max_operations)

    def sample_texts(self, rng: random.Random, digits: int, operations: int) -> tuple[str, str]:
        """Sample (inputs, targets) with the given numbers of digits and operations."""
        raise NotImplementedError


class Program(LearningToExecute):
    """Sonnet's programs with the operations `ops`."""

    ops: tuple[str, ...]

    def sample_texts(self, rng: random.Random, digits: int, operations: int) -> tuple[str, str]:
        text, answer = chain_program(rng, self.ops, digits, operations)
        return text, str(answer)


class ProgramUnitsFirst(Program):
    """Sonnet's programs, with the last digit of every number first."""

    paper = "Dehghani et al. 2019, table 6, with another order of digits"

    def sample(self, rng: random.Random, split: str) -> dict[str, str]:
        sample = super().sample(rng, split)
        return {name: _reverse_numbers(text) for name, text in sample.items()}


def _reverse_numbers(text):
    return re.sub(r"\d+", lambda number: number[0][::-1], text)


class Memory(LearningToExecute):
    """A memory task. `answer` converts the digits of the inputs to the targets."""

    paper = "Dehghani et al. 2019, table 5"
    max_digits = 55
    max_operations = 1
    answer: Callable[[str], str]

    def sample_texts(self, rng: random.Random, digits: int, operations: int) -> tuple[str, str]:
        inputs, _ = _literal(rng, digits)
        return inputs, self.answer(inputs)


@problem.register("lte_program_zaremba")
class ProgramZaremba(LearningToExecute):
    """Zaremba & Sutskever's programs, in Python."""

    paper = "Zaremba & Sutskever 2015"

    def limits(self, rng: random.Random, split: str) -> tuple[int, int]:
        return self.max_digits, self.max_operations  # `sample_texts` samples both numbers

    def sample_texts(self, rng: random.Random, digits: int, operations: int) -> tuple[str, str]:
        text, answer = PythonProgram(rng, digits).sample(rng.randint(1, operations))
        return text, str(answer)


problem.declare("lte_program", Program, ops=("add", "subtract", "multiply", "if", "for"))
problem.declare(
    "lte_program_units_first", ProgramUnitsFirst, ops=("add", "subtract", "multiply", "if", "for")
)
problem.declare("lte_control", Program, ops=("if", "for"))
problem.declare("lte_addition", Program, ops=("add",))
problem.declare("lte_algebra", Program, ops=("add", "subtract", "multiply"))
problem.declare("lte_algebra_control", Program, ops=("add", "subtract", "if"))
problem.declare("lte_copy", Memory, answer=staticmethod(lambda digits: digits))
problem.declare("lte_double", Memory, answer=staticmethod(lambda digits: digits * 2))
problem.declare("lte_reverse", Memory, answer=staticmethod(lambda digits: digits[::-1]))
