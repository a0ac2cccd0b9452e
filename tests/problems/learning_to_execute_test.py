import ast
import collections
import itertools
import operator
import random
import re
import types

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.problems import learning_to_execute

HPARAMS = types.SimpleNamespace(batch_size=4096, max_length=256)
PROGRAMS = ["lte_addition", "lte_algebra", "lte_algebra_control", "lte_control", "lte_program"]
MEMORY = ["lte_copy", "lte_double", "lte_reverse"]
NAMES = sorted([*PROGRAMS, *MEMORY, "lte_program_units_first", "lte_program_zaremba"])


def samples(name, split, count=2000, seed=1):
    return list(
        itertools.islice(problems.get(name).generate_samples(split, None, None, seed), count)
    )


def test_lte_problems_are_registered():
    assert [name for name in problems.names() if name.startswith("lte_")] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_splits_share_no_inputs(name):
    found = [
        {s["inputs"] for s in samples(name, split, seed=3)} for split in ("train", "dev", "test")
    ]
    for one, other in itertools.combinations(found, 2):
        assert not one & other


@pytest.mark.parametrize("name", NAMES)
def test_samples_depend_on_the_seed(name):
    assert samples(name, "train", 20, seed=1) == samples(name, "train", 20, seed=1)
    assert samples(name, "train", 20, seed=1) != samples(name, "train", 20, seed=2)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("lte_copy", lambda text: text),
        ("lte_double", lambda text: text + text),
        ("lte_reverse", lambda text: text[::-1]),
    ],
)
def test_memory_tasks(name, answer):
    lengths = collections.Counter()
    for sample in samples(name, "train", 5500):
        assert sample["targets"] == answer(sample["inputs"])
        assert sample["inputs"].isdigit()
        assert sample["inputs"][0] != "0"
        lengths[len(sample["inputs"])] += 1
    assert sorted(lengths) == list(range(1, 56))
    # There are about 100 strings of each length.
    assert min(lengths.values()) > 50
    assert max(lengths.values()) < 160
    assert {len(sample["inputs"]) for sample in samples(name, "test", 50)} == {55}


def test_program_mix_and_limits():
    kinds = collections.Counter()
    for sample in samples("lte_addition", "train", 5000):
        numbers = sample["inputs"].replace("(", "").replace(")", "").split("+")
        [digits] = {len(number) for number in numbers}
        kinds[digits, len(numbers) - 1] += 1
    assert sorted(kinds) == list(itertools.product(range(1, 6), (1, 2)))
    assert min(kinds.values()) > 300
    for sample in samples("lte_addition", "test"):
        left, right = sample["inputs"].split(")+")
        assert len(left) == 12
        assert len(right) == 5


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_units_first_has_the_same_programs_with_reversed_numbers(split):
    pairs = zip(
        samples("lte_program", split, 200),
        samples("lte_program_units_first", split, 200),
        strict=True,
    )
    for plain, reversed_numbers in pairs:
        assert reversed_numbers["targets"] == plain["targets"][::-1]
        digits = re.split(r"(\D+)", plain["inputs"])
        assert reversed_numbers["inputs"] == "".join(
            part[::-1] if part.isdigit() else part for part in digits
        )


def test_units_first_example():
    text = learning_to_execute._reverse_numbers("x=(x=19156for[2]x+=41544)for[2]x+=17747")
    assert text == "x=(x=65191for[2]x+=44514)for[2]x+=74771"


def test_lte_program_matches_worked_record(tmp_path, monkeypatch):
    sizes = {"train": 200, "dev": 20, "test": 20}
    monkeypatch.setattr(learning_to_execute.LearningToExecute, "sizes", sizes)
    problem = problems.get("lte_program")
    encoder = problem.feature_encoders()["targets"]
    assert encoder.encode("137738") == [51, 53, 57, 57, 53, 58]
    assert problem.generate_data(tmp_path) == sizes
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if "-of-" in path.name}
    assert len(files) == 12
    problem.generate_data(tmp_path / "again")
    for name, content in files.items():
        assert (tmp_path / "again" / name).read_bytes() == content
    [path] = tfrecords.find(tmp_path, "lte_program", "test")
    for record in tfrecords.read(path):
        assert record["inputs"][-1] == record["targets"][-1] == 1
        text = encoder.decode(record["inputs"][:-1])
        assert text.count("(") == 1
        assert encoder.decode(record["targets"][:-1]).isdigit()
    assert sum(len(targets) for _, targets in problem.dataset("train", tmp_path, HPARAMS)) == 200


class ChainReader:
    """A reader that evaluates a program of the first generator from left to right."""

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
    """Run a program of the second generator, and return the value that it prints.

    The program has assignments, one form of loop, and one print.
    """
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


def test_readers_evaluate_known_samples():
    """The evaluators in this file give the right results for known samples."""
    assert ChainReader("x=(x=19156for[2]x+=41544)for[2]x+=17747").value() == 137738
    assert ChainReader("619if319>138else188").value() == 619
    assert ChainReader("(4-9)if3>6else8").value() == 8
    assert run_python("j=8584#for x in range(8):j+=920#b=(1500+j);#print((b+7567))") == 25011
    assert run_python("print((1 if 2>3 else (4*5)))") == 20


@pytest.mark.parametrize(
    ("name", "signs"),
    [
        ("lte_addition", r"[\d+()]+"),
        ("lte_algebra", r"[-\d+*()]+"),
        ("lte_control", r"([\d()<>=x\[\]]|if|else|for|\+=)+"),
        ("lte_algebra_control", r"([-\d+()<>]|if|else)+"),
        ("lte_program", r"([-\d+*()<>=x\[\]]|if|else|for|\+=)+"),
    ],
)
def test_chain_programs(name, signs):
    rng, ops = random.Random(1), problems.get(name).ops
    seen = collections.Counter()
    for number in range(3000):
        length, nesting = 1 + number % 5, 1 + number % 2
        text, answer = learning_to_execute.chain_program(rng, ops, length, nesting)
        assert answer == ChainReader(text).value() % 10 ** (length + 1)
        assert re.fullmatch(signs, text)
        literals = re.findall(r"(?<!\[)\b\d+", re.sub("[a-z]+", " ", text))
        assert {len(literal) for literal in literals} == {length}
        assert text.count("(") == nesting - 1
        # These tasks are based on Sonnet 1. In Sonnet 1, inputs have at most 57 characters, and
        # outputs have at most 10 characters.
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
        text, answer = learning_to_execute.chain_program(rng, ("subtract",), 3, 1)
        value = ChainReader(text).value()
        assert answer == (value if value >= 0 else 10_000 + value)


def test_python_programs():
    rng = random.Random(1)
    seen = collections.Counter()
    literals = set()
    for _ in range(5000):
        text, answer = learning_to_execute.PythonProgram(rng, 3).sample(rng.randint(1, 3))
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
    texts = [learning_to_execute.PythonProgram(rng, 1).sample(1)[0] for _ in range(500)]
    pairs = [re.fullmatch(r"print\(\((\d+)[-+](\d+)\)\)", text) for text in texts]
    found = {int(number) for pair in pairs if pair for number in pair.groups()}
    assert found == set(range(1, 11))


def test_literals_cover_all_numbers_of_their_length():
    rng = random.Random(1)
    texts = [problems.get("lte_copy").sample_texts(rng, 2, 0)[0] for _ in range(2000)]
    assert (min(texts), max(texts), len(set(texts))) == ("10", "99", 90)
