"""Evaluates finished runs with other numbers of steps and writes docs/results/steps.jsonl.

The file has one line per run. benchmarks/steps.py evaluates the best checkpoint of a run on every
split for which the cell has a score.
"""

import datetime
import os
import shlex
import subprocess
import sys

from results import cell_runner, definitions, lines
from ut_keras.errors import UserError
from ut_keras.files import metrics_file

_STEPS = os.path.join(definitions.HERE, "steps.py")
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
    splits = {}
    for split in dict.fromkeys(score.split for score in cell.scores):
        target = os.path.join(directory, f"steps-{split}")
        words = _words(numbers, hparams, split)
        where = [
            f"--output_dir={os.path.join(directory, 'best')}",
            f"--data_dir={folders.data_dir}",
            f"--visualize_dir={target}",
        ]
        result = subprocess.run([sys.executable, _STEPS, *words, *where], stderr=subprocess.PIPE)
        if result.returncode:
            last = result.stderr.decode().strip().rpartition("\n")[2]
            raise UserError(last)
        splits[split] = {
            str(record["step"]): {
                name: cell_runner.short(value)
                for name, value in record.items()
                if name not in metrics_file.NON_METRIC_KEYS
            }
            for record in metrics_file.records(target)
        }
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


def _words(numbers, hparams, split):
    words = [f"--steps={numbers}"]
    if hparams:
        words.append(f"--hparams={hparams}")
    return words + (["--eval_use_test_set"] if split != _VALID else [])
