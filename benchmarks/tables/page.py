"""docs/results.md and docs/depth.md, from the tables and the lines of runs that have ended."""

import statistics
import textwrap

import tables
from tables import runs, steps
from ut_keras.training import early_stopping

_COLUMNS = ("paper", "ours, best by validation", "ours, mean ± sd", "seeds", "updates", "time")
_FAILED_PERCENT = 5
_MANY = 5
_RESULTS = """# Results

The papers' tables, run again. Written by `python benchmarks/paper.py --write` from the files in
`docs/results` with a line for each run, and from `benchmarks/paper`, a file for each table. A cell
is one command of the trainer; the sets are in `hparams/paper.py`. Where nothing stands beside the
paper's number, nothing was run yet.

```sh
python benchmarks/paper.py --table=babi_10k_single --only=task1 --seeds=3 --hours=2
```

runs what is missing, seed 1 of all cells first, goes on where it was stopped, and ends by itself
before the hours are over. Raw files are downloaded or put into `--tmp_dir`, as each problem says;
`--raw=DIR` finds them under a folder.

## Protocol

Everything is chosen by the validation split (`dev` of the problem that the command names): the
settings, the weights of a run (those of its best evaluation), and of several seeds the best. The
test split is read once for each run that has ended, with these weights. Seeds are 1, 2, 3, … and
none is left out; the mean and the standard deviation are over all of them. What was tried and is
not in a table stands at the end with its validation result. "Time" is the clock time of training
and validating, mean over seeds, on one core (AMD EPYC or Intel Xeon) that had other work too, often
several times as much; the ponder time, where a model ponders, is the mean number of steps of a
position.
"""
_DEPTH = """# Depth

One layer, applied again and again: how often, who decides it, and what for. The same small encoder
(`universal_transformer_encoder`, width 128, at most 14 steps; a class is read from the last
position) on tasks whose examples need as many steps as they are deep, trained on shallow or short
ones and tested on deeper or longer ones. Made as [Results](results.md), by the same commands and
protocol; the sets are in `hparams/paper.py`.

| name | steps |
| --- | --- |
| fixed | always 14 |
| act | each position's own, by Adaptive Computation Time (`act_type=basic`) |
| stick_breaking | each position's own, by stick breaking (Tan et al. 2023) |
| ponder_net | each position's own, by PonderNet (`act_type=ponder_net`) |
| q_halt | until a head, taught by the answers, says that this one is right (`act_type=q_halt`) |
| random | 14; in training 1 to 14, drawn for every update |
| injected | 14, each of which sees the input again |
| ndr | 14, of the Neural Data Router: copy gate, geometric attention, no signals |

`ponder time` is the mean number of steps of a position on the test split.

What the rules are good for, as far as these runs say (parity and the router's sums of three seeds,
the others of one or two):

- ACT, stick breaking and PonderNet save steps on what was learned. None of them reaches further
  than the same model with all steps, on no task: what carries over is the routing. Trained on 10
  digits in 14 steps, the router adds numbers of 20 without an error, and after 28 steps knows the
  parity of 20 digits, all but a few.
- ACT learns about as much as the full depth, with half of the steps on sums, two thirds on parity
  and tables, a quarter on lists; one seed of parity takes two steps where another takes all. Stick
  breaking takes two to three, but eleven on sums. PonderNet saves a third of them or less.
- `q_halt` is not sure of tables deeper than those trained, and takes all steps. Of parity and sums
  it is sure after one to five, also where it is wrong, and learned less of both.
- Convergence needs no training. It saves little here: on tables and parity positions wait for their
  turn until the last steps, and of sums states still move when the answers stand (12.5 steps; five
  are enough). With it, too many steps do a little less harm on parity.
- Steps drawn at random take half of the time to train, as sums show; of these they learn all, of
  parity, tables and lists less in the same updates. The input at every step: less of parity, and of
  the tables most after the router's.
- A step saved is little time saved at this width, for deciding costs time, too. Of the CPU time of
  all 14 steps ACT takes 0.46 for 2.4 steps (parity of 20 digits) and 1.1 for 7.1 (sums), stick
  breaking 0.55 for 2.4 and 1.6 for 10.4, PonderNet 1.2 for 8.4 and 1.4 for 13.5, `q_halt` 0.2 for
  1.0; a step of the router takes 1.6 times as long (`benchmarks/halting_rules.py`, one seed, one
  core of an AMD EPYC). Wider models save about what their positions do
  ([Performance](performance.md)).
- What saves it, `act_halted_state=copy`, belongs into training: of runs without it ACT's answers
  stay what they were, stick breaking's do not (parity, validation, one seed: 0.90, then 0.67).

![Share of right answers by steps: parity, sums, table lookup](pictures/depth_steps.svg)
"""
_STEPS_TEXT = """\
The same runs, stopped after so many steps, the mean of the seeds named; in brackets the mean number
of steps of a position, where a rule of halting decides. Nothing is chosen by these numbers: they
read the test split again.
"""
HEADS = {"results": _RESULTS, "depth": _DEPTH}
_TRIED_HEAD = """
## What was tried

Settings that are in no table, with their result on the validation split; a line says so where it is
of something else. Lines of an earlier recipe of a cell say what it had that today's has not.
`--tried=WHY` with `--hparams`, `--hparams_set` or `--updates` runs one more, and reads no test
split.
"""


def page(tables, finished, tried, head=_RESULTS, steps=()):
    """The text of a page.

    Args:
        tables: list of `Table`.
        finished: {recipe: {seed: line}}.
        tried: list of lines.
        head: str, what stands above the tables.
        steps: list of lines, of runs at several numbers of steps.
    """
    parts = [head, _hours(tables, finished, tried)]
    for table in tables:
        parts += [_section(table, finished), _steps_section(table, steps)]
    rows = [*map(_tried_row, tried), *_superseded(tables, finished)]
    if rows:
        parts.append(_TRIED_HEAD)
        head = ("cell", "setting", "seed", "result", "note")
        parts.append("\n" + _markdown([head, ["---"] * len(head), *rows]))
    return "".join(parts)


def _hours(tables, finished, tried):
    """What the runs of a page took; those that were tried outside of the runner have no time."""
    recipes = {cell.recipe for table in tables for cell in table.cells}
    lines = [line for recipe in recipes for line in finished.get(recipe, {}).values()]
    taken, more = (sum(x.get("seconds") or 0 for x in of) / 3600 for of in (lines, tried))
    text = f"The runs in the tables took {taken:.1f} hours of one core"
    return f"\n{text}, those at the end {more:.1f} and more.\n" if more else f"\n{text}.\n"


def _section(table, finished):
    lines = {cell: _sorted(finished.get(cell.recipe, {})) for cell in table.cells}
    ponders = any("ponder_time" in line["test"] for found in lines.values() for line in found)
    columns = ("", *_COLUMNS, *(["ponder time"] if ponders else []))
    rows, waiting = [], []
    for cell in table.cells:
        if lines[cell] or any(score.paper for score in cell.scores):
            rows += _rows(cell, lines[cell])
        else:
            waiting.append(cell)
    rows += _average_rows(table, lines)
    text = f"\n## {table.title}\n\n{table.text}\n\n"
    if rows:
        widths = [[*row, *[""] * (len(columns) - len(row))][: len(columns)] for row in rows]
        text += _markdown([columns, ["---"] * len(columns), *widths]) + "\n"
    if waiting:
        text += f"Not run yet: {_names(waiting)}.\n\n"
    return (
        f"{text}`python benchmarks/paper.py --table={table.name} --list` has the commands; "
        f"the first:\n\n```sh\n{_command(table.cells[0])}\n```\n"
    )


def _steps_section(table, lines):
    """What ended runs answer that are stopped after some numbers of steps."""
    cells = {cell.recipe: cell for cell in table.cells}
    order = list(cells)
    lines = sorted(
        (line for line in lines if line["recipe"] in cells),
        key=lambda line: (order.index(line["recipe"]), line["hparams"], line["seed"]),
    )
    counts = {count for line in lines for split in line["splits"].values() for count in split}
    counts = sorted(counts, key=int)
    if not counts:
        return ""
    rows = [["", *counts], ["---"] * (1 + len(counts))]
    runs = {}
    for line in lines:  # a mean is of runs that were stopped at the same steps
        numbers = tuple(sorted(next(iter(line["splits"].values()))))
        runs.setdefault((line["recipe"], line["hparams"], numbers), []).append(line)
    for (recipe, hparams, _), group in runs.items():
        cell = cells[recipe]
        seeds = ", ".join(str(line["seed"]) for line in group)
        seeds = f"seed{'s' * (len(group) > 1)} {seeds}"
        name = ", ".join(filter(None, [*cell.name.split("/"), hparams, seeds]))
        for score in cell.scores:
            found = [line["splits"][score.split] for line in group]
            columns = ([values[n] for values in found if n in values] for n in counts)
            shown = (_at(results, score) if results else "" for results in columns)
            rows.append([f"{name}: {score.name or score.metric}", *shown])
    return f"\n### {table.title}, by steps\n\n{_STEPS_TEXT}\n{_markdown(rows)}"


def _at(results, score):
    """The mean of several seeds."""
    number = _number(score, statistics.mean(_scaled(score, values) for values in results))
    if "ponder_time" not in results[0]:
        return number
    return f"{number} ({statistics.mean(values['ponder_time'] for values in results):.1f})"


def _names(cells):
    """The names of cells, model by model; of many only how many."""
    models = {}
    for cell in cells:
        row, model = cell.name.split("/")
        models.setdefault(model, []).append(row)
    return "; ".join(
        f"{model}, {', '.join(rows) if len(rows) < _MANY else f'{len(rows)} cells'}"
        for model, rows in models.items()
    )


def _command(cell):
    words = runs.shown_command(cell, seed=1)
    return textwrap.fill(
        words, 96, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    ).replace("\n", " \\\n")


def _sorted(by_seed):
    return [by_seed[seed] for seed in sorted(by_seed)]


def _best(cell, lines):
    """The line that is best by validation; of equals the first seed."""
    sign = -1 if early_stopping.is_less_better(cell.valid) else 1
    return max(lines, key=lambda line: sign * line["valid"][cell.valid])


def _rows(cell, lines):
    ends = []
    if lines:
        seconds = statistics.mean(line["seconds"] for line in lines)
        ends = [str(len(lines)), f"{cell.updates:,}", _duration(seconds)]
        times = [line["test"]["ponder_time"] for line in lines if "ponder_time" in line["test"]]
        ends += [f"{statistics.mean(times):.2f}"] if times else []
    rows = []
    for score in cell.scores:
        name = f"{cell.name.replace('/', ', ')}{': ' * bool(score.name)}{score.name}"
        if not lines:
            rows.append([name, score.paper])
            continue
        values = [_value(score, line) for line in lines]
        best = _value(score, _best(cell, lines))
        rows.append([name, score.paper, _number(score, best), _spread(score, values), *ends])
    return rows


def _average_rows(table, lines):
    """The mean of all cells of a model: their best seeds, and the means of their seeds."""
    rows = []
    for model, paper in table.averages.items():
        cells = [cell for cell in table.cells if cell.name.endswith(f"/{model}")]
        run = [cell for cell in cells if lines[cell]]
        row = [f"**mean of the tasks, {model}**", paper]
        if run:
            score = cells[0].scores[0]
            bests = [_value(score, _best(cell, lines[cell])) for cell in run]
            seeds = [[_value(score, line) for line in lines[cell]] for cell in run]
            failed = sum(best > _FAILED_PERCENT for best in bests)
            mean = statistics.mean(map(statistics.mean, seeds))
            row.append(f"{statistics.mean(bests):.2f} ({failed}/{len(run)})")
            row.append(f"{mean:.2f}" + _deviation(seeds))
            row.append("" if len(run) == len(cells) else f"{len(run)} of {len(cells)} tasks")
        rows.append(row)
    return rows


def _deviation(seeds):
    """As the paper's: the mean of the tasks' deviations."""
    several = [values for values in seeds if len(values) > 1]
    return f" ± {statistics.mean(map(statistics.stdev, several)):.2f}" if several else ""


def _value(score, line):
    return _scaled(score, line[score.split])


def _scaled(score, values):
    return values[score.metric] * (100 if score.percent else 1)


def _number(score, value):
    if score.metric == "failed_tasks":
        return f"{value:g}"
    if score.percent or abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.3f}"


def _spread(score, values):
    mean = _number(score, statistics.mean(values))
    return f"{mean} ± {_number(score, statistics.stdev(values))}" if len(values) > 1 else mean


def _duration(seconds):
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


# What was tried.


def _tried_row(line):
    result = line.get("result") or _validation(line)
    cell = f"{line['table']}: {line['cell']}".replace("/", ", ")
    return [cell, line["setting"], str(line["seed"]), result, line.get("note", "")]


def _validation(line):
    metric = line["metric"]
    return f"{metric} {line['valid'][metric]:.4g}"


def _superseded(tables, finished):
    """Rows of runs whose recipe is no cell's any more."""
    cells = {(table.name, cell.name): cell for table in tables for cell in table.cells}
    current = {cell.recipe for cell in cells.values()}
    for recipe, by_seed in finished.items():
        for line in _sorted(by_seed) if recipe not in current else []:
            cell = cells.get((line["table"], line["cell"]))
            now = cell.set_values if cell else {}
            other = {k: v for k, v in line["set"].items() if now.get(k) != v}
            setting = ", ".join(f"{name}={value}" for name, value in other.items())
            setting = ", ".join(filter(None, [setting, f"{line['updates']:,} updates"]))
            yield _tried_row({**line, "setting": setting, "note": "an earlier recipe"})


def _markdown(rows):
    lines = (" | ".join(str(cell).replace("|", "\\|") for cell in row) for row in rows)
    return "".join(f"| {line} |\n" for line in lines)


def read(results_dir, name="results"):
    """The page of what is in a folder of results; what is in no table is on the first."""
    everything = [tables.load(table) for table in tables.names()]
    pages = {table.name: table.page for table in everything}

    def is_here(line):
        return pages.get(line["table"], "results") == name

    finished = {
        recipe: by_seed
        for recipe, by_seed in runs.finished(results_dir).items()
        if any(map(is_here, by_seed.values()))
    }
    tried = list(filter(is_here, runs.tried(results_dir)))
    here = [table for table in everything if table.page == name]
    return page(here, finished, tried, HEADS[name], steps.read(results_dir))
