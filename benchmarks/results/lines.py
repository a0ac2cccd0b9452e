"""Reads, checks and appends the result lines, which are JSON objects.

RESULTS_DIR/TABLE.jsonl    a line for each finished run of a cell
RESULTS_DIR/tried.jsonl    a line for each run with a setting that differs from all cells
RESULTS_DIR/steps.jsonl    a line for each evaluation of a finished run with other numbers of steps
"""

import glob
import json
import os
from typing import NamedTuple

from ut_keras.errors import DataError
from ut_keras.files import json_file

TRIED, STEPS = "tried.jsonl", "steps.jsonl"
_RUN = {"table": str, "cell": str, "seed": int}
_ENDED = {"recipe": str, "metric": str, "set": dict, "updates": int, "seconds": int, "test": dict}
_OF_STEPS = {"recipe": str, "hparams": str, "splits": dict}
_NEEDED = {TRIED: _RUN | {"setting": str}, STEPS: _RUN | _OF_STEPS}


class Lines(NamedTuple):
    """All lines of a folder.

    The field `finished` is {recipe: {seed: line}} for all tables together.
    """

    finished: dict
    tried: list = []
    steps: list = []

    def of(self, cell):
        """Return the lines of a cell, sorted by seed."""
        by_seed = self.finished.get(cell.recipe, {})
        return [by_seed[seed] for seed in sorted(by_seed)]

    def has(self, cell, seed, is_tried=False):
        """Return whether a run of a cell is finished.

        With `is_tried`, only runs in tried.jsonl count.
        """
        if not is_tried:
            return seed in self.finished.get(cell.recipe, {})
        return any((x.get("recipe"), x["seed"]) == (cell.recipe, seed) for x in self.tried)

    def has_steps(self, cell, seed, numbers):
        """Return whether a run of a cell was evaluated with all of these numbers of steps."""
        needed = set(map(str, numbers))
        return any(
            (x["recipe"], x["seed"], x["hparams"]) == (cell.recipe, seed, "")
            and all(needed <= set(by_steps) for by_steps in x["splits"].values())
            for x in self.steps
        )


def read(results_dir):
    """Return the `Lines` of a folder.

    Raises:
        DataError: if a line does not describe the result of a run.
    """
    finished, steps = {}, {}
    for path in sorted(glob.glob(os.path.join(glob.escape(results_dir), "*.jsonl"))):
        if os.path.basename(path) not in (TRIED, STEPS):
            for line in _read(path):
                finished.setdefault(line["recipe"], {})[line["seed"]] = line
    for line in _read(os.path.join(results_dir, STEPS)):
        # A later line replaces an earlier line.
        steps[line["recipe"], line["seed"], line["hparams"]] = line
    return Lines(finished, _read(os.path.join(results_dir, TRIED)), list(steps.values()))


def check(lines, tables):
    """Check that each line with the recipe of a cell agrees with this cell.

    Raises:
        DataError: if a line has the recipe of a cell, but a different name or setting.
    """
    runs = [
        (cell.recipe, table.name, cell.name, cell.updates, cell.set_values)
        for table in tables
        for cell in table.cells
    ]
    current = {run[0] for run in runs}
    for recipe, by_seed in lines.finished.items():
        for x in by_seed.values() if recipe in current else ():
            if (recipe, x["table"], x["cell"], x["updates"], x["set"]) not in runs:
                names = " or ".join(f"{run[1]}/{run[2]}" for run in runs if run[0] == recipe)
                raise DataError(
                    f"A line of recipe {recipe} must have the name and set of {names}. Received: "
                    f"{x['table']}/{x['cell']}, seed {x['seed']}."
                )


def append(results_dir, file, line):
    """Append a line to a file of the folder. An incomplete last line of the file is replaced."""
    os.makedirs(results_dir, exist_ok=True)
    with open(os.path.join(results_dir, file), "a+b") as file:
        file.seek(0)
        content = file.read()
        if not content.endswith(b"\n"):
            file.truncate(content.rfind(b"\n") + 1)
        file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")


def _read(path):
    """Return the lines of a file. An incomplete last line is omitted."""
    if not os.path.exists(path):
        return []
    name = os.path.basename(path)
    with open(path, "rb") as file:
        texts = file.read().split(b"\n")[:-1]
    found = [json_file.parse_line(text + b"\n") for text in texts]
    for number, (line, text) in enumerate(zip(found, texts, strict=True), start=1):
        needed = _NEEDED.get(name, _RUN | _ENDED).items()
        wrong = [key for key, kind in needed if not isinstance(line.get(key), kind)]
        if not wrong and name != STEPS and "result" not in line:
            valid = line.get("valid")
            value = valid.get(line.get("metric")) if isinstance(valid, dict) else None
            wrong = [] if isinstance(value, (int, float)) else ["valid"]
        if wrong:
            raise DataError(
                f"{path}, line {number}, must be the result of a run with {wrong[0]!r}. Received: "
                f"{text[:60].decode(errors='replace')!r}."
            )
    return found
