"""Means of seeds and of tasks, ours and the paper's over the same tasks."""

import re
import statistics
from typing import NamedTuple

from ut_keras.files import metrics_file

_TASKS = range(1, 21)  # of bAbI: what the paper's averages are of
_FAILED_PERCENT = 5
_MANY = 4


class Mean(NamedTuple):
    """Of the tasks that have run, by number, with how many seeds each.

    `paper` is "BEST (failed); MEAN ± DEVIATION" of the paper over them, "" if it has none; `bests`
    and `all` are ours, of the seeds that are best by validation and of all, with the tasks that
    fail, of all those that do on average. `values` is empty or has the mean.
    """

    paper: str = ""
    bests: str = ""
    all: str = ""
    values: list = []
    seeds: list = []
    tasks: list = []

    @property
    def is_whole(self):
        return len(self.tasks) == len(_TASKS)

    @property
    def what(self):
        """Which tasks these are, as text."""
        missing = [str(task) for task in _TASKS if task not in self.tasks]
        if len(missing) < _MANY:
            return f"{len(self.tasks)} tasks, without {', '.join(missing)}"
        return f"{len(self.tasks)} of {len(_TASKS)} tasks"


def over_cells(table, model, found):
    """The `Mean` of a model's cells, by their first scores."""
    cells = [c for c in table.cells if c.name.endswith(f"/{model}") and found.of(c)]
    if not cells:
        return Mean()
    score = cells[0].scores[0]
    seeds = [[score.of(line[score.split]) for line in found.of(cell)] for cell in cells]
    bests = [score.of(best(cell, found.of(cell))[score.split]) for cell in cells]
    averages = list(map(statistics.mean, seeds))
    value = statistics.mean(averages)
    # Of all tasks or of none: that of a few would be taken for the mean's.
    deviations = list(map(statistics.stdev, seeds)) if min(map(len, seeds)) > 1 else []
    return Mean(
        _of_paper(score, [cell.scores[0].paper for cell in cells]),
        _with_failed(score, bests),
        f"{_with_deviation(score, value, deviations)} {_failed(averages)}",
        [value],
        list(map(len, seeds)),
        [int(re.findall(r"\d+", cell.name)[0]) for cell in cells],
    )


def best(cell, lines):
    """The line that is best by validation; of equals the first."""
    sign = -1 if metrics_file.is_less_better(cell.valid) else 1
    return max(lines, key=lambda line: sign * line["valid"][cell.valid])


def spread(score, values):
    """A mean, and the deviation of several."""
    mean = score.show(statistics.mean(values))
    return f"{mean} ± {score.show(statistics.stdev(values))}" if len(values) > 1 else mean


def _of_paper(score, papers):
    if not all(papers):
        return ""
    numbers = [map(float, re.findall(r"[\d.]+", paper)) for paper in papers]
    bests, all_means, deviations = zip(*numbers, strict=True)
    mean = _with_deviation(score, statistics.mean(all_means), deviations)
    return f"{_with_failed(score, bests)}; {mean}"


def _with_failed(score, bests):
    return f"{score.show(statistics.mean(bests), 2)} {_failed(bests)}"


def _failed(values):
    return f"({sum(value > _FAILED_PERCENT for value in values)}/{len(values)})"


def _with_deviation(score, mean, deviations):
    """As the paper's: the mean of the tasks' deviations."""
    text = score.show(mean, 2)
    return f"{text} ± {score.show(statistics.mean(deviations), 2)}" if deviations else text
