"""Inserts excerpts of the source code into pages.

The excerpts are read when a page is built, so they are always up to date. A block of the language
`source` in a page selects an excerpt:

    ```source
    ut_keras/layers/halting/halting.py: ACTHalting.halt
    ```

The code of this object, without docstrings, replaces the block. The title of the new block is the
path of the file.
"""

import ast
import os
import re
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BLOCK = re.compile(r"^```source\n(?P<path>[\w/]+\.py): (?P<name>[\w.]+)\n```$", re.MULTILINE)


def fill(markdown):
    """Return a page in which excerpts replace the source blocks that name them.

    Raises:
        ValueError: if the file or the name does not exist, or if a block is malformed.
    """
    filled = _BLOCK.sub(lambda match: _fenced(match["path"], match["name"]), markdown)
    if "```source" in filled:
        raise ValueError('A source block must hold one line "path.py: name".')
    return filled


def _fenced(path, name):
    return f'```python title="{path}"\n{excerpt(path, name)}\n```'


def excerpt(path, name):
    """Return the source of a function, method or class, without docstrings and decorators.

    Args:
        path: str, the path of the file, relative to the root of the repository.
        name: str, such as "ACTHalting.halt".
    """
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read()
    node = ast.parse(text)
    for part in name.split("."):
        found = [child for child in node.body if getattr(child, "name", None) == part]
        if not found:
            raise ValueError(f"{path} must define {name}, which a page shows.")
        node = found[0]
    left_out = {
        line
        for child in ast.walk(node)
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(child)
        for line in range(child.body[0].lineno, child.body[0].end_lineno + 1)
    }
    lines = text.splitlines()
    kept = [lines[n - 1] for n in range(node.lineno, node.end_lineno + 1) if n not in left_out]
    if kept[-1].strip() and len(kept) > 1 and not kept[1].strip():
        del kept[1]  # this is the empty line after the docstring of a class
    return textwrap.dedent("\n".join(kept))
