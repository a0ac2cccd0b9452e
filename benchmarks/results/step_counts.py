"""Evaluates finished runs with other numbers of steps and writes docs/results/steps.jsonl.

The file has one line per run. benchmarks/steps.py evaluates the best checkpoint of a run on every
split for which the cell has a score.
"""

import datetime
import json
import os
import shlex
import subprocess
import sys

from results import cell_runner, definitions, lines
from ut_keras.errors import UserError
from ut_keras.files import metrics_file

# One process evaluates all splits, because loading TensorFlow takes longer than an evaluation.
_PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import steps
for words in json.loads(sys.argv[2]):
    if code := steps.main(words):
        sys.exit(code)
"""
_VALID = "valid"


def measure(folders, table, cell, seed, numbers, hparams=""):
    """Evaluate a run and write its result line.

    Args:
        folders: object with the attributes `runs_dir`, `data_dir` and `results_dir`.
        table: `Table`.
        cell: `Cell`.
        seed: int.
        numbers: str, the numbers of steps, separated by commas.
        hparams: str, values that replace hparams of the run, for example another halting rule.

    Returns:
        dict, the line. The value of "splits" is {split: {number of steps: {metric: value}}}. The
        number of steps is a str.

    Raises:
        UserError: if the run is not finished, or cannot be evaluated with these hparams.
    """
    if not lines.read(folders.results_dir).has(cell, seed):
        raise UserError("the run is not finished. Train it first.")
    directory = cell_runner.run_directory(folders.runs_dir, cell, seed)
    names = list(dict.fromkeys(score.split for score in cell.scores))
    targets = {split: os.path.join(directory, f"steps-{split}") for split in names}
    where = [f"--output_dir={os.path.join(directory, 'best')}", f"--data_dir={folders.data_dir}"]
    commands = [
        [*_words(numbers, hparams, split), *where, f"--visualize_dir={target}"]
        for split, target in targets.items()
    ]
    program = [sys.executable, "-c", _PROGRAM, definitions.HERE, json.dumps(commands)]
    result = subprocess.run(program, stderr=subprocess.PIPE)
    if result.returncode:
        raise UserError(result.stderr.decode().strip().rpartition("\n")[2])
    splits = {split: _results(target) for split, target in targets.items()}
    words = _words(numbers, hparams, names[-1])
    line = {
        "table": table.name,
        "cell": cell.name,
        "seed": seed,
        "recipe": cell.recipe,
        "hparams": hparams,
        "command": shlex.join(["python", "benchmarks/steps.py", *words, "--output_dir=run/best"]),
        "commit": cell_runner.commit(),
        "date": datetime.date.today().isoformat(),
        "splits": splits,
    }
    lines.append(folders.results_dir, lines.STEPS, line)
    return line


def _results(directory):
    """Return {number of steps: {metric: value}} from a folder that benchmarks/steps.py wrote."""
    return {
        str(record["step"]): {
            name: cell_runner.short(value)
            for name, value in record.items()
            if name not in metrics_file.NON_METRIC_KEYS
        }
        for record in metrics_file.records(directory)
    }


def _words(numbers, hparams, split):
    words = [f"--steps={numbers}"]
    if hparams:
        words.append(f"--hparams={hparams}")
    return words + (["--eval_use_test_set"] if split != _VALID else [])
