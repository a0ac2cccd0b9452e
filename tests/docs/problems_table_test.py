"""The table of problems agrees with the attributes of the problems."""

import fnmatch
import importlib.util
import os
import re
import subprocess
import sys

from ut_keras import problems

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
DOCS, SCRIPTS = os.path.join(ROOT, "docs"), os.path.join(ROOT, "scripts")


def _load():
    spec = importlib.util.spec_from_file_location("problems_table", f"{SCRIPTS}/problems_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _load()


def _read():
    with open(os.path.join(DOCS, "problems.md"), encoding="utf-8") as file:
        return file.read()


def test_table_is_up_to_date():
    assert _read() == TABLE.problems_table(), "run: python scripts/problems_table.py"


def _names(cell):
    """Yield the names of problems in the first cell of a row, where {a…b} is a range."""
    for name in re.findall(r"`([^`]+)`", cell):
        match = re.match(r"(.*)\{(.*)\}(.*)", name)
        if not match:
            yield name
            continue
        numbers = match[2].split(",")
        if "…" in match[2]:
            first, last = map(int, match[2].split("…"))
            numbers = map(str, range(first, last + 1))
        yield from (match[1] + number + match[3] for number in numbers)


def test_table_contains_every_problem_once():
    cells = [line.split(" | ")[0] for line in _read().splitlines() if line.startswith("| `")]
    names = [name for cell in cells for name in _names(cell)]
    assert sorted(names) == TABLE.problem_names()


def test_sizes_belong_to_problems():
    names = TABLE.problem_names()
    for pattern, sizes in TABLE.SIZES.items():
        found = fnmatch.filter(names, pattern)
        assert found, pattern
        for name in found:
            first = next(p for p in TABLE.SIZES if fnmatch.fnmatch(name, p))
            for split, size in zip(("train", "dev", "test"), sizes, strict=True):
                assert first != pattern or size is None or split in problems.get(name).splits, name


def test_table_script_does_not_import_tensorflow():
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1])['problems_table']();"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    path = os.path.join(SCRIPTS, "problems_table.py")
    subprocess.run([sys.executable, "-c", code, path], check=True)
