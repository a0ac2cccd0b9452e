"""The two public generators of Learning to Execute, as texts and answers.

    chain_program(rng, ("add", "multiply"), length=2, nesting=2)     ("(12+34)*56", 576)
    python_program(rng, max_length=2, max_nesting=2)
        ("j=85#for x in range(3):j+=92#print((j-7))", 354)

Both make chains: the value of one operation is an operand of the next one, everything else is a
literal. The first is the example of Sonnet 1 (`learn_to_execute.py`), which has the task names of
the Universal Transformer paper; the second is Zaremba & Sutskever's own. The random numbers are
Python's, so the samples are other ones than theirs.
"""

import operator
import random
from collections.abc import Sequence

# Op sets of the first generator.
ADDITION = ("add",)
ALGEBRA = ("add", "subtract", "multiply")
CONTROL = ("if", "for")
ALGEBRA_CONTROL = ("add", "subtract", "if")
ALL = (*ALGEBRA, *CONTROL)

_ARITHMETIC = {
    "add": ("+", operator.add),
    "subtract": ("-", operator.sub),
    "multiply": ("*", operator.mul),
}


def chain_program(
    rng: random.Random, ops: Sequence[str], length: int, nesting: int
) -> tuple[str, int]:
    """Draws a program of operations within parentheses.

    Args:
        rng: `random.Random`.
        ops: sequence of str, drawn from uniformly: "add", "subtract", "multiply", "if", "for".
        length: int. Digits of every literal; the first is not 0.
        nesting: int. Number of operations.

    Returns:
        (text, answer): the last length + 1 digits of the value; a negative one wraps.
    """
    text, value = _literal(rng, length)
    for number in range(nesting):
        if number:
            text = f"({text})"
        text, value = _operate(rng, rng.choice(ops), text, value, length)
    return text, value % 10 ** (length + 1)


def digits(rng: random.Random, length: int) -> str:
    """Draws a number of so many digits, as text; the first is not 0."""
    return _literal(rng, length)[0]


def _literal(rng, length):
    value = rng.randrange(10 ** (length - 1), 10**length)
    return str(value), value


def _operate(rng, op, text, value, length):
    """(text, value) of an operation whose first operand is given."""
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


def python_program(rng: random.Random, max_length: int, max_nesting: int) -> tuple[str, int]:
    """Draws a Python program, its lines joined by "#".

    Zaremba & Sutskever's mix strategy: the bound of a literal is drawn anew for every literal.

    Args:
        rng: `random.Random`.
        max_length: int. Literals are in 1..10^length, with a length of 1..max_length.
        max_nesting: int. 1..max_nesting operations.

    Returns:
        (text, answer): the last line prints; the answer is the whole number, maybe negative.
    """
    return _PythonProgram(rng, max_length).draw(rng.randint(1, max_nesting))


class _PythonProgram:
    def __init__(self, rng: random.Random, max_length: int) -> None:
        self._rng = rng
        self._max_length = max_length
        self._lines: list[str] = []
        self._unused_names = rng.sample("abcdefghij", 10)
        self._previous: tuple[str, int] | None = None

    def draw(self, nesting: int) -> tuple[str, int]:
        ops = (self._pair, self._small_product, self._same, self._variable, self._loop, self._if)
        for _ in range(nesting):
            text, value = self._previous = self._rng.choice(ops)()
        return "#".join([*self._lines, f"print({text})"]), value

    # Operations: each returns (text, value).

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

    # What they are made of.

    def _operands(self, count):
        """`count` (text, value) pairs in random order, the previous result among them."""
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
