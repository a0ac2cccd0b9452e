"""Write the page of the names in T2T's modules and what a package gets for each.

python docs/t2t_modules.py                 rewrites docs/t2t_modules.md with the names it lists
python docs/t2t_modules.py --source=DIR    the same with the names of T2T's source: the folder
                                           tensor2tensor of its sdist, read without importing it
"""

import ast
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from ut_keras import hparams, problems  # noqa: E402, F401  packages may use their names
from ut_keras.files import whole_file  # noqa: E402
from ut_keras.t2t import modules  # noqa: E402
from ut_keras.t2t.missing import Absent  # noqa: E402

PAGE = os.path.join(HERE, "t2t_modules.md")
# The folders that packages of problems and models import.
FOLDERS = ("data_generators", "layers", "models", "utils")
_HEAD = """# The names of T2T's modules

This page lists all {total} public names of `{folders}` in
tensor2tensor 1.15.7, and what a [package](t2t_package.md) gets when it imports them.

- {works} names work.
- {refused} names can be imported, named and derived from. Using them raises an error with the text
  that precedes them on this page. The same holds for names that are not listed.

`docs/t2t_modules.py` writes this page from T2T's source and from the result of `import`.
"""


def read_source(folder):
    """Return {module: public names in it} for the folder `tensor2tensor` of T2T's source."""
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
    """Yield the names that the statements of a module define, without imported names."""
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
    """Return {module: public names in it} for the page."""
    entries = re.split(r"^- `([\w.]+)`", text, flags=re.MULTILINE)[1:]
    found = (re.findall(r"`(\w+)`", entry.partition("\n#")[0]) for entry in entries[1::2])
    return {module: sorted(names) for module, names in zip(entries[::2], found, strict=True)}


def page(names):
    """Return the text of t2t_modules.md."""
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
    """Return whether a name of a module of T2T works."""
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
