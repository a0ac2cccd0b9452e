"""docs/architecture.md names only existing files, functions and classes."""

import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def _blocks(page):
    return re.findall(r"```text\n(.*?)```", _read(page), re.DOTALL)


def test_architecture_page_names_existing_files():
    blocks = [block for block in _blocks("docs/architecture.md") if block.startswith("ut_keras/")]
    assert len(blocks) == 5
    for line in "".join(blocks).splitlines():
        folder = ""
        for path in re.split(r",\s*", re.split(r"\s{2,}", line)[0]):
            candidates = [path, os.path.join(folder, path)]
            assert not path or any(os.path.exists(os.path.join(ROOT, c)) for c in candidates), line
            folder = folder or os.path.dirname(path)


def test_architecture_page_names_existing_functions_of_fit():
    """Each line of the block begins with a function and the file that defines it."""
    [block] = [block for block in _blocks("docs/architecture.md") if block.startswith("fit ")]
    for line in block.splitlines():
        name, path, *_ = re.split(r"\s{2,}", line.strip())
        assert f"def {name.rstrip('*')}(" in _read(f"ut_keras/{path}"), line


def test_architecture_page_names_existing_classes_of_models():
    rows = re.findall(
        r"^\| `(\w+)`.* \| `(\w+/\w+\.py)`", _read("docs/architecture.md"), re.MULTILINE
    )
    assert len(rows) == 7
    for name, path in rows:
        assert f"class {name}(" in _read(f"ut_keras/{path}"), name
