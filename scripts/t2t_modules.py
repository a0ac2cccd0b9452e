"""Writes the page about the names in T2T's modules and their counterparts in ut_keras.

python scripts/t2t_modules.py                 updates docs/t2t_modules.md for the names in it
python scripts/t2t_modules.py --source=DIR    writes the page with the names in T2T's source code

DIR is the folder `tensor2tensor` of T2T's source distribution. The script reads the files in DIR
without importing them. With `--source`, it also writes ut_keras/t2t/imports.py, which lists what
each module of T2T imports.
"""

import ast
import glob
import importlib
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCS = os.path.join(ROOT, "docs")
sys.path.insert(0, ROOT)

from ut_keras import hparams, problems  # noqa: E402, F401  these imports register sets and problems
from ut_keras.files import whole_file  # noqa: E402
from ut_keras.t2t import imports, modules  # noqa: E402
from ut_keras.t2t.missing import Absent  # noqa: E402

PAGE = os.path.join(DOCS, "t2t_modules.md")
# The folders that packages of problems and models import.
FOLDERS = ("data_generators", "layers", "models", "utils")
_HEAD = """# The names of T2T's modules

This page lists all {total} public names of `{folders}` in
tensor2tensor 1.15.7, and what a [package](t2t_package.md) gets when it imports them.

- {works} names work.
- {unsupported} names can be imported and used as base classes, but any other use raises an error.
  On this page, the text of the error is before the names. Names that are not listed raise an error
  too.

A package can also reach a module through another module of T2T that imports it. The lines
"imports" list these modules.

`scripts/t2t_modules.py` writes this page from T2T's source and from the result of `import`.
"""
# Modules that T2T's modules import. A package may access these modules through a module of T2T.
_OTHERS = {*sys.stdlib_module_names, "absl", "numpy", "six", "tensorflow"}
_IMPORTS = os.path.join(ROOT, "ut_keras", "t2t", "imports.py")
_IMPORTS_HEAD = '''"""The names that each module of T2T imports. Packages may use them too.

`scripts/t2t_modules.py --source=…` writes this file from the source of tensor2tensor 1.15.7.

    translate_envi.problem.DatasetSplit.TRAIN        data_generators.problem, through another module

TARGETS maps each name to the module or object that it usually means. A target that begins with a
dot is in T2T; "tensor2tensor" is omitted. BY_MODULE lists the names by module. There, NAME=TARGET
marks a name that has another target than in TARGETS.
"""
'''


def read_source(folder):
    """Return {module: public names} for the folder `tensor2tensor` of T2T's source."""
    names = {}
    for module, statements in _parsed(folder):
        defined = sorted(set(_defined(statements)))
        names[module] = [name for name in defined if not name.startswith("_")]
    return {module: found for module, found in names.items() if found}


def read_imports(folder):
    """Return {module: {name: the imported object}} for the imports in T2T's source."""
    return {
        module: {
            name: target
            for name, target in sorted(_imported(statements))
            if target.startswith(".") or target.partition(".")[0] in _OTHERS
        }
        for module, statements in _parsed(folder)
    }


def _parsed(folder):
    """Yield (module, statements) for each module of T2T's source, sorted by path."""
    paths = (
        path
        for name in FOLDERS
        for path in glob.glob(os.path.join(folder, name, "**", "*.py"), recursive=True)
    )
    for path in sorted(path for path in paths if not path.endswith(("_test.py", "__init__.py"))):
        with open(path, encoding="utf-8") as file:
            statements = ast.parse(file.read()).body
        yield os.path.relpath(path, folder).removesuffix(".py").replace(os.sep, "."), statements


def _defined(statements):
    """Yield the names that the statements of a module define. Imported names are omitted."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            stored = (node for target in statement.targets for node in ast.walk(target))
            yield from (node.id for node in stored if _is_set(node))
        elif isinstance(statement, ast.If | ast.Try):
            yield from _defined([*statement.body, *statement.orelse])


def _imported(statements):
    """Yield (name, the imported object) for the imports among the statements of a module."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            # `import a.b` defines the name a.
            pairs = ((alias.asname, alias.name) for alias in statement.names)
            found = [(short or full.partition(".")[0], full, short) for short, full in pairs]
            found = [(n, full if short else n) for n, full, short in found]
        elif isinstance(statement, ast.ImportFrom):
            names = [alias for alias in statement.names if alias.name != "*"]
            found = [(a.asname or a.name, f"{statement.module}.{a.name}") for a in names]
        elif isinstance(statement, ast.If | ast.Try):
            found = _imported([*statement.body, *statement.orelse])
        else:
            found = []
        for name, target in found:
            if not target.startswith("__future__") and not name.startswith("_"):
                yield name, re.sub(r"^tensor2tensor\b", "", target)


def imports_text(found):
    """Return the text of ut_keras/t2t/imports.py."""
    counts = {}
    for names in found.values():
        for name, target in names.items():
            counts.setdefault(name, {}).setdefault(target, 0)
            counts[name][target] += 1
    usual = {name: max(counts[name], key=counts[name].get) for name in sorted(counts)}
    words = " ".join(f"{name}={target}" for name, target in usual.items())
    lines = [_IMPORTS_HEAD, '_TARGETS = """', *textwrap.wrap(words, 99, break_on_hyphens=False)]
    lines += ['"""', '_BY_MODULE = """']
    for module, names in found.items():
        words = (n if target == usual[n] else f"{n}={target}" for n, target in names.items())
        line = f"{module}: {' '.join(words)}".rstrip()
        options = {"subsequent_indent": " " * 4, "break_long_words": False}
        lines += textwrap.wrap(line, 99, break_on_hyphens=False, **options)
    return "\n".join(lines) + _IMPORTS_END


_IMPORTS_END = '''
"""
TARGETS = dict(word.split("=") for word in _TARGETS.split())


def _read(text):
    entries = (entry.partition(":") for entry in text.replace("\\n    ", " ").split("\\n"))
    return {
        module: {
            name: target or TARGETS[name]
            for name, _, target in (word.partition("=") for word in words.split())
        }
        for module, _, words in entries
        if module
    }


BY_MODULE = _read(_BY_MODULE)
'''


def _is_set(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def read_page(text):
    """Return {module: public names} from the text of the page."""
    text = re.sub(r"^    - imports: .*$", "", text, flags=re.MULTILINE)
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
            unsupported = [name for name in names[module] if name not in works]
            counts = [counts[0] + len(works), counts[1] + len(unsupported)]
            lines.append(f"- `{module}`")
            lines += [f"    - works: {_listed(works)}"] * bool(works)
            carried = [name for name in imports.BY_MODULE.get(module, ()) if is_here(module, name)]
            lines += [f"    - imports: {_listed(carried)}"] * bool(carried)
            by_reason = {}
            for name in unsupported:
                by_reason.setdefault(_reason(f"{module}.{name}"), []).append(name)
            lines += [f"    - {reason}: {_listed(some)}" for reason, some in by_reason.items()]
    head = _HEAD.format(
        total=sum(counts), works=counts[0], unsupported=counts[1], folders="`, `".join(FOLDERS)
    )
    return head + "\n".join(lines) + "\n"


def is_here(module, name):
    """Return whether ut_keras provides a name of a module of T2T."""
    return not isinstance(getattr(modules.find(module), name), Absent)


def _reason(name):
    return str(modules.missing(name)).partition("which is not supported; ")[2].removesuffix(".")


def _listed(names):
    return ", ".join(f"`{name}`" for name in names)


def main(words):
    if words:
        folder = words[0].removeprefix("--source=")
        names = read_source(folder)
        if names:
            with whole_file.writing(_IMPORTS) as file:
                file.write(imports_text(read_imports(folder)))
            importlib.reload(imports)
            importlib.reload(modules)
    else:
        with open(PAGE, encoding="utf-8") as file:
            names = read_page(file.read())
    if not names:
        raise SystemExit("--source must be a folder of tensor2tensor. Received: no public names.")
    text = page(names)
    with whole_file.writing(PAGE) as file:
        file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
