"""Defines the cells of the tables in docs/depth.md, and writes their summary.

Every task has the same models.
"""

import statistics

import blocks

from results import means
from results.definitions import Cell, Score

SETS = {
    "fixed": "universal_transformer_depth",
    "act": "adaptive_universal_transformer_depth",
    "stick_breaking": "universal_transformer_depth_stick_breaking",
    "ponder_net": "universal_transformer_depth_ponder_net",
    "q_halt": "universal_transformer_depth_q_halt",
    "random": "universal_transformer_depth_random",
    "injected": "universal_transformer_depth_injected",
    "ndr": "universal_transformer_depth_ndr",
}


def cells(problems, updates, valid, test, metric="accuracy", more_updates=(), mixed=False):
    """Return a cell for each combination of a problem and a model.

    Args:
        problems: dict from the name of a row to the name of its problem.
        updates: int, the number of updates.
        valid, test: str, descriptions of the examples in the two splits.
        metric: str, the metric that the table shows and that selects the checkpoint.
        more_updates: dict from the name of a model to its number of updates, for models whose
            number differs from `updates`.
        mixed: bool. Whether a batch contains examples of all lengths.
    """
    of_set = dict.fromkeys(SETS, updates) | dict(more_updates)
    return tuple(
        Cell(
            name=f"{row}/{name}",
            problem=problem,
            model="universal_transformer_encoder",
            hparams_set=f"{hparams_set}_mixed" if mixed else hparams_set,
            updates=of_set[name],
            every=of_set[name] // 10,
            valid=metric,
            scores=(
                Score(metric, name=valid, split="valid"),
                Score(metric, name=test),
            ),
        )
        for row, problem in problems.items()
        for name, hparams_set in SETS.items()
    )


_STEPS = "14"  # the number of steps of models without a halting rule
_SUMMARY = {  # {column: (table, row)}
    "sums of 20 digits": ("depth_addition", "addition"),
    "parity of 20 digits": ("depth_parity", "parity"),
    "table lookup, forward, 9 and 10 functions": ("depth_ctl", "forward"),
}


def summary(every, found):
    """Return a table with the test scores and the mean numbers of steps of each model.

    Args:
        every: list of `Table`.
        found: `Lines`.
    """
    cells = {(table.name, cell.name): cell for table in every for cell in table.cells}
    lines = [("model", *_SUMMARY, "mean steps on these tasks")]
    for model in SETS:
        shown, steps = [], []
        for table, row in _SUMMARY.values():
            cell = cells[table, f"{row}/{model}"]
            tests = [line["test"] for line in found.of(cell)]
            score = cell.scores[-1]
            shown.append(means.spread(score, [score.of(test) for test in tests]) if tests else "—")
            times = [test["ponder_time"] for test in tests if "ponder_time" in test]
            if tests:
                steps.append(f"{statistics.mean(times):.2f}" if times else _STEPS)
        lines.append((f"`{model}`", *shown, ", ".join(dict.fromkeys(steps))))
    return blocks.table(lines)
