import fractions
import random
import re

import pytest

from ut_keras import problems
from ut_keras.problems import algebra


def small(split):
    problem = problems.get("algorithmic_algebra_inverse")
    problem.sizes = {"train": 500, "dev": 500}
    return list(problem.generate_samples(split, None, None, seed=4))


def value(text, letters):
    """Return the exact value of an expression."""
    exact = re.sub("[a-z]", lambda match: f"letters[{match[0]!r}]", text)
    return eval(exact, {"__builtins__": {}}, {"letters": letters})


def test_algebra_inverse_matches_worked_record():
    tree = algebra.Node("+", "c", algebra.Node("*", "k", "d"))
    other = algebra.Node("-", "m", "e")
    assert (str(tree), str(other)) == ("c+k*d", "m-e")
    assert str(algebra.solve(tree, other, "k")) == "(m-e-c)/d"


@pytest.mark.parametrize("split", ["train", "dev"])
def test_targets_solve_the_equations(split):
    for number, sample in enumerate(small(split)):
        letter, equation = sample["inputs"].split(":")
        left, right = equation.split("=")
        assert equation.count(letter) == 1
        assert letter not in sample["targets"]
        letters = {
            c: fractions.Fraction(101 + (7 * i + number) ** 2 % 997, 13)
            for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")
        }
        try:
            letters[letter] = value(sample["targets"], letters)
            sides = value(left, letters), value(right, letters)
        except ZeroDivisionError:  # an example is a = b / x - b / x
            continue
        assert sides[0] == sides[1], sample


def test_random_tree_has_the_required_depth():
    def depth(tree):
        return 1 + max(map(depth, tree[1:])) if isinstance(tree, algebra.Node) else 0

    rng = random.Random(1)
    for wanted in range(4):
        for _ in range(50):
            assert depth(algebra.random_tree(rng, wanted, "abc", "x")) == wanted
    assert max(sample["inputs"].count("=") for sample in small("dev")) == 1
    assert max(len(s["inputs"]) for s in small("dev")) > max(
        len(s["inputs"]) for s in small("train")
    )


def test_algebra_inverse_generates_data(tmp_path):
    problem = problems.get("algorithmic_algebra_inverse")
    problem.sizes = {"train": 30, "dev": 10}
    assert problem.generate_data(tmp_path) == {"train": 30, "dev": 10}
