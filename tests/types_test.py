"""Public functions have type annotations, because `make lint` checks only annotated functions."""

import ast
import configparser
import glob
import os

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


CONFIG = configparser.ConfigParser()
CONFIG.read(os.path.join(ROOT, "setup.cfg"))
CHECKED = [name.strip() for name in CONFIG["mypy"]["files"].split(",")]


def _checked_files():
    for path in (os.path.join(ROOT, name) for name in CHECKED):
        inside = glob.glob(os.path.join(path, "**", "*.py"), recursive=True)
        yield from inside if os.path.isdir(path) else [path]


def _untyped(node, prefix=""):
    """Yield the names of public functions and methods that lack a type annotation."""
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
    layer, problem = "ut_keras/layers/attention/attention.py", "ut_keras/problems/scan.py"
    assert {"ut_keras/__init__.py", "ut_keras/bin/trainer.py", layer, problem} <= set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_public_functions_have_annotations(file):
    with open(os.path.join(ROOT, file), encoding="utf-8") as source:
        assert list(_untyped(ast.parse(source.read()))) == []


def test_installed_packages_have_py_typed():
    packages = CONFIG["options.packages.find"]["include"].replace("*", "").split()
    shipped = {*CONFIG["options.package_data"]["*"].split()}
    assert packages == CHECKED == ["ut_keras"]
    assert "py.typed" in shipped
    for package in ("ut_keras", "ut_keras/problems", "ut_keras/hparams", "ut_keras/pretrained"):
        assert os.path.isfile(os.path.join(ROOT, package, "py.typed"))
