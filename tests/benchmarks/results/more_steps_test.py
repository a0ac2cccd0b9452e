"""The table of recipes for more steps than in training: its cells, its summary and its picture."""

import dataclasses

import pytest
from results import definitions, more_steps, more_steps_page

from tests.benchmarks.results import made_up

TABLE = definitions.load(more_steps.TABLE)
CELLS = {cell.name: cell for cell in TABLE.cells}
RIGHT = (0.99, 1.0, 1.0, 0.99, 0.0)


def _line(name, seed, accuracies, hparams=""):
    cell = CELLS[name]
    results = {
        str(steps): {"accuracy": value, "accuracy_per_sequence": value, "seconds": 1.0}
        for steps, value in zip(TABLE.steps, accuracies, strict=True)
    }
    splits = {"valid": results, "test": results}
    return {"recipe": cell.recipe, "seed": seed, "hparams": hparams, "splits": splits}


def _lines_of_summary(*steps):
    every = more_steps_page.curves(TABLE, made_up.lines(steps=steps))
    return more_steps_page.summary(every).splitlines()


def test_cells_differ_only_by_recipe():
    """Each recipe changes other hparams, and all recipes have the same training."""
    by_row = {}
    for cell in TABLE.cells:
        by_row.setdefault(cell.name.split("/")[0], []).append(cell)
    for cells in by_row.values():
        assert len({cell.recipe for cell in cells}) == len(cells) == len(more_steps.RECIPES)
        alike = {dataclasses.replace(cell, name="a/b", hparams="") for cell in cells}
        assert len(alike) == 1
        assert {cell.set_values["num_rec_steps"] for cell in cells} == {more_steps.TRAINED}


def test_summary_shows_largest_fall_of_a_seed():
    later = (0.95, 0.98, 0.9, 0.96, 0.0)
    assert _lines_of_summary(_line("addition/fixed", 1, RIGHT), _line("addition/fixed", 2, later))[
        2:
    ] == ["| fixed | 8.0 (99.0) | 8.0 (99.0) | 2 | no |"]


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [
        (RIGHT, "yes"),
        ((0.9, 0.95, 0.96, 0.97, 0.5), "yes"),
        ((1.0, 1.0, 1.0, 0.98, 0.98), "no"),
        ((0.5, 0.5, 0.5, 0.5, 0.5), "not learned"),
    ],
)
def test_summary_says_which_recipe_stays_right(accuracies, verdict):
    [line] = _lines_of_summary(_line("parity/uniform", 1, accuracies))[2:]
    assert line.startswith("| uniform | ") and line.endswith(f"| 1 | {verdict} |")


def test_summary_judges_each_task():
    low = (0.6, 0.6, 0.6, 0.6, 0.6)
    lines = _lines_of_summary(_line("addition/scale", 1, RIGHT), _line("parity/scale", 1, low))
    assert lines[2].endswith("| 1 | addition: yes, parity: not learned |")


def test_summary_names_tasks_with_other_numbers_of_seeds():
    runs = [("addition", 1), ("addition", 2), ("parity", 1)]
    lines = _lines_of_summary(*(_line(f"{row}/scale", seed, RIGHT) for row, seed in runs))
    assert lines[2].endswith("| addition: 2, parity: 1 | yes |")


def test_summary_excludes_runs_with_other_steps_or_hparams():
    partial = _line("parity/fixed", 1, RIGHT)
    del partial["splits"]["test"][str(TABLE.steps[-1])]
    assert _lines_of_summary(partial, _line("parity/start", 1, RIGHT, "act_epsilon=0.5"))[2:] == []


def test_tasks_that_no_recipe_learns_are_left_out():
    low = (0.6, 0.6, 0.6, 0.6, 0.6)
    runs = [("addition/fixed", RIGHT), ("addition/scale", low), ("lookup/fixed", low)]
    steps = [_line(name, 1, accuracies) for name, accuracies in runs]
    every = more_steps_page.curves(TABLE, made_up.lines(steps=steps))
    kept = more_steps_page.of_learned_tasks(every)
    assert {(one.row, one.recipe) for one in kept} == {("addition", "fixed"), ("addition", "scale")}


def test_picture_has_panel_for_each_split_and_line_for_each_recipe():
    steps = [_line(f"{row}/fixed", 1, RIGHT) for row in ("addition", "parity")]
    steps.append(_line("parity/scale", 1, RIGHT))
    text = more_steps_page.picture(more_steps_page.curves(TABLE, made_up.lines(steps=steps)))
    assert text.count(">addition: ") == text.count(">parity: ") == 2
    assert text.count(">fixed<") == text.count(">scale<") == 1 and ">uniform<" not in text


def test_lines_know_which_steps_a_run_has():
    found = made_up.lines(steps=[_line("parity/fixed", 2, RIGHT)])
    cell = CELLS["parity/fixed"]
    assert found.has_steps(cell, 2, TABLE.steps)
    assert not found.has_steps(cell, 1, TABLE.steps)
    assert not found.has_steps(cell, 2, (*TABLE.steps, 5))
    assert not found.has_steps(CELLS["parity/scale"], 2, TABLE.steps)
