"""Runs a cell of a table with a seed: the trainer as a user would call it, and one line at the end.

    RUNS_DIR/PROBLEM-RECIPE/seed-N            a run of the trainer, with log.txt
    RUNS_DIR/PROBLEM-RECIPE/seed-N/paper.json how long it took so far, and at which commits
    RESULTS_DIR/TABLE.jsonl                   one line for each run that has ended

A run that is told to stop goes on where it was; the test split is read once, when training has
ended.
"""

import contextlib
import datetime
import glob
import json
import os
import shlex
import subprocess
import sys
import time
from typing import Any, NamedTuple

import tables
from ut_keras import metrics_file, whole_file
from ut_keras.training.tuning import trial_process

ROOT = os.path.dirname(tables.HERE)
TRAINER = os.path.join(ROOT, "trainer.py")
TRIED = "tried.jsonl"
STEPS = "steps.jsonl"
_WAIT_SECONDS = 0.2
_NOTE_EVERY_SECONDS = 30
NO_METRICS = ("step", "time", "split")


class Folders(NamedTuple):
    """Where things lie."""

    runs: str
    data: str
    tmp: str
    results: str


class Stopped(Exception):
    """A run was told to stop; it is saved.

    Attributes:
        exit_code: int, 0 if it was the time.
    """

    def __init__(self, message, exit_code=0):
        super().__init__(message)
        self.exit_code = exit_code


class Failed(Exception):
    """A run ended with an error; its last line."""


class Busy(Exception):
    """Another process has the run."""


class Runner:
    """Runs cells, one at a time.

    Args:
        folders: `Folders`.
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
            Stopped, Failed, Busy.
        """
        directory = run_directory(self._folders.runs, cell, seed)
        self._check()
        record = _Record(directory)
        if not record.content["trained"]:
            record.add_commit(commit())
            folders = [f"--data_dir={self._folders.data}", f"--tmp_dir={self._folders.tmp}"]
            self._process([*cell.training(seed), *folders], directory, directory, record)
            record.write(trained=True)
        best = os.path.join(directory, "best")
        step = _newest_step(best)
        tests = note is None
        if tests and not _results(best, step, "test"):
            folders = [f"--data_dir={self._folders.data}"]
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
            "commit": "+".join(record.content["commits"]),
            "date": datetime.date.today().isoformat(),
            "updates": cell.updates,
            "best_at": step,
            "seconds": round(record.content["seconds"]),
            "valid": _results(directory, step, "dev"),
            **({"test": _results(best, step, "test")} if tests else {}),
        }
        file = TRIED if note is not None else f"{table.name}.jsonl"
        append_line(self._folders.results, file, line)
        return line

    def _check(self):
        if self._stop.requested:
            raise Stopped("told to stop", self._stop.stopped("").exit_code)
        if time.monotonic() >= self._deadline:
            raise Stopped("the time is over")

    def _process(self, arguments, output_dir, directory, record=None):
        """Runs the trainer to its end; its time is counted in `record`."""
        lock = trial_process.try_lock(directory)
        if lock is None:
            raise Busy(directory)
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
            raise Failed(f"{process.last_line()} ({os.path.join(directory, 'log.txt')})")


class _Record:
    """What has to be remembered of a run besides what the trainer does: paper.json."""

    def __init__(self, directory):
        self._path = os.path.join(directory, "paper.json")
        self.content = {"seconds": 0.0, "commits": [], "trained": False}
        os.makedirs(directory, exist_ok=True)
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                self.content = json.load(file)

    def add_commit(self, name):
        self.write(commits=list(dict.fromkeys([*self.content["commits"], name])))

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
    """The commit of this checkout; "-dirty" if its files are others. Results do not count."""
    head = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "-uno", "--", ".", ":!docs/results*")
    return f"{head or 'unknown'}{'-dirty' if changed else ''}"


def _git(*words):
    result = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    return result.stdout.strip()


def _setting(cell):
    return ", ".join(
        part for part in (cell.hparams_set, cell.hparams, f"{cell.updates:,} updates") if part
    )


# What runs leave.


def _newest_step(directory):
    """The step of the one checkpoint in the folder of the best weights."""
    steps = [
        int(os.path.basename(path).split("-")[1].removesuffix(".index"))
        for path in glob.glob(os.path.join(glob.escape(directory), "model.ckpt-*.index"))
    ]
    if not steps:
        raise Failed(f"Expected the best weights in {directory}. Received: none.")
    return max(steps)


def _results(directory, step, split):
    """{metric: value} that a run has recorded of a step, teacher-forced and decoded."""
    found = {}
    for record in metrics_file.records(directory):
        if record["step"] == step and record["split"] == split:
            found.update(record)
    return {name: short(found[name]) for name in found if name not in NO_METRICS}


def short(value):
    """`value` to six digits."""
    return float(f"{value:.6g}")


# Lines.


def read_lines(path):
    """The objects of a file of JSON lines; a torn last line is left out."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")[:-1]
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def append_line(results_dir, file, line):
    """Adds a line to a file of the folder."""
    os.makedirs(results_dir, exist_ok=True)
    path = os.path.join(results_dir, file)
    torn = os.path.exists(path) and os.path.getsize(path) and not _ends_in_newline(path)
    with open(path, "a", encoding="utf-8") as file:
        file.write("\n" * torn + json.dumps(line, ensure_ascii=False) + "\n")


def _ends_in_newline(path):
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def finished(results_dir):
    """All lines of runs that have ended, of all tables: {recipe: {seed: line}}."""
    found = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(results_dir), "*.jsonl"))):
        if os.path.basename(path) not in (TRIED, STEPS):
            for line in read_lines(path):
                found.setdefault(line["recipe"], {})[line["seed"]] = line
    return found


def is_done(results_dir, cell, seed, is_tried):
    """Whether there is a line for a run."""
    if not is_tried:
        return seed in finished(results_dir).get(cell.recipe, {})
    done = {(line.get("recipe"), line["seed"]) for line in tried(results_dir)}
    return (cell.recipe, seed) in done


def tried(results_dir):
    """The lines of settings that were tried."""
    return read_lines(os.path.join(results_dir, TRIED))
