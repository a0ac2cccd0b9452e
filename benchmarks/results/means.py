"""Computes means over seeds and tasks, for ut_keras and for the paper on the same tasks."""

import re
import statistics
from typing import NamedTuple

from ut_keras.files import metrics_file

_TASKS = range(1, 21)  # the tasks of bAbI, which the paper averages
_FAILED_PERCENT = 5
_MANY = 4


class Mean(NamedTuple):
    """Means over the tasks that have a finished run.

    Fields:
        paper: str. The paper's "BEST (failed tasks); MEAN ± DEVIATION" over these tasks, or "".
        bests: str. The mean and the number of failed tasks, for the seeds that are best in
            validation.
        all: str. The mean over all seeds, and the number of tasks that fail on average.
        values: list that contains the mean as a number. It is empty if there is no mean.
        seeds: list of int. The number of seeds of each task.
        tasks: list of int. The numbers of the tasks.
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
        """Return a text that names the tasks."""
        missing = [str(task) for task in _TASKS if task not in self.tasks]
        if len(missing) < _MANY:
            return f"{len(self.tasks)} tasks, without {', '.join(missing)}"
        return f"{len(self.tasks)} of {len(_TASKS)} tasks"


def over_cells(table, model, found):
    """Return the `Mean` of the first scores of a model's cells."""
    cells = [c for c in table.cells if c.name.endswith(f"/{model}") and found.of(c)]
    if not cells:
        return Mean()
    score = cells[0].scores[0]
    seeds = [[score.of(line[score.split]) for line in found.of(cell)] for cell in cells]
    bests = [score.of(best(cell, found.of(cell))[score.split]) for cell in cells]
    averages = list(map(statistics.mean, seeds))
    value = statistics.mean(averages)
    # The deviation is shown only if every task has several seeds. Otherwise the mean and the
    # deviation would include different tasks.
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
    """Return the line with the best validation score.

    If several lines have the best score, the first of them is returned.
    """
    sign = -1 if metrics_file.is_less_better(cell.valid) else 1
    return max(lines, key=lambda line: sign * line["valid"][cell.valid])


def spread(score, values):
    """Return the mean as text, with the standard deviation if there are several values."""
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
    """Return a mean with the average of the tasks' deviations, which the paper also reports."""
    text = score.show(mean, 2)
    return f"{text} ± {score.show(statistics.mean(deviations), 2)}" if deviations else text
