"""Tests of the rows, the means and the picture of the summary."""

import pytest
from results import definitions, pictures, summary

from tests.benchmarks.results import made_up

EVERY = [definitions.load(name) for name in definitions.names()]
SINGLE = next(table for table in EVERY if table.name == "babi_10k_single")


def _lines(tasks):
    cells = {cell.name: cell for cell in SINGLE.cells}
    return made_up.lines(
        *(made_up.line(1, 0.1, 0.02, cells[f"task{task}/adaptive"]) for task in tasks)
    )


def test_row_without_runs_has_numbers_of_paper_and_dash():
    rows = summary.rows(EVERY, made_up.lines())
    assert len(rows) == 15
    assert all(row.ours == "—" and not row.seeds and not row.points["ut_keras"] for row in rows)
    assert rows[1].paper == "0.21 (0/20); 0.73 ± 0.89" and rows[1].other.startswith("6.98, ")


def test_means_use_the_same_tasks():
    row = summary.rows(EVERY, _lines(range(11, 21)))[1]
    assert row.what == "bAbI 10k, single task† (10 of 20 tasks)"
    assert row.paper == "0.38 (0/10); 1.15 ± 1.40"
    assert row.other.startswith("13.68, the best of ten runs ([andreamad8](https://")
    assert (row.ours, row.seeds) == ("2.00 (0/10)", "1")
    assert row.points["ut_keras"] == [98.0] and row.points["paper"] == [pytest.approx(98.85)]
    assert summary.rows(EVERY, _lines(range(12, 21))) == summary.rows(EVERY, made_up.lines())


def test_table_has_one_direction_per_part():
    table = summary.table(summary.rows(EVERY, made_up.lines()))
    errors, scores = table.split("\nThis table shows accuracies")
    assert "Lower is better" in errors and "Higher is better" not in errors
    assert "Higher is better" in scores and "Lower is better" not in scores
    assert errors.count("\n| bAbI 1") == 6 and scores.count("correct |") == 8
    assert "| bAbI 1k, single task | 6.39 ± 3.22 | — |  |" in errors


def test_commands_repeat_each_row_and_name_other_results():
    rows = summary.rows(EVERY, made_up.lines())
    lines = summary.commands(rows).splitlines()
    assert len(lines) == 2 + len(rows)
    command = "`--table=babi_1k_single --only=adaptive`"
    assert f"| bAbI 1k, single task | 4.56 (3/20) | — | {command} |" in lines
    assert any("| 41.02 on lower-cased text" in line for line in lines)


def test_picture_has_mark_for_each_number_of_ut_keras():
    without, one = (
        pictures.overview(summary.rows(EVERY, found)).count("<rect")
        for found in (made_up.lines(), _lines(range(11, 21)))
    )
    assert one == without + 1


def test_curves_have_a_line_for_each_seed():
    curve = [[2, 0.5], [4, 0.2]]
    found = made_up.lines(
        made_up.line(1, 0.2, 0.1, curve=curve), made_up.line(2, 0.2, 0.1, curve=curve)
    )
    drawn = pictures.curves(made_up.TABLE, found)
    assert drawn.count('stroke-width="1.8"') == 2
    assert "task1: mean_error" in drawn and ">adaptive</text>" in drawn
    assert pictures.curves(made_up.TABLE, made_up.lines()) is None
    of_one = made_up.lines(made_up.line(1, 39.0, 38.0, curve=[[2, 39.0]]))
    assert ">40</text>" in pictures.curves(made_up.TABLE, of_one)
