"""The papers' tables, run again: runs cells that are missing, writes docs/results.md and depth.md.

    python benchmarks/paper.py                                    the tables
    python benchmarks/paper.py --table=babi_10k_single --list     cells, what is done, commands
    python benchmarks/paper.py --table=babi_10k_single --only=task16,adaptive --seeds=3 --hours=2
    python benchmarks/paper.py --write                            the pages, from the lines

Seed 1 of all cells comes first, then 2, and so on. Ctrl-C, SIGTERM and the end of --hours stop the
trainer, which saves; the same command goes on. Several may run beside each other: each takes what
the others have not. A run that has ended adds a line to docs/results/TABLE.jsonl.

A setting that is not (yet) the cell's, by --hparams, --hparams_set, --flags or --updates, is tried
by --tried=WHY: nothing of the test split is read, and the line goes to docs/results/tried.jsonl.
"""

import argparse
import dataclasses
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(os.path.dirname(HERE), "docs")
sys.path[:0] = [os.path.dirname(HERE), HERE, DOCS]

import steps as steps_command
import tables
from tables import lines, page, raw, runs, steps

from ut_keras.bin import command
from ut_keras.errors import UsageError, UserError
from ut_keras.files import whole_file
from ut_keras.process import interruption
from ut_keras.registry import unknown_name_message

_MARGIN_SECONDS = 30  # before --hours are over, to save


def main(argv=None):
    """Runs the command; returns the exit code."""
    return command.run(_run, argv)


def _run(argv):
    args = _parse(argv)
    if args.write:
        for path, text in page.written(args.results_dir).items():
            with whole_file.writing(path) as file:
                file.write(text)
        return None
    every = {name: tables.load(name) for name in tables.names()}
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
            raise UsageError("--steps goes with --hparams alone, of runs that have ended.")
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
    parser.add_argument("--table", help="its name; without it, all are listed")
    parser.add_argument("--only", default="", help="cells, or parts of names: task16,adaptive")
    parser.add_argument("--seeds", type=int, default=1, help="1 to so many")
    parser.add_argument("--hours", type=float, default=float("inf"), help="end before they are up")
    parser.add_argument("--list", action="store_true", help="show cells and commands")
    parser.add_argument("--write", action="store_true", help="write the pages")
    parser.add_argument("--tried", metavar="WHY", help="run a setting that is not the cell's")
    parser.add_argument("--steps", help="numbers, joined by commas: evaluate ended runs so")
    parser.add_argument("--hparams", default="", help="with --tried, --steps: values to replace")
    parser.add_argument("--hparams_set", help="with --tried: another set")
    parser.add_argument("--flags", type=str.split, help="with --tried: more of the trainer's")
    parser.add_argument("--updates", type=int, help="with --tried: another number")
    parser.add_argument("--raw", help="folder under which raw files lie")
    parser.add_argument("--runs_dir", default="runs/paper")
    parser.add_argument("--data_dir", default="runs/paper/data")
    parser.add_argument("--tmp_dir", default="runs/paper/raw")
    parser.add_argument("--results_dir", default=os.path.join(DOCS, "results"))
    return parser.parse_args(argv)


def _chosen(table, only):
    """The cells that one of the words of each kind fits: of the row, of the model, or the name."""
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
    """The cells with what is changed by the command line."""
    changed = {
        name: value
        for name in ("hparams", "hparams_set", "flags", "updates")
        if (value := getattr(args, name))
    }
    if bool(changed) != (args.tried is not None):
        raise UsageError(
            "--tried=WHY must be given with --hparams, --hparams_set, --flags or --updates, and "
            f"with none else. Received: --tried={args.tried!r} and {changed}."
        )
    flags = tuple(changed.pop("flags", ()))
    return [dataclasses.replace(cell, **changed, flags=cell.flags + flags) for cell in cells]


def _list(cells, args):
    found = lines.read(args.results_dir)
    for cell in cells:
        seeds = ", ".join(str(line["seed"]) for line in found.of(cell))
        print(f"{cell.name}: seeds done: {seeds or 'none'}")
        print(f"  {runs.shown_command(cell, seed=1)}")


def _run_cells(table, cells, args):
    deadline = time.monotonic() + args.hours * 3600 - _MARGIN_SECONDS
    is_tried = args.tried is not None
    with interruption.StopRequest() as stop:
        runner = runs.Runner(args, stop, deadline)

        def run(cell, seed):
            name = f"{table.name} {cell.name} seed {seed}"
            if lines.read(args.results_dir).has(cell, seed, is_tried):
                print(f"{name}: has ended; its line is in {args.results_dir}", flush=True)
                return
            print(f"{name}: {runs.run_directory(args.runs_dir, cell, seed)}", flush=True)
            line = runner.run(table, cell, seed, args.tried)
            print(f"{name}: {_results(cell, line)}", flush=True)

        return _each(table, cells, args.seeds, run)


def _run_steps(table, cells, args):
    def measure(cell, seed):
        print(f"{table.name} {cell.name} seed {seed}", flush=True)
        steps.measure(args, table, cell, seed, args.steps, args.hparams)

    return _each(table, cells, args.seeds, measure)


def _each(table, cells, seeds, do):
    """Calls `do` for every seed of every cell; returns the exit code."""
    code = 0
    for seed in range(1, seeds + 1):
        for cell in cells:
            name = f"{table.name} {cell.name} seed {seed}"
            try:
                do(cell, seed)
            except runs.Stopped as stopped:
                print(f"{name}: {stopped}. Run the same command again to go on.", flush=True)
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
