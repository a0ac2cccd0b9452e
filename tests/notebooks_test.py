"""The notebooks run unchanged from top to bottom, each in its own process."""

import glob
import json
import os
import re

import pytest

from tests import forks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOTEBOOKS = sorted(glob.glob(os.path.join(ROOT, "notebooks", "*.ipynb")))
LARGEST = 150_000  # the largest allowed size in bytes of a notebook with outputs

NO_WARNINGS = "import warnings; warnings.simplefilter('ignore')"
# This program runs the cells. Like Jupyter, it displays the value of the last expression, as a
# picture if possible.
RUNNER = """
import ast, json, sys

names = {"__name__": "__main__"}
for number, cell in enumerate(json.load(open(sys.argv[1], encoding="utf-8"))["cells"]):
    if cell["cell_type"] != "code":
        continue
    tree, value = ast.parse("".join(cell["source"])), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    if last:
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    if hasattr(value, "_repr_png_"):
        print("a picture of", len(value._repr_png_()), "bytes")
    elif value is not None:
        print(value)
"""

# Each pattern matches the last lines of a notebook's output. Measured numbers may differ.
EXPECTED = {
    "01_quickstart": r"\n3 2 1\n$",
    "02_babi_ponder": r"Where is the milk \? hallway\n(.*\n)*a picture of \d+ bytes\n"
    r"a picture of \d+ bytes\n(.*: |.*\? +)question \d steps, facts \d\.\d\d\n",
    "03_from_t2t": r"logits differ by \d\.\de-0[67]\n(.*\n)*scores differ by \d\.\de-0[67]\n",
    "04_own_problem": r"( *\d+  [MDCLXVI]+ +(right|not [MDCLXVI]+)\n){8}$",
}


def _name(path):
    return os.path.basename(path).removesuffix(".ipynb")


def _read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _code(path):
    return ["".join(c["source"]) for c in _read(path)["cells"] if c["cell_type"] == "code"]


def test_all_notebooks_are_listed():
    assert [_name(path) for path in NOTEBOOKS] == sorted(EXPECTED)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_notebook_runs(path, tmp_path):
    """The notebook runs in an empty folder, as it would on a notebook server.

    The notebook downloads nothing.
    """
    if "visualize" in "".join(_code(path)):
        pytest.importorskip("matplotlib", reason="its pictures need matplotlib")
    runner = tmp_path / "runner.py"
    runner.write_text(RUNNER)
    folder = tmp_path / "folder"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": ROOT, "MPLBACKEND": "agg"}
    result = forks.run([str(runner), path], folder, environment, prepare=NO_WARNINGS)
    assert result.returncode == 0, result.stderr[-3000:]
    assert re.search(EXPECTED[_name(path)], result.stdout), result.stdout[-3000:]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_first_cell_installs(path):
    """If ut_keras is missing, the first cell installs it from the clone.

    All notebooks have the same first cell.
    """
    first = _code(path)[0]
    assert first == _code(NOTEBOOKS[0])[0]
    assert 'if importlib.util.find_spec("ut_keras") is None:' in first
    assert '"install", "--quiet", "..[plot]"' in first


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_outputs_are_small_and_of_one_run(path):
    assert os.path.getsize(path) < LARGEST
    cells = [cell for cell in _read(path)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell["outputs"]:
            assert output["output_type"] != "error" and output.get("name") != "stderr"
    assert not re.search(r'"/(home|root|tmp|work|usr)/', json.dumps(cells))
