"""Tests of the Makefile: its installation, its order of test files, and its demo."""

import os
import re
import subprocess

import pytest

from tests import conftest

ROOT = os.path.join(os.path.dirname(__file__), "..")


@pytest.mark.parametrize("pip_works", [True, False])
def test_make_installs_the_library_or_fails(pip_works, tmp_path):
    """`make` creates the file `.library` only if `pip install` succeeds.

    In this test, all other commands of Python succeed. `pip show` proves nothing, because it also
    finds the library of an earlier installation.
    """
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\ncase "$*" in *install*) exit {0 if pip_works else 1};; esac\n')
    python.chmod(0o755)
    stamp = tmp_path / ".library"
    command = ["make", "-s", f"VENV={tmp_path}", str(stamp)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert (result.returncode == 0) == stamp.exists() == pip_works
    assert sorted(os.listdir(tmp_path)) == sorted([".library"] * pip_works + ["bin"])


def test_longest_files_exist():
    """If a file in the list were renamed, it would start late. No other test would fail."""
    folder = os.path.dirname(conftest.__file__)
    assert len(conftest.LONGEST_FILES) == len(set(conftest.LONGEST_FILES))
    for name in conftest.LONGEST_FILES:
        assert os.path.exists(os.path.join(folder, name)), name


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_demo_is_the_run_that_the_page_shows(page):
    shown = _first_command_of_the_trainer(page)
    demo = _first_command_of_the_trainer("Makefile")
    flags = ("problem", "model", "hparams_set", "train_steps", "local_eval_frequency")
    for flag in (*flags, "random_seed", "schedule"):
        assert shown[flag] == demo[flag]


def _first_command_of_the_trainer(path):
    """Return the flags of the first trainer command in a file, as a dict {name: value}."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        command = re.search(r"trainer\.py(.*\\\n)+.*", file.read())[0]
    return dict(re.findall(r"--(\w+)=(\S+)", command))
