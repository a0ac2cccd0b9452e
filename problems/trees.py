"""Trees in brackets, and as a line of symbols.

    (TOP (S (NP (PRP It)) (VP (VBZ works)) (. .)))

    words     It works .
    symbols   S NP PRP /NP VP VBZ /VP . /S

T2T's form, after Vinyals et al. 2015: a phrase opens with its label and closes with a slash before
it, a part of speech stands for its word, the outermost TOP is left out.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ut_keras.errors import DataError

OUTERMOST = ("", "TOP", "ROOT", "S1")  # Labels of no phrase; `.mrg` files have an empty one.
_TOKEN = re.compile(r"[()]|[^\s()]+")
_FUNCTION = re.compile(r"(?<!^)[-=].*")


class Tree(NamedTuple):
    """A phrase, or a part of speech with its word.

    Fields:
        label: str.
        children: list of `Tree`, or of one str, the word.
    """

    label: str
    children: list

    @property
    def is_word(self) -> bool:
        return isinstance(self.children[0], str)


def read(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Yields the trees in lines of text, each on one line or on several.

    Args:
        lines: iterable of str.
        name: str. The file, for errors.

    Raises:
        DataError: if brackets or words are not where they should be.
    """
    stack = []
    for number, line in enumerate(lines, start=1):
        previous = None
        for token in _TOKEN.findall(line):
            if token == "(":
                stack.append(Tree("", []))
            elif not stack:
                raise _error(name, number, f"{token!r} outside of a tree")
            elif token != ")":
                if previous == "(":
                    stack[-1] = Tree(token, [])
                else:
                    stack[-1].children.append(token)
            else:
                tree = stack.pop()
                words = [child for child in tree.children if isinstance(child, str)]
                if not tree.children or (words and len(tree.children) > 1):
                    raise _error(name, number, f"{tree.label!r} with {len(words)} words in it")
                if stack:
                    stack[-1].children.append(tree)
                else:
                    yield tree
            previous = token
    if stack:
        raise _error(name, "the last", f"{len(stack)} brackets that are not closed")


def _error(name, number, received):
    return DataError(
        f"A tree must be brackets with a label, and trees or one word in it. "
        f"Received: {name}, line {number}: {received}."
    )


def clean(tree: Tree) -> Tree | None:
    """Returns the tree without traces (-NONE-) and function tags (NP-SBJ-1 is NP).

    None if nothing is left.
    """
    if tree.is_word:
        return None if tree.label == "-NONE-" else tree
    children = [child for child in map(clean, tree.children) if child]
    return Tree(_FUNCTION.sub("", tree.label), children) if children else None


def to_line(tree: Tree) -> tuple[list[str], list[str]]:
    """Returns (words, symbols), two lists of str."""
    words, symbols = [], []

    def walk(node):
        if node.is_word:
            symbols.append(node.label)
            words.append(node.children[0])
            return
        is_phrase = node.label not in OUTERMOST
        if is_phrase:
            symbols.append(node.label)
        for child in node.children:
            walk(child)
        if is_phrase:
            symbols.append(f"/{node.label}")

    walk(tree)
    return words, symbols
