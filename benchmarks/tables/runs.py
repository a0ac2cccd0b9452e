"""Runs a cell of a table with a seed: the trainer as a user would call it, and one line at the end.

    RUNS_DIR/PROBLEM-RECIPE/seed-N            a run of the trainer, with log.txt
    RUNS_DIR/PROBLEM-RECIPE/seed-N/paper.json how long it took so far, and at which commit
    RESULTS_DIR/TABLE.jsonl                   one line for each run that has ended

A run that is told to stop goes on where it was, at the commit where it began; the test split is
read once, when training has ended.
"""

import datetime
import glob
import json
import os
import shlex
import subprocess
import sys
import time
from typing import Any

import tables
from tables import lines
from ut_keras.errors import DataError, UserError
from ut_keras.files import json_file, metrics_file, path_lock, whole_file
from ut_keras.training import trial_process

ROOT = os.path.dirname(tables.HERE)
TRAINER = os.path.join(ROOT, "trainer.py")
_WAIT_SECONDS = 0.2
_NOTE_EVERY_SECONDS = 30
_MOST_POINTS = 40  # of a curve
_RECORD = "paper.json"


class Stopped(Exception):
    """A run was told to stop; it is saved.

    Attributes:
        exit_code: int, 0 if it was the time.
    """

    def __init__(self, message, exit_code=0):
        super().__init__(message)
        self.exit_code = exit_code


class Runner:
    """Runs cells, one at a time.

    Args:
        folders: with `runs_dir`, `data_dir`, `tmp_dir` and `results_dir`.
        stop: with `requested`, whether a signal has come, and `stopped(text)`, the exception then.
        deadline: float. Of `time.monotonic()`: when to stop; what runs then is saved.
    """

    def __init__(self, folders, stop, deadline=float("inf")):
        self._folders = folders
        self._stop: Any = stop
        self._deadline = deadline

    def run(self, table, cell, seed, note=None):
        """Trains and tests, or goes on with it, and writes the line.

        Args:
            table: `Table`.
            cell: `Cell`.
            seed: int.
            note: str. If given, this is a setting that is tried: the test split is not read, and
                the line goes to tried.jsonl.

        Returns:
            dict, the line.

        Raises:
            Stopped.
            UserError: if the run ended with an error, or its folder is of another commit, or none.
            LockedError: if another process has the run.
        """
        directory = run_directory(self._folders.runs_dir, cell, seed)
        self._check()
        os.makedirs(directory, exist_ok=True)
        record = os.path.join(directory, _RECORD)
        with path_lock.held(record, "A run must be run", directory):
            return self._run(table, cell, seed, note, directory)

    def _run(self, table, cell, seed, note, directory):
        record = Record(directory)
        if not record.content["trained"]:
            record.write()
            folders = [f"--data_dir={self._folders.data_dir}", f"--tmp_dir={self._folders.tmp_dir}"]
            self._process([*cell.training(seed), *folders], directory, directory, record)
            record.write(trained=True)
        best = os.path.join(directory, "best")
        step = _newest_step(best)
        tests = note is None
        if tests and not set(cell.metrics("test")) <= set(_results(best, step, "test")):
            folders = [f"--data_dir={self._folders.data_dir}"]
            self._process([*cell.testing(), *folders], best, directory)
        line = {
            "table": table.name,
            "cell": cell.name,
            "metric": cell.valid,
            **({} if note is None else {"setting": _setting(cell), "note": note}),
            "seed": seed,
            "recipe": cell.recipe,
            "command": shown_command(cell, seed),
            "set": cell.set_values,
            "commit": record.content["commit"],
            "date": datetime.date.today().isoformat(),
            "updates": cell.updates,
            "best_at": step,
            "seconds": round(record.content["seconds"]),
            **({"where": where} if (where := record.content["where"]) else {}),
            "valid": _results(directory, step, "dev", cell.metrics("valid")),
            **({"test": _results(best, step, "test", cell.metrics("test"))} if tests else {}),
            "curve": _curve(directory, cell.valid),
        }
        file = f"{table.name}.jsonl" if tests else lines.TRIED
        lines.append(self._folders.results_dir, file, line)
        return line

    def _check(self):
        if self._stop.requested:
            raise Stopped("told to stop", self._stop.stopped("").exit_code)
        if time.monotonic() >= self._deadline:
            raise Stopped("the time is over")

    def _process(self, arguments, output_dir, directory, record=None):
        """Runs the trainer to its end; its time is counted in `record`."""
        lock = trial_process.try_lock(directory)
        if lock is None:  # of a runner that was killed
            raise path_lock.LockedError(f"The trainer in {directory} must have ended.")
        words = [sys.executable, TRAINER, *arguments, f"--output_dir={output_dir}"]
        process = trial_process.TrialProcess(words, directory, None, lock)
        counted = time.monotonic()
        try:
            while process.exit_code is None:
                time.sleep(_WAIT_SECONDS)
                if self._stop.requested or time.monotonic() >= self._deadline:
                    process.stop()
                now = time.monotonic()
                is_due = process.exit_code is not None or now - counted > _NOTE_EVERY_SECONDS
                if record and is_due:
                    record.write(seconds=record.content["seconds"] + now - counted)
                    counted = now
        finally:
            if process.exit_code is None:
                process.kill()
        # What was told to stop when it had ended anyway has ended well.
        if process.exit_code:
            self._check()
            if process.exit_code > 2:
                raise Stopped(f"the trainer was stopped: {process.last_line()}", process.exit_code)
            raise UserError(f"{process.last_line()} ({os.path.join(directory, 'log.txt')})")


class Record:
    """What has to be remembered of a run besides what the trainer does: paper.json."""

    def __init__(self, directory):
        self._path = os.path.join(directory, _RECORD)
        self.content = {"seconds": 0.0, "commit": commit(), "trained": False, "where": ""}
        if os.path.exists(self._path):
            found = json_file.read(self._path, DataError)
            kinds = {key: type(value) for key, value in found.items()}
            if kinds != {key: type(value) for key, value in self.content.items()}:
                raise DataError(f"{self._path} must be what a run noted. Received: {found}.")
            if found["commit"] != self.content["commit"]:
                raise UserError(
                    f"The run in {directory} must go on at the commit where it began, "
                    f"{found['commit']}. Received: {self.content['commit']}."
                )
            self.content = found

    def write(self, **changed):
        self.content.update(changed)
        with whole_file.writing(self._path) as file:
            json.dump(self.content, file)


def run_directory(runs_dir, cell, seed):
    """The folder of a run."""
    return os.path.join(runs_dir, f"{cell.problem}-{cell.recipe}", f"seed-{seed}")


def shown_command(cell, seed):
    """The command of training, as one would type it elsewhere."""
    folders = ["--data_dir=data", "--tmp_dir=raw", "--output_dir=run"]
    return shlex.join(["python", "trainer.py", *cell.training(seed), *folders])


def commit():
    """The last commit that changed more than docs and tests; "-dirty" if files are others now."""
    code = ["--", ":/", ":(top,exclude)docs", ":(top,exclude)tests", ":(top,exclude)*.md"]
    last = _git("log", "-1", "--format=%h", "--abbrev=10", *code)
    changed = _git("status", "--porcelain", "-uno", *code)
    return f"{last or 'unknown'}{'-dirty' if changed else ''}"


def _git(*words):
    result = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    return result.stdout.strip()


def _setting(cell):
    parts = (cell.hparams_set, cell.hparams, *cell.flags, f"{cell.updates:,} updates")
    return ", ".join(part for part in parts if part)


# What runs leave.


def _newest_step(directory):
    """The step of the one checkpoint in the folder of the best weights."""
    steps = [
        int(os.path.basename(path).split("-")[1].removesuffix(".index"))
        for path in glob.glob(os.path.join(glob.escape(directory), "model.ckpt-*.index"))
    ]
    if not steps:
        raise UserError(f"The best weights must be in {directory}. Received: none.")
    return max(steps)


def _results(directory, step, split, needed=()):
    """{metric: value} that a run has recorded of a step, teacher-forced and decoded."""
    found = {
        metric: short(curve[step])
        for metric, curve in _curves(directory, split).items()
        if step in curve
    }
    if missing := [metric for metric in needed if metric not in found]:
        raise DataError(
            f"{directory} must have {', '.join(missing)} of {split} at step {step}. Received: "
            f"{', '.join(found) or 'nothing'}."
        )
    return found


def _curves(directory, split):
    """{metric: {step: value}}, steps ascending; one that was evaluated twice as the last time."""
    records = list(metrics_file.records(directory))
    path = metrics_file.path(directory)
    if os.path.exists(path):
        with open(path, "rb") as file:
            if len(file.readlines()) != len(records):
                raise DataError(f"Every line must be a JSON object with a step. Received: {path}.")
    curves = {}
    for record in records:
        if record.get("split") == split:
            for metric, value in record.items():
                if metric not in metrics_file.NON_METRIC_KEYS:
                    curves.setdefault(metric, {})[record["step"]] = value
    return {metric: dict(sorted(curve.items())) for metric, curve in curves.items()}


def _curve(directory, metric):
    """[[step, value]] of the validation, thinned out from its end."""
    points = list(_curves(directory, "dev")[metric].items())
    kept = points[:: -max(1, -(-len(points) // _MOST_POINTS))]
    return [[step, float(f"{value:.4g}")] for step, value in reversed(kept)]


def short(value):
    """`value` to six digits."""
    return float(f"{value:.6g}")
