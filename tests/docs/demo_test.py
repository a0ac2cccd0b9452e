"""`make demo` and the pages run the same training."""

import os
import re
import shlex

import pytest

from tests.docs import code_blocks_test

_FOLDERS = {"--data_dir", "--tmp_dir", "--output_dir"}


def _recipe(text):
    """Return the flags of the first training in `text`, without folders, as a dict."""
    command = re.search(r"trainer\.py (?:[^\n]*\\\n)+[^\n]*", text)[0].replace("\\\n", " ")
    flags = dict(word.partition("=")[::2] for word in shlex.split(command)[1:])
    return {name: value for name, value in flags.items() if name not in _FOLDERS}


@pytest.fixture(scope="module", name="demo")
def _demo():
    with open(os.path.join(code_blocks_test.ROOT, "Makefile"), encoding="utf-8") as file:
        return _recipe(file.read())


def test_readme_shows_the_command_of_the_demo(demo):
    assert _recipe(code_blocks_test._read("README.md")) == demo


def test_quickstart_trains_as_the_demo(demo):
    assert _recipe(code_blocks_test._read("docs/quickstart.md")).items() <= demo.items()
