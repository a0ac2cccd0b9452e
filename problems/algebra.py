"""Generated equations to solve for a letter (T2T's `algorithmic_algebra_inverse`).

A record, encoded as characters (bytes + 2, EOS last):

    inputs    "k:c+k*d=m-e"      solve for k
    targets   "(m-e-c)/d"

The letter occurs once in the equation. Each side is a tree of + - * /, with a depth of 0 to 2 in
training and 0 to 3 in dev. The targets result from inverting one operation after the other. They
are not simplified. T2T can generate these data but cannot train on them: its ":" has the id of EOS,
its records do not end with EOS, and it has no vocabulary for them.
"""

import random
import string
from typing import NamedTuple, TypeAlias

from ut_keras.problems import generated_classes, problem

_PRECEDENCE = {"+": 0, "-": 0, "*": 1, "/": 1}
_ASSOCIATIVE = "+*"


Tree: TypeAlias = "Node | str"


class Node(NamedTuple):
    """An operation. Its two sides are nodes or letters."""

    sign: str
    left: Tree
    right: Tree

    def __str__(self) -> str:
        rank = _PRECEDENCE[self.sign]
        left = _in_parentheses(self.left, lambda node: _PRECEDENCE[node.sign] < rank)
        right = _in_parentheses(
            self.right,
            lambda node: (
                _PRECEDENCE[node.sign] <= rank
                and not (node.sign == self.sign and self.sign in _ASSOCIATIVE)
            ),
        )
        return f"{left}{self.sign}{right}"


def _in_parentheses(tree, needed):
    return f"({tree})" if isinstance(tree, Node) and needed(tree) else str(tree)


@problem.register("algorithmic_algebra_inverse")
class AlgebraInverse(generated_classes.Generated):
    """A task to solve an equation for a letter."""

    splits = ("train", "dev")
    sizes = {"train": 100_000, "dev": 10_000}
    make_rng = random.Random
    max_depth = {"train": 2, "dev": 3}

    def sample(self, rng: random.Random, split: str) -> dict[str, str]:
        letter, *others = rng.sample(string.ascii_lowercase, 26)
        depths = [rng.randint(0, self.max_depth[split]) for _ in range(2)]
        with_letter = random_tree(rng, depths[0], others, letter)
        without = random_tree(rng, depths[1], others)
        left, right = rng.sample([with_letter, without], 2)
        answer = solve(with_letter, without, letter)
        return {"inputs": f"{letter}:{left}={right}", "targets": str(answer)}


def random_tree(
    rng: random.Random, depth: int, letters: list[str], required: str | None = None
) -> Tree:
    """Sample a tree of the given depth.

    The tree contains `required` exactly once. All other leaves are from `letters`.
    """
    if not depth:
        return required or rng.choice(letters)
    depths = rng.sample([depth - 1, rng.randrange(depth)], 2)
    wanted = rng.sample([required, None], 2)
    sides = [
        random_tree(rng, side_depth, letters, side_wanted)
        for side_depth, side_wanted in zip(depths, wanted, strict=True)
    ]
    return Node(rng.choice("+-*/"), *sides)


def solve(tree: Tree, other_side: Tree, letter: str) -> Tree:
    """Return the value of the letter for the equation `tree` = `other_side`."""
    while isinstance(tree, Node):
        sign, left, right = tree
        inverse = {"+": "-", "-": "+", "*": "/", "/": "*"}[sign]
        if _has(left, letter):
            tree, other_side = left, Node(inverse, other_side, right)
        elif sign in _ASSOCIATIVE:
            tree, other_side = right, Node(inverse, other_side, left)
        else:  # the equation is left - x = other or left / x = other
            tree, other_side = right, Node(sign, left, other_side)
    return other_side


def _has(tree, letter):
    if isinstance(tree, Node):
        return _has(tree.left, letter) or _has(tree.right, letter)
    return tree == letter
