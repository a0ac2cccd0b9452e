"""Programs are evaluated a second time, from their text."""

import ast
import collections
import operator
import random
import re

import pytest

from ut_keras.problems import lte_programs


class ChainReader:
    """Reads a program of the first generator from left to right."""

    def __init__(self, text):
        self._text = text

    def value(self):
        found = self._expression()
        assert self._text == "", self._text
        return found

    def _take(self, pattern):
        match = re.match(pattern, self._text)
        if match:
            self._text = self._text[match.end() :]
        return match

    def _operand(self):
        if self._take(r"\("):
            found = self._expression()
            assert self._take(r"\)")
            return found
        return int(self._take(r"\d+")[0])

    def _expression(self):
        if self._take("x="):
            start = self._operand()
            times = int(self._take(r"for\[(\d)\]x\+=")[1])
            return start + times * self._operand()
        first = self._operand()
        if self._take("if"):
            left, sign, right = self._operand(), self._take("[<>]")[0], self._operand()
            assert self._take("else")
            other = self._operand()
            return first if (left < right if sign == "<" else left > right) else other
        sign = self._take(r"[-+*/]")[0]
        return {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign](
            first, self._operand()
        )


def run_python(text):
    """Runs a program of the second generator: assignments, one loop form, one print."""
    names, printed = {}, []
    signs = {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Lt: operator.lt,
        ast.Gt: operator.gt,
    }

    def value(node):
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return names[node.id]
            case ast.BinOp():
                return signs[type(node.op)](value(node.left), value(node.right))
            case ast.IfExp():
                return value(node.body if value(node.test) else node.orelse)
            case ast.Compare():
                return signs[type(node.ops[0])](value(node.left), value(node.comparators[0]))
        raise AssertionError(ast.dump(node))

    def run(node):
        match node:
            case ast.Assign():
                names[node.targets[0].id] = value(node.value)
            case ast.AugAssign():
                change = value(node.value)
                names[node.target.id] = signs[type(node.op)](names[node.target.id], change)
            case ast.For():
                for _ in range(value(node.iter.args[0])):
                    run(*node.body)
            case ast.Expr():
                printed.append(value(node.value.args[0]))

    for statement in ast.parse(text.replace("#", "\n")).body:
        run(statement)
    [answer] = printed
    return answer


def test_readers():
    """On samples that are known, so that an error in the readers is not that of the generator."""
    assert ChainReader("x=(x=19156for[2]x+=41544)for[2]x+=17747").value() == 137738
    assert ChainReader("619if319>138else188").value() == 619
    assert ChainReader("(4-9)if3>6else8").value() == 8
    assert run_python("j=8584#for x in range(8):j+=920#b=(1500+j);#print((b+7567))") == 25011
    assert run_python("print((1 if 2>3 else (4*5)))") == 20


@pytest.mark.parametrize(
    ("ops", "signs"),
    [
        (lte_programs.ADDITION, r"[\d+()]+"),
        (lte_programs.ALGEBRA, r"[-\d+*()]+"),
        (lte_programs.CONTROL, r"([\d()<>=x\[\]]|if|else|for|\+=)+"),
        (lte_programs.ALGEBRA_CONTROL, r"([-\d+()<>]|if|else)+"),
        (lte_programs.ALL, r"([-\d+*()<>=x\[\]]|if|else|for|\+=)+"),
    ],
)
def test_chain_programs(ops, signs):
    rng = random.Random(1)
    seen = collections.Counter()
    for number in range(3000):
        length, nesting = 1 + number % 5, 1 + number % 2
        text, answer = lte_programs.chain_program(rng, ops, length, nesting)
        assert answer == ChainReader(text).value() % 10 ** (length + 1)
        assert re.fullmatch(signs, text)
        literals = re.findall(r"(?<!\[)\b\d+", re.sub("[a-z]+", " ", text))
        assert {len(literal) for literal in literals} == {length}
        assert text.count("(") == nesting - 1
        # Sonnet's buffers: 57 characters in, 10 out.
        assert len(text) <= 57
        assert len(str(answer)) <= 6
        seen.update({"+=": "for", "if": "if"}.get(sign, sign) for sign in _signs(text))
    assert len(seen) == len(ops)
    assert min(seen.values()) > 0.8 * max(seen.values())


def _signs(text):
    return re.findall(r"\+=|if|(?<!x)[-+*]", text)


def test_negative_values_wrap():
    rng = random.Random(1)
    for _ in range(100):
        text, answer = lte_programs.chain_program(rng, ("subtract",), 3, 1)
        value = ChainReader(text).value()
        assert answer == (value if value >= 0 else 10_000 + value)


def test_python_programs():
    rng = random.Random(1)
    seen = collections.Counter()
    literals = set()
    for _ in range(5000):
        text, answer = lte_programs.python_program(rng, max_length=3, max_nesting=3)
        assert answer == run_python(text)
        lines = text.split("#")
        assert lines[-1].startswith("print(")
        loops = sum(line.startswith("for x in range(") for line in lines)
        variables = sum(line.endswith(";") for line in lines)
        assert len(lines) == 1 + 2 * loops + variables
        seen.update(
            {
                "loop": loops,
                "variable": variables,
                "if": text.count(" if "),
                "product": text.count("*"),
                "negative": answer < 0,
                "nothing": re.fullmatch(r"print\(\d+\)", text) is not None,
            }
        )
        literals.update(map(int, re.findall(r"\d+", re.sub(r"range\(\d+\)", "", text))))
    assert min(seen.values()) > 300
    assert min(literals) == 1
    assert 990 < max(literals) <= 1000


def test_literals_of_python_programs_include_the_power_of_ten():
    rng = random.Random(1)
    texts = [lte_programs.python_program(rng, 1, 1)[0] for _ in range(500)]
    pairs = [re.fullmatch(r"print\(\((\d+)[-+](\d+)\)\)", text) for text in texts]
    found = {int(number) for pair in pairs if pair for number in pair.groups()}
    assert found == set(range(1, 11))


def test_digits():
    rng = random.Random(1)
    texts = [lte_programs.digits(rng, 2) for _ in range(2000)]
    assert (min(texts), max(texts), len(set(texts))) == ("10", "99", 90)
