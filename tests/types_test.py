"""What `make lint` checks the types of has types: of an unannotated function nothing is checked."""

import ast
import configparser
import glob
import os

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _checked_files():
    config = configparser.ConfigParser()
    config.read(os.path.join(ROOT, "setup.cfg"))
    for pattern in config["mypy"]["files"].split(","):
        for path in glob.glob(os.path.join(ROOT, pattern.strip())):
            inside = glob.glob(os.path.join(path, "**", "*.py"), recursive=True)
            yield from inside if os.path.isdir(path) else [path]


def _untyped(node, prefix=""):
    """Names of public functions and methods whose parameters or result have no type."""
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _untyped(child, f"{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            arguments = child.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            named += [a for a in (arguments.vararg, arguments.kwarg) if a]
            typed = [a.annotation for a in named if a.arg not in ("self", "cls") or not prefix]
            is_public = not child.name.startswith("_") or child.name.endswith("__")
            if is_public and not (child.returns and all(typed)):
                yield prefix + child.name


FILES = sorted(os.path.relpath(path, ROOT) for path in _checked_files())


def test_files_are_found():
    layer, model = "ut_keras/layers/attention.py", "ut_keras/models/transformer.py"
    assert {"ut_keras/__init__.py", layer, model} <= set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_public_functions_say_types(file):
    with open(os.path.join(ROOT, file), encoding="utf-8") as source:
        assert list(_untyped(ast.parse(source.read()))) == []
