"""A table and result lines of invented runs for tests."""

from results.definitions import Cell, Score, Table
from results.lines import Lines

CELL = Cell(
    name="task1/adaptive",
    problem="babi_qa_sentence_single_task1_1k_valid",
    model="universal_transformer_encoder",
    hparams_set="adaptive_universal_transformer_babi",
    updates=4,
    every=2,
    valid="mean_error",
    scores=(Score("mean_error", "0.0; 0.2 ± 0.3", percent=True),),
)
TABLE = Table("A title", (CELL,), averages={"adaptive": "4.56"}, name="t", text="A text.")


def line(seed, valid, test, cell=CELL, **more):
    return {
        "table": "t",
        "cell": cell.name,
        "metric": cell.valid,
        "seed": seed,
        "recipe": cell.recipe,
        "set": cell.set_values,
        "updates": cell.updates,
        "seconds": 60,
        "valid": {"mean_error": valid},
        "test": {"mean_error": test, "ponder_time": 2.5},
        **more,
    }


def lines(*finished, tried=(), steps=()):
    found = Lines({}, list(tried), list(steps))
    for one in finished:
        found.finished.setdefault(one["recipe"], {})[one["seed"]] = one
    return found
