"""Repeat the experiments of papers, and write their tables into the pages of docs/.

    python benchmarks/results/run.py                         list the tables
    python benchmarks/results/run.py --table=lte --list      cells, finished seeds, commands
    python benchmarks/results/run.py --table=lte --only=copy,adaptive --seeds=3 --hours=2
    python benchmarks/results/run.py --write                 write the pages from the results

The script first runs all cells with seed 1, then with seed 2, and so on. It skips finished runs.
Ctrl-C, SIGTERM and the end of --hours stop the trainer, which saves a checkpoint. The same command
resumes the run. Several processes may run the same command: a lock prevents two of them from
training the same run. Each finished run adds a line to docs/results/TABLE.jsonl. From these lines,
--write makes the tables of docs/results.md, docs/depth.md and docs/tried.md.

Some tables name numbers of steps. The script also evaluates each finished run of such a table with
these numbers of steps, and adds a line to docs/results/steps.jsonl.

To try a setting that differs from a cell's setting, give --tried=WHY with --hparams, --hparams_set,
--flags or --updates. Such a run does not read the test split. Its line goes to
docs/results/tried.jsonl.
"""

import argparse
import dataclasses
import os
import sys
import time

BENCHMARKS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(BENCHMARKS)
DOCS = os.path.join(ROOT, "docs")
sys.path[:0] = [ROOT, BENCHMARKS, os.path.join(ROOT, "scripts")]

import steps as steps_command

from results import cell_runner, definitions, lines, page, raw, step_counts
from ut_keras.bin import command
from ut_keras.errors import UsageError, UserError
from ut_keras.files import whole_file
from ut_keras.process import interruption
from ut_keras.registry import unknown_name_message

_MARGIN_SECONDS = 30  # the time that is reserved for saving at the end of --hours


def main(argv=None):
    """Run the command and return the exit code."""
    return command.run(_run, argv)


def _run(argv):
    args = _parse(argv)
    if args.write:
        for path, text in page.written(args.results_dir).items():
            with whole_file.writing(path) as file:
                file.write(text)
        return None
    every = {name: definitions.load(name) for name in definitions.names()}
    if not args.table:
        for name, table in every.items():
            print(f"{name:20}{table.title}")
        return None
    if args.table not in every:
        raise UsageError(unknown_name_message("table", args.table, list(every)))
    table = every[args.table]
    cells = _chosen(table, args.only)
    lines.check(lines.read(args.results_dir), every.values())
    if args.steps is not None:
        steps_command.numbers(args.steps)
        if args.list or args.tried is not None or args.hparams_set or args.flags or args.updates:
            raise UsageError("--steps evaluates finished runs. It can only be used with --hparams.")
        return _run_steps(table, cells, args)
    cells = _tried(cells, args)
    if args.list:
        return _list(cells, args)
    if args.raw:
        raw.place(table, args.raw, args.tmp_dir)
    return _run_cells(table, cells, args)


def _parse(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", help="name of a table; without it, list all tables")
    parser.add_argument("--only", default="", help="cells, tasks or models: task16,adaptive")
    parser.add_argument("--seeds", type=int, default=1, help="run seeds 1 to SEEDS")
    parser.add_argument("--hours", type=float, default=float("inf"), help="stop before this time")
    parser.add_argument("--list", action="store_true", help="list cells and commands")
    parser.add_argument("--write", action="store_true", help="write the pages")
    parser.add_argument("--tried", metavar="WHY", help="try another setting")
    parser.add_argument("--steps", help="evaluate with these numbers of steps: 7,14")
    parser.add_argument("--hparams", default="", help="with --tried, --steps: changed values")
    parser.add_argument("--hparams_set", help="with --tried: another hparams set")
    parser.add_argument("--flags", type=str.split, help="with --tried: trainer flags to add")
    parser.add_argument("--updates", type=int, help="with --tried: number of updates")
    parser.add_argument("--raw", help="folder in which to search for raw files")
    parser.add_argument("--runs_dir", default="runs/paper")
    parser.add_argument("--data_dir", default="runs/paper/data")
    parser.add_argument("--tmp_dir", default="runs/paper/raw")
    parser.add_argument("--results_dir", default=os.path.join(DOCS, "results"))
    return parser.parse_args(argv)


def _chosen(table, only):
    """Return the cells that --only selects by their full name, their row or their model."""
    words = {word for word in only.split(",") if word}
    parts = [part for cell in table.cells for part in (cell.name, *cell.name.split("/"))]
    for word in words - set(parts):
        raise UsageError(unknown_name_message("cell", word, list(dict.fromkeys(parts))))
    rows = words & {cell.name.split("/")[0] for cell in table.cells}
    models = words & {cell.name.split("/")[1] for cell in table.cells}
    return [
        cell
        for cell in table.cells
        if cell.name in words
        or (not words)
        or (rows | models)
        and (not rows or cell.name.split("/")[0] in rows)
        and (not models or cell.name.split("/")[1] in models)
    ]


def _tried(cells, args):
    """Return the cells with the changes that are requested on the command line."""
    changed = {
        name: value
        for name in ("hparams", "hparams_set", "flags", "updates")
        if (value := getattr(args, name))
    }
    if bool(changed) != (args.tried is not None):
        raise UsageError(
            "--tried=WHY requires --hparams, --hparams_set, --flags or --updates, and each of "
            f"these requires --tried. Received: --tried={args.tried!r} and {changed}."
        )
    flags = tuple(changed.pop("flags", ()))
    return [dataclasses.replace(cell, **changed, flags=cell.flags + flags) for cell in cells]


def _list(cells, args):
    found = lines.read(args.results_dir)
    for cell in cells:
        seeds = ", ".join(str(line["seed"]) for line in found.of(cell))
        print(f"{cell.name}: seeds done: {seeds or 'none'}")
        print(f"  {cell_runner.shown_command(cell, seed=1)}")


def _run_cells(table, cells, args):
    deadline = time.monotonic() + args.hours * 3600 - _MARGIN_SECONDS
    is_tried = args.tried is not None
    with interruption.StopRequest() as stop:
        runner = cell_runner.Runner(args, stop, deadline)

        def run(cell, seed):
            name = f"{table.name} {cell.name} seed {seed}"
            found = lines.read(args.results_dir)
            if found.has(cell, seed, is_tried):
                print(f"{name}: already finished, see {args.results_dir}", flush=True)
            else:
                print(f"{name}: {cell_runner.run_directory(args.runs_dir, cell, seed)}", flush=True)
                line = runner.run(table, cell, seed, args.tried)
                print(f"{name}: {_results(cell, line)}", flush=True)
            if table.steps and not is_tried and not found.has_steps(cell, seed, table.steps):
                runner.check()
                print(f"{name}: evaluating with the numbers of steps of the table", flush=True)
                step_counts.measure(args, table, cell, seed, ",".join(map(str, table.steps)))

        return _each(table, cells, args.seeds, run)


def _run_steps(table, cells, args):
    def measure(cell, seed):
        print(f"{table.name} {cell.name} seed {seed}", flush=True)
        step_counts.measure(args, table, cell, seed, args.steps, args.hparams)

    return _each(table, cells, args.seeds, measure)


def _each(table, cells, seeds, do):
    """Call `do` for every seed of every cell, and return the exit code."""
    code = 0
    for seed in range(1, seeds + 1):
        for cell in cells:
            name = f"{table.name} {cell.name} seed {seed}"
            try:
                do(cell, seed)
            except cell_runner.Stopped as stopped:
                print(f"{name}: {stopped}. Run the same command again to resume.", flush=True)
                return stopped.exit_code
            except UserError as error:
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                code = 1
    return code


def _results(cell, line):
    text = f"validation {cell.valid} {line['valid'][cell.valid]:.4g}"
    for score in cell.scores if "test" in line else ():
        text += f", {score.split} {score.metric} {line[score.split][score.metric]:.4g}"
    return f"{text}, {line['seconds']} s"


if __name__ == "__main__":
    sys.exit(main())
