"""Writes the page of the names of T2T's modules, and what a package gets for each of them.

python docs/t2t_modules.py                 writes docs/t2t_modules.md, by the names that it lists
python docs/t2t_modules.py --source=DIR    the same, by the names of T2T's source: the folder
                                           tensor2tensor of its sdist, which is read, not imported
"""

import ast
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from ut_keras import hparams, problems  # noqa: E402, F401  whose names packages may use
from ut_keras.files import whole_file  # noqa: E402
from ut_keras.t2t import modules  # noqa: E402
from ut_keras.t2t.missing import Absent  # noqa: E402

PAGE = os.path.join(HERE, "t2t_modules.md")
# What packages of problems and models import.
FOLDERS = ("data_generators", "layers", "models", "utils")
_HEAD = """# The names of T2T's modules

Written by `docs/t2t_modules.py` from the source of tensor2tensor 1.15.7, and from what `import`
gives a [package](t2t_package.md): all {total} public names of `{folders}`.
{works} work. {refused} can be imported, named and derived from, and are refused when they are
used, in the words that stand before them here. A name that is not listed is refused likewise.
"""


def read_source(folder):
    """{module: public names in it} of the folder `tensor2tensor` of T2T's source."""
    paths = (
        path
        for name in FOLDERS
        for path in glob.glob(os.path.join(folder, name, "**", "*.py"), recursive=True)
    )
    names = {}
    for path in sorted(path for path in paths if not path.endswith(("_test.py", "__init__.py"))):
        module = os.path.relpath(path, folder).removesuffix(".py").replace(os.sep, ".")
        with open(path, encoding="utf-8") as file:
            defined = sorted(set(_defined(ast.parse(file.read()).body)))
        names[module] = [name for name in defined if not name.startswith("_")]
    return {module: found for module, found in names.items() if found}


def _defined(statements):
    """The names that statements of a module define; what they import is of another module."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            stored = (node for target in statement.targets for node in ast.walk(target))
            yield from (node.id for node in stored if _is_set(node))
        elif isinstance(statement, ast.If | ast.Try):
            yield from _defined([*statement.body, *statement.orelse])


def _is_set(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def read_page(text):
    """{module: public names in it} of the page."""
    entries = re.split(r"^- `([\w.]+)`", text, flags=re.MULTILINE)[1:]
    found = (re.findall(r"`(\w+)`", entry.partition("\n#")[0]) for entry in entries[1::2])
    return {module: sorted(names) for module, names in zip(entries[::2], found, strict=True)}


def page(names):
    """The text of t2t_modules.md."""
    lines, counts = [], [0, 0]
    for folder in FOLDERS:
        lines += ["", f"## {folder}", ""]
        for module in sorted(module for module in names if module.split(".")[0] == folder):
            works = [name for name in names[module] if is_here(module, name)]
            refused = [name for name in names[module] if name not in works]
            counts = [counts[0] + len(works), counts[1] + len(refused)]
            lines.append(f"- `{module}`")
            lines += [f"    - works: {_listed(works)}"] * bool(works)
            by_reason = {}
            for name in refused:
                by_reason.setdefault(_reason(f"{module}.{name}"), []).append(name)
            lines += [f"    - {reason}: {_listed(some)}" for reason, some in by_reason.items()]
    head = _HEAD.format(
        total=sum(counts), works=counts[0], refused=counts[1], folders="`, `".join(FOLDERS)
    )
    return head + "\n".join(lines) + "\n"


def is_here(module, name):
    """Whether a name of a module of T2T is something that works."""
    return not isinstance(getattr(modules.find(module), name), Absent)


def _reason(name):
    return str(modules.missing(name)).partition("which is not here; ")[2].removesuffix(".")


def _listed(names):
    return ", ".join(f"`{name}`" for name in names)


def main(words):
    if words:
        names = read_source(words[0].removeprefix("--source="))
    else:
        with open(PAGE, encoding="utf-8") as file:
            names = read_page(file.read())
    if not names:
        raise SystemExit("--source must be a folder of tensor2tensor. Received: one without names.")
    text = page(names)
    with whole_file.writing(PAGE) as file:
        file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
