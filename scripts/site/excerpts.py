"""Puts pieces of the source into pages, read when the page is built: they cannot go stale.

A page says which piece in a block of the language `source`,

    ```source
    ut_keras/layers/halting/halting.py: ACTHalting.halt
    ```

and gets it without its docstring, under a line that says where it stands.
"""

import ast
import os
import re
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BLOCK = re.compile(r"^```source\n(?P<path>[\w/]+\.py): (?P<name>[\w.]+)\n```$", re.MULTILINE)


def fill(markdown):
    """A page with the pieces that it names.

    Raises:
        ValueError: if a file or a name in it does not exist, or a block says neither.
    """
    filled = _BLOCK.sub(lambda match: _fenced(match["path"], match["name"]), markdown)
    if "```source" in filled:
        raise ValueError('A source block must hold one line "path.py: name".')
    return filled


def _fenced(path, name):
    return f'```python title="{path}"\n{excerpt(path, name)}\n```'


def excerpt(path, name):
    """The source of a function, method or class without its docstrings and decorators.

    Args:
        path: str, from the root of the repository.
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
        del kept[1]  # the empty line behind a class's docstring
    return textwrap.dedent("\n".join(kept))
