"""Trains and tests a cell of a table with one seed, and adds a line with the results.

    RUNS_DIR/PROBLEM-RECIPE/seed-N            the output folder of the trainer, with log.txt
    RUNS_DIR/PROBLEM-RECIPE/seed-N/paper.json the duration of the run so far, and the commit
    RESULTS_DIR/TABLE.jsonl                   one line for each finished run

A stopped run can be resumed only at the commit at which it was started. The test split is read only
once, after training.
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

from results import definitions, lines
from ut_keras.errors import DataError, UserError
from ut_keras.files import json_file, metrics_file, path_lock, whole_file
from ut_keras.training import trial_process

ROOT = os.path.dirname(definitions.HERE)
TRAINER = os.path.join(ROOT, "trainer.py")
_WAIT_SECONDS = 0.2
_NOTE_EVERY_SECONDS = 30
_MOST_POINTS = 40  # maximum number of points of a curve
_RECORD = "paper.json"


class Stopped(Exception):
    """A run was stopped after its state was saved.

    Attributes:
        exit_code: int. The value is 0 if the run was stopped by the time limit.
    """

    def __init__(self, message, exit_code=0):
        super().__init__(message)
        self.exit_code = exit_code


class Runner:
    """Runs cells one after another.

    Args:
        folders: object with the attributes `runs_dir`, `data_dir`, `tmp_dir` and `results_dir`.
        stop: `interruption.StopRequest`, which records whether a signal arrived.
        deadline: float, a value of `time.monotonic()`. At this time, the current run is saved and
            stopped.
    """

    def __init__(self, folders, stop, deadline=float("inf")):
        self._folders = folders
        self._stop: Any = stop
        self._deadline = deadline

    def run(self, table, cell, seed, note=None):
        """Train and test a cell, and write the result line. A stopped run is resumed.

        Args:
            table: `Table`.
            cell: `Cell`.
            seed: int.
            note: str, the reason for trying the setting. If a note is given, the test split is not
                read, and the line is written to tried.jsonl.

        Returns:
            dict, the result line.

        Raises:
            Stopped: if the run was stopped before its end.
            UserError: if the trainer failed, or if the run was started at another commit.
            LockedError: if another process is running the same run.
        """
        directory = run_directory(self._folders.runs_dir, cell, seed)
        self.check()
        os.makedirs(directory, exist_ok=True)
        record = os.path.join(directory, _RECORD)
        with path_lock.held(record, "A run must be run", directory):
            return self._run(table, cell, seed, note, directory)

    def _run(self, table, cell, seed, note, directory):
        """Run a cell in a folder that this process has locked. See `run`."""
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
            **_described(table, cell, seed, note),
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

    def check(self):
        """Raise `Stopped` if a signal arrived or the time is over."""
        if self._stop.requested:
            raise Stopped("stopped by a signal", self._stop.stopped("").exit_code)
        if time.monotonic() >= self._deadline:
            raise Stopped("the time of --hours is over")

    def _process(self, arguments, output_dir, directory, record=None):
        """Run the trainer until it exits, and add the duration to `record`."""
        lock = trial_process.try_lock(directory)
        if lock is None:  # an earlier runner was killed, but its trainer is still running
            raise path_lock.LockedError(f"The trainer in {directory} must have ended.")
        arguments = [*map(_with_absolute_package, arguments), f"--output_dir={output_dir}"]
        words = [sys.executable, TRAINER, *arguments]
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
        # If the trainer exits with 0 after a stop request, it finished training before the request.
        if process.exit_code:
            self.check()
            if process.exit_code > 2:
                raise Stopped(f"the trainer was stopped: {process.last_line()}", process.exit_code)
            raise UserError(f"{process.last_line()} ({os.path.join(directory, 'log.txt')})")


class Record:
    """The file paper.json, which holds the facts about a run that the trainer does not save."""

    def __init__(self, directory):
        self._path = os.path.join(directory, _RECORD)
        self.content = {"seconds": 0.0, "commit": commit(), "trained": False, "where": ""}
        if os.path.exists(self._path):
            found = json_file.read(self._path, DataError)
            kinds = {key: type(value) for key, value in found.items()}
            if kinds != {key: type(value) for key, value in self.content.items()}:
                raise DataError(f"{self._path} must be a file of this script. Received: {found}.")
            if found["commit"] != self.content["commit"]:
                raise UserError(
                    f"The run in {directory} must be resumed at the commit where it began, "
                    f"{found['commit']}. Received: {self.content['commit']}."
                )
            self.content = found

    def write(self, **changed):
        self.content.update(changed)
        with whole_file.writing(self._path) as file:
            json.dump(self.content, file)


def run_directory(runs_dir, cell, seed):
    """Return the folder of a run."""
    return os.path.join(runs_dir, f"{cell.problem}-{cell.recipe}", f"seed-{seed}")


def shown_command(cell, seed):
    """Return the command that trains a cell, with short names of folders."""
    folders = ["--data_dir=data", "--tmp_dir=raw", "--output_dir=run"]
    return shlex.join(["python", "trainer.py", *cell.training(seed), *folders])


def commit():
    """Return the last commit that changed code.

    If code has uncommitted changes, "-dirty" is appended.
    """
    others = ("docs", "scripts", "tests", "*.md")
    code = ["--", ":/", *(f":(top,exclude){path}" for path in others)]
    last = _git("log", "-1", "--format=%h", "--abbrev=10", *code)
    changed = _git("status", "--porcelain", "-uno", *code)
    return f"{last or 'unknown'}{'-dirty' if changed else ''}"


def _git(*words):
    result = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    return result.stdout.strip()


def _with_absolute_package(argument):
    """Return an argument of the trainer. The folder of `--t2t_usr_dir` is made absolute.

    The trainer's working directory may be another folder than `ROOT`.
    """
    flag = definitions.PACKAGE_FLAG
    if not argument.startswith(flag):
        return argument
    return flag + os.path.join(ROOT, argument.removeprefix(flag))


def _described(table, cell, seed, note):
    """Return the first entries of a result line, which describe the run."""
    return {
        "table": table.name,
        "cell": cell.name,
        "metric": cell.valid,
        **({} if note is None else {"setting": _setting(cell), "note": note}),
        "seed": seed,
        "recipe": cell.recipe,
        "command": shown_command(cell, seed),
        "set": cell.set_values,
    }


def _setting(cell):
    changed = ", ".join(f"`{value}`" for value in (cell.hparams, *cell.flags) if value)
    changed = f" with {changed}" if changed else ""
    return f"Train `{cell.hparams_set}`{changed} for {cell.updates:,} updates."


# --- The results of a run -------------------------------------------------------------------------


def _newest_step(directory):
    """Return the step of the newest checkpoint in the folder of the best weights."""
    steps = [
        int(os.path.basename(path).split("-")[1].removesuffix(".index"))
        for path in glob.glob(os.path.join(glob.escape(directory), "model.ckpt-*.index"))
    ]
    if not steps:
        raise UserError(f"The best weights must be in {directory}. Received: none.")
    return max(steps)


def _results(directory, step, split, needed=()):
    """Return {metric: value} for a step, from teacher-forced evaluation and from decoding."""
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
    """Return {metric: {step: value}}, with increasing steps and the last value of each step."""
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
    """Return the validation curve as [[step, value]].

    The curve contains every n-th step and always the last step.
    """
    points = list(_curves(directory, "dev")[metric].items())
    kept = points[:: -max(1, -(-len(points) // _MOST_POINTS))]
    return [[step, float(f"{value:.4g}")] for step, value in reversed(kept)]


def short(value):
    """Return the value, rounded to six significant digits."""
    return float(f"{value:.6g}")
