"""Writes the generated parts and the pictures of docs/results.md, tried.md and depth.md.

A generated part is between `<!-- NAME -->` and `<!-- /NAME -->`. The script makes this part from
the tables and from the result lines of finished runs. The rest of each page is written by hand.
"""

import itertools
import os
import re
import statistics

import blocks

from results import (
    definitions,
    depth,
    lines,
    means,
    more_steps,
    more_steps_page,
    pictures,
    summary,
)
from ut_keras.files import metrics_file

_COLUMNS = (
    "paper",
    "ut_keras, best seed by validation",
    "ut_keras, mean ± SD",
    "seeds",
    "updates",
    "time",
)
_BETTER = {True: "Lower is better.", False: "Higher is better."}
_TRIED_COLUMNS = ("cell", "setting", "seed", "result")
_MANY_ROWS = 4  # the text about missing results names at most this number of rows


def written(results_dir):
    """Return {path: text} of the pages and pictures for a folder of result lines.

    Raises:
        UserError: if a line is invalid or does not fit its recipe, or if a block is missing on a
            page.
    """
    docs = os.path.dirname(os.path.abspath(results_dir))
    every = [definitions.load(name) for name in definitions.names()]
    found = lines.read(results_dir)
    lines.check(found, every)
    rows = summary.rows(every, found)
    texts = texts_of(every, found)
    texts["results", "summary"] = summary.table(rows)
    texts["results", "commands"] = summary.commands(rows)
    texts["depth", "depth"] = depth.summary(every, found)
    [table] = (table for table in every if table.name == more_steps.TABLE)
    of_multiples = more_steps_page.of_learned_tasks(more_steps_page.curves(table, found))
    texts["depth", "more_steps"] = more_steps_page.summary(of_multiples)
    files = {
        "pictures/results.svg": pictures.overview(rows),
        f"pictures/{more_steps.TABLE}.svg": more_steps_page.picture(of_multiples),
    }
    for name in dict.fromkeys(page for page, _ in texts):
        parts = {block: text.strip() for (page, block), text in texts.items() if page == name}
        with open(os.path.join(docs, f"{name}.md"), encoding="utf-8") as file:
            files[f"{name}.md"] = blocks.fill(file.read(), parts)
    curves = {_picture(table): pictures.curves(table, found) for table in every}
    files |= {name: text for name, text in curves.items() if text}
    return {os.path.join(docs, name): text for name, text in files.items()}


def texts_of(every, found):
    """Return {(page, block): text}: the tables, the tried settings and the duration of the runs.

    Args:
        every: list of `Table`.
        found: `Lines`.
    """
    earlier = list(_superseded(every, found))
    tried = [*found.tried, *earlier]
    ended = [line for table in every for cell in table.cells for line in found.of(cell)]
    taken, more = (
        sum(x.get("seconds") or 0 for x in of if "where" not in x) / 3600 for of in (ended, tried)
    )
    hours = (
        f"The runs in the tables took {taken:.1f} hours on one core, not counting those on a GPU.\n"
        f"The other settings that were tried took at least {more:.1f} hours. The time of some runs "
        "was not recorded."
    )
    texts = {
        ("results", "hours"): hours,
        ("tried", "tried"): _tried_table(found.tried, has_notes=True),
        ("tried", "earlier"): _tried_table(earlier),
    }
    for table in every:
        block = table.page, table.block
        text = _section(table, found, tried) + _steps_section(table, found.steps)
        texts[block] = texts.get(block, "") + text
    return texts


def _picture(table):
    return f"pictures/curves_{table.name}.svg"


def _section(table, found, tried):
    """Return the section of a table: its title, picture, rows, and cells without results."""
    ended = [line for cell in table.cells for line in found.of(cell)]
    rows, waiting = _rows_and_waiting(table, found, tried)
    level = "##" if table.block == "tables" else "###"
    text = f"\n{level} {table.title}\n\n{table.text}\n\n"
    if any("curve" in line for line in ended):
        text += f"![Validation by updates: {table.title}]({_picture(table)})\n\n"
    if rows:
        shown = (*_score_names(table), *_COLUMNS[3:]) if table.is_wide else _COLUMNS
        ponders = any("ponder_time" in line["test"] for line in ended)
        columns = ("", *shown, *(["ponder time"] if ponders else []))
        filled = [[*row, *[""] * (len(columns) - len(row))][: len(columns)] for row in rows]
        directions = {
            metrics_file.is_less_better(score.metric)
            for cell in table.cells
            for score in cell.scores
        }
        if len(directions) == 1:
            text += f"**{_BETTER[directions.pop()]}**\n\n"
        text += blocks.table(_without_empty_paper([columns, *filled])) + "\n"
    if waiting:
        named = list(_not_run(waiting))
        listed = f" {named[0]}." if len(named) == 1 else "\n\n- " + "\n- ".join(named)
        text += f"These experiments have no results yet:{listed}\n\n"
    command = f"python benchmarks/results/run.py --table={table.name} --list"
    return f"{text}To print the commands: `{command}`.\n"


def _rows_and_waiting(table, found, tried):
    """Return (the rows of a table, its cells that were neither finished nor tried)."""
    rows, waiting = [], []
    for cell in table.cells:
        name = (table.name, cell.name)
        was_tried = [line for line in tried if (line["table"], line["cell"]) == name]
        if table.is_wide and found.of(cell):
            rows.append(_wide_row(cell, found.of(cell), _score_names(table)))
        elif found.of(cell) or was_tried:
            rows += _rows(cell, found, was_tried)
        else:
            waiting.append(cell)
    return [*rows, *_average_rows(table, found)], waiting


def _steps_section(table, of_steps):
    """Return the table of finished runs that were evaluated with other numbers of steps."""
    cells = {cell.recipe: cell for cell in table.cells}
    order = list(cells)
    of_steps = sorted(
        (line for line in of_steps if line["recipe"] in cells),
        key=lambda line: (order.index(line["recipe"]), line["hparams"], line["seed"]),
    )
    counts = {count for line in of_steps for split in line["splits"].values() for count in split}
    counts = sorted(counts, key=int)
    if not counts:
        return ""
    rows = [["", *counts]]
    groups = {}
    for line in of_steps:  # each mean includes only runs with the same numbers of steps
        numbers = tuple(sorted(next(iter(line["splits"].values()))))
        groups.setdefault((line["recipe"], line["hparams"], numbers), []).append(line)
    for (recipe, hparams, _), group in groups.items():
        cell = cells[recipe]
        seeds = ", ".join(str(line["seed"]) for line in group)
        seeds = f"seed{'s' * (len(group) > 1)} {seeds}"
        name = ", ".join(filter(None, [*cell.name.split("/"), hparams, seeds]))
        for score in cell.scores:
            splits = [line["splits"][score.split] for line in group]
            columns = ([values[n] for values in splits if n in values] for n in counts)
            shown = (_at(results, score) if results else "" for results in columns)
            rows.append([f"{name}: {score.name or score.metric}", *shown])
    return f"\n### {table.title}, by steps\n\n{blocks.table(rows)}"


def _at(results, score):
    """Return the mean score over several seeds, and the mean ponder time in parentheses."""
    number = score.show(statistics.mean(map(score.of, results)))
    if "ponder_time" not in results[0]:
        return number
    return f"{number} ({statistics.mean(values['ponder_time'] for values in results):.1f})"


def _rows(cell, found, tried):
    """Yield a row for each score.

    The row of a cell without finished runs shows the best setting that was tried.
    """
    ended = found.of(cell)
    ends = _ends(cell, ended) if ended else []
    for score in cell.scores:
        row = [f"{cell.name.replace('/', ', ')}{': ' * bool(score.name)}{score.name}", score.paper]
        if ended:
            values = [score.of(line[score.split]) for line in ended]
            row.append(score.show(score.of(means.best(cell, ended)[score.split])))
            row += [means.spread(score, values), *ends]
        elif tried and score is cell.scores[0]:
            numbers = [line for line in tried if cell.valid in line.get("valid", {})]
            line = means.best(cell, numbers) if numbers else tried[-1]
            row += [f"only tried: {_result(line, score.percent)}", "[details](tried.md)"]
        yield row


def _wide_row(cell, ended, names):
    """Return a row with the mean of each score over all seeds."""
    scores = {score.name: score for score in cell.scores}
    shown = [
        means.spread(scores[name], [scores[name].of(line[scores[name].split]) for line in ended])
        if name in scores
        else ""
        for name in names
    ]
    return [cell.name.replace("/", ", "), *shown, *_ends(cell, ended)]


def _score_names(table):
    return list(dict.fromkeys(score.name for cell in table.cells for score in cell.scores))


def _ends(cell, ended):
    """Return the last columns of a cell: seeds, updates, time and ponder time."""
    seconds = statistics.mean(line["seconds"] for line in ended)
    places = sorted({line["where"] for line in ended if "where" in line})
    ends = [str(len(ended)), f"{cell.updates:,}", ", ".join([_duration(seconds), *places])]
    times = [line["test"]["ponder_time"] for line in ended if "ponder_time" in line["test"]]
    return [*ends, *([f"{statistics.mean(times):.2f}"] if times else [])]


def _not_run(cells):
    """Yield a text for each group of cells without results.

    A cell for which the paper has scores is named with these scores. All other models are named
    with their rows.
    """
    rows_of = {}
    for cell in cells:
        row, model = cell.name.split("/")
        papers = [
            f"{score.name}{': ' * bool(score.name)}{score.paper}"
            for score in cell.scores
            if score.paper
        ]
        if papers:
            yield f"{row}, {model} (paper: {', '.join(papers)})"
        else:
            rows_of.setdefault(model, []).append(row)
    models_of = {}
    for model, rows in rows_of.items():
        models_of.setdefault(tuple(rows), []).append(model)
    for rows, models in models_of.items():
        named = f"{len(rows)} experiments" if len(rows) > _MANY_ROWS else ", ".join(rows)
        yield f"{', '.join(models)} ({named})"


def _without_empty_paper(rows):
    """Return the rows of a table without the column "paper" if it has no numbers."""
    head, *rest = rows
    if "paper" not in head or any(row[1] for row in rest):
        return rows
    return [[row[0], *row[2:]] for row in rows]


def _average_rows(table, found):
    """Yield the row of the mean over all tasks.

    If some tasks are not finished, also yield the row of the mean over the finished tasks.
    """
    for model, paper in table.averages.items():
        mean = means.over_cells(table, model, found)
        yield [f"**mean of all 20 tasks, {model}**", paper, *(mean[1:3] if mean.is_whole else [])]
        if mean.paper and not mean.is_whole:
            yield [f"**mean of {mean.what}, {model}**", *mean[:3]]


def _duration(seconds):
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _tried_table(lines, has_notes=False):
    """Return a table of tried settings.

    A row contains all consecutive lines that differ only in the task and the number.
    """
    rows = [(*_TRIED_COLUMNS, *(["note"] if has_notes else []))]
    for _, group in itertools.groupby(lines, key=_what_was_tried):
        rows.append(_tried_row(list(group))[: len(rows[0])])
    return blocks.table(rows)


def _what_was_tried(line):
    """Return the values that the lines of one row have in common."""
    model = line["cell"].partition("/")[2]
    result = line.get("result") or line["metric"]
    cell = line["cell"] if "result" in line else ""
    return line["table"], model, cell, line["setting"], line["seed"], result, line.get("note", "")


def _tried_row(lines):
    first = lines[0]
    row, _, model = first["cell"].partition("/")
    cell, result = f"{first['table']}: {row}, {model}", _result(first)
    if len(lines) > 1:
        cell, metric = f"{first['table']}: {model}", first["metric"]
        values = (f"{line['valid'][metric]:.4g} ({line['cell'].split('/')[0]})" for line in lines)
        result = f"{metric} on validation: {', '.join(values)}"
    return [cell, first["setting"], str(first["seed"]), result, first.get("note", "")]


def _result(line, percent=False):
    """Return the result of a tried setting as text. With `percent`, a number is in percent."""
    if "result" in line:
        return line["result"]
    value = line["valid"][line["metric"]]
    shown = f"{100 * value:.4g} %" if percent else f"{value:.4g}"
    return f"{line['metric']} {shown} on validation"


def _superseded(every, found):
    """Yield lines of runs whose recipe is not current, with the settings that have changed."""
    cells = {(table.name, cell.name): cell for table in every for cell in table.cells}
    current = {cell.recipe for cell in cells.values()}
    for recipe, by_seed in found.finished.items():
        for seed in sorted(by_seed) if recipe not in current else []:
            line = by_seed[seed]
            cell = cells.get((line["table"], line["cell"]))
            then, now = line["set"], cell.set_values if cell else {}
            defaults = definitions.defaults(cell.hparams_set) if cell else {}
            changed = (k for k in then | now if then.get(k) != now.get(k))
            other = {k: then.get(k, defaults.get(k)) for k in changed}
            words = ["Train"]
            model = re.search(r"--model=(\w+)", line.get("command", ""))
            # The condition holds if the cell no longer exists, or if it now has another model.
            if model and (not cell or model[1] != cell.model):
                words += [f"`{model[1]}`"]
                line = {**line, "cell": line["cell"] + " (earlier version)"}
            if other:
                words += ["with", ", ".join(f"`{k}={v}`" for k, v in other.items())]
            setting = " ".join([*words, f"for {line['updates']:,} updates."])
            yield {**line, "setting": setting}
