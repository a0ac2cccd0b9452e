"""docs/results.md, tried.md and depth.md contain the values of the result lines."""

import dataclasses
import json
import shutil
import statistics

import blocks
import pytest
from results import definitions, depth, means, page
from results.lines import read

from tests.benchmarks.conftest import ROOT
from tests.benchmarks.results import made_up
from tests.benchmarks.results.made_up import CELL, TABLE, line
from ut_keras.errors import DataError, UserError


def test_pages_and_pictures_are_up_to_date():
    for path, text in page.written(f"{ROOT}/docs/results").items():
        with open(path, encoding="utf-8") as file:
            assert file.read() == text, "run: python benchmarks/results/run.py --write"


def test_page_is_unchanged_after_invalid_line(tmp_path):
    shutil.copytree(f"{ROOT}/docs", tmp_path / "docs", ignore=shutil.ignore_patterns("site"))
    with open(tmp_path / "docs" / "results" / "scan.jsonl", "a") as file:
        file.write(json.dumps({"table": "scan"}) + "\n")
    with pytest.raises(DataError, match="scan.jsonl, line "):
        page.written(str(tmp_path / "docs" / "results"))


def test_texts_have_mean_error_with_copies_of_stories():
    """The text names three means: of both kinds of models, and of the better one in validation."""
    table, found = definitions.load("babi_1k_single"), read(f"{ROOT}/docs/results")
    errors = {"adaptive": {}, "permuted": {}}
    for cell in table.cells:
        task, model = cell.name.split("/")
        if model in errors:
            run = means.best(cell, found.of(cell))
            errors[model][task] = run["valid"]["mean_error"], 100 * run["test"]["mean_error"]
    assert len(errors["adaptive"]) == len(errors["permuted"]) == 20
    errors["chosen"] = {
        task: min(errors["adaptive"][task], errors["permuted"][task], key=lambda error: error[0])
        for task in errors["adaptive"]
    }
    mean = {
        model: statistics.mean(test for _, test in of_task.values())
        for model, of_task in errors.items()
    }
    failed = sum(test > 5 for _, test in errors["chosen"].values())
    with open(f"{ROOT}/docs/results.md", encoding="utf-8") as file:
        text = " ".join(file.read().split())
    assert (
        f"is {mean['adaptive']:.2f} for the adaptive models and {mean['permuted']:.2f} for the "
        "models `permuted`"
    ) in text
    assert f"the mean test error is {mean['chosen']:.2f}, and {failed} tasks fail" in text
    assert f"reduce the mean error of the 20 tasks from {mean['adaptive']:.2f} to" in text
    assert f"to {mean['permuted']:.2f} ([bAbI, 1k]" in text


def _page(*finished, table=TABLE, tried=()):
    texts = page.texts_of([table], made_up.lines(*finished, tried=tried))
    return "\n".join(texts.values()).splitlines()


def test_best_seed_is_chosen_by_validation():
    rows = _page(line(1, 0.2, 0.01), line(2, 0.1, 0.03), line(3, 0.3, 0.08))
    assert "| task1, adaptive | 0.0; 0.2 ± 0.3 | 3.0 | 4.0 ± 3.6 | 3 | 4 | 60 s | 2.50 |" in rows


def test_mean_is_compared_with_paper_on_same_tasks():
    second = dataclasses.replace(
        CELL,
        name="task2/adaptive",
        updates=5,
        scores=(dataclasses.replace(CELL.scores[0], paper="8.0; 9.0 ± 1.0"),),
    )
    both = dataclasses.replace(TABLE, cells=(CELL, second))
    rows = _page(line(1, 0.1, 0.06), line(1, 0.1, 0.02, second), table=both)
    assert "| **mean of all 20 tasks, adaptive** | 4.56 |  |  |  |  |  |  |" in rows
    means = "4.00 (1/2); 4.60 ± 0.65 | 4.00 (1/2) | 4.00 (1/2) |"
    assert f"| **mean of 2 of 20 tasks, adaptive** | {means}  |  |  |  |" in rows
    several = [line(1, 0.1, 0.06), line(2, 0.2, 0.08), line(1, 0.1, 0.02, second)]
    for lines, ours in ((several, "4.50"), ([*several, line(2, 0.2, 0.02, second)], "4.50 ± 0.71")):
        rows = _page(*lines, table=both)
        assert any(
            f"adaptive** | 4.00 (1/2); 4.60 ± 0.65 | 4.00 (1/2) | {ours} (1/2) |" in r for r in rows
        )
    silent = dataclasses.replace(CELL, scores=(dataclasses.replace(CELL.scores[0], paper=""),))
    rows = _page(line(1, 0.1, 0.06), table=dataclasses.replace(TABLE, cells=(silent,)))
    assert not any("mean of 1" in row for row in rows)


_NOT_RUN = "These experiments have no results yet: task1, adaptive (paper: 0.0; 0.2 ± 0.3)."


def test_cells_without_runs_are_listed_with_number_of_paper():
    assert _NOT_RUN in _page()
    assert _NOT_RUN not in _page(line(1, 0.2, 0.1))


def test_cells_without_numbers_of_the_paper_are_listed_by_model():
    score = dataclasses.replace(CELL.scores[0], paper="")
    names = [f"task{n}/{model}" for n in range(1, 6) for model in ("act", "fixed")]
    names += ["task6/ponder", "task6/q_halt"]
    cells = [dataclasses.replace(CELL, name=name, scores=(score,)) for name in names]
    of = dataclasses.replace(TABLE, cells=tuple(cells), averages={})
    rows = _page(table=of)
    at = rows.index("These experiments have no results yet:")
    assert rows[at + 2 : at + 4] == ["- act, fixed (5 experiments)", "- ponder, q_halt (task6)"]


def test_table_without_numbers_of_the_paper_has_no_such_column():
    score = dataclasses.replace(CELL.scores[0], paper="")
    cell = dataclasses.replace(CELL, scores=(score,))
    rows = _page(line(1, 0.2, 0.01), table=dataclasses.replace(TABLE, cells=(cell,), averages={}))
    head = "|  | ut_keras, best seed by validation | ut_keras, mean ± SD | seeds | updates |"
    assert any(row.startswith(head) for row in rows)
    assert "| task1, adaptive | 1.0 | 1.0 | 1 | 4 | 60 s | 2.50 |" in rows


def test_one_row_has_all_tasks_of_a_tried_setting():
    other = dataclasses.replace(CELL, name="task2/adaptive")
    lines = [line(1, 0.5, 1, setting="much"), line(1, 0.25, 1, other, setting="much")]
    result = "mean_error on validation: 0.5 (task1), 0.25 (task2)"
    assert f"| t: adaptive | much | 1 | {result} |  |" in _page(tried=lines)
    lines[1]["seed"] = 2
    rows = _page(tried=lines)
    assert "| t: task2, adaptive | much | 2 | mean_error 0.25 on validation |  |" in rows


def test_tried_setting_has_row_with_its_number():
    tried = [line(1, valid, 1, setting="much") for valid in (0.53, 0.5, 0.52)]
    row = (
        "| task1, adaptive | 0.0; 0.2 ± 0.3 | only tried: mean_error 50 % on validation | [details]"
    )
    assert any(text.startswith(row) for text in _page(tried=tried))
    other = {"table": "t", "cell": CELL.name, "seed": 1, "setting": "a", "result": "error 51 %"}
    assert any("| only tried: error 51 % | [details]" in text for text in _page(tried=[other]))


def test_runs_of_an_earlier_recipe_are_listed_as_tried():
    other = dataclasses.replace(CELL, hparams="learning_rate_constant=0.5", updates=3)
    assert other.recipe != CELL.recipe
    rows = _page(line(1, 0.25, 0.5, other), tried=[line(1, 0.5, 1, setting="much")])
    assert "| t: task1, adaptive | much | 1 | mean_error 0.5 on validation |  |" in rows
    setting = "Train with `learning_rate_constant=0.5` for 3 updates."
    row = f"| t: task1, adaptive | {setting} | 1 | mean_error 0.25 on validation |"
    assert rows.index(row) > rows.index("| cell | setting | seed | result |")
    assert not any("50.0" in text for text in rows)


def test_tried_settings_exclude_other_models():
    other = line(1, 0.25, 0.5, dataclasses.replace(CELL, updates=3), command="--model=transformer")
    rows = _page(other)
    assert _NOT_RUN in rows
    name, setting = "t: task1, adaptive (earlier version)", "Train `transformer` for 3 updates."
    assert any(f"| {name} | {setting} |" in row for row in rows)


def test_table_says_which_direction_is_better():
    def shown(*metrics):
        scores = tuple(dataclasses.replace(CELL.scores[0], metric=name) for name in metrics)
        cell = dataclasses.replace(CELL, scores=scores)
        run = {**line(1, 0.2, 0.1, cell), "test": dict.fromkeys(metrics, 0.1)}
        return _page(run, table=dataclasses.replace(TABLE, cells=(cell,)))

    assert "**Lower is better.**" in shown("mean_error")
    assert "**Higher is better.**" in shown("decode/bleu")
    assert not any("is better" in text for text in shown("mean_error", "decode/bleu"))


def test_wide_table_has_a_column_for_each_score():
    first = definitions.Score("mean_error", name="test")
    both = (first, definitions.Score("mean_error", name="validation", split="valid"))
    cell = dataclasses.replace(CELL, scores=both)
    other = dataclasses.replace(CELL, name="task2/adaptive", updates=5, scores=both[1:])
    table = dataclasses.replace(TABLE, cells=(cell, other), is_wide=True, averages={})
    runs = line(1, 0.2, 0.1, cell), line(2, 0.4, 0.3, cell), line(1, 0.5, 0.5, other)
    rows = _page(*runs, table=table)
    assert "|  | test | validation | seeds | updates | time | ponder time |" in rows
    scores = "0.200 ± 0.141 | 0.300 ± 0.141"
    assert f"| task1, adaptive | {scores} | 2 | 4 | 60 s | 2.50 |" in rows
    assert "| task2, adaptive |  | 0.500 | 1 | 5 | 60 s | 2.50 |" in rows


def test_curves_are_shown_where_a_line_has_one():
    picture = "![Validation by updates: A title](pictures/curves_t.svg)"
    assert picture in _page(line(1, 0.2, 0.1, curve=[[2, 0.5], [4, 0.2]]))
    assert picture not in _page(line(1, 0.2, 0.1))


def test_runs_that_were_stopped_after_other_steps():
    at = {"mean_error": 0.25, "seconds": 1.0}
    none = {**at, "mean_error": 0.0}

    def run(seed, by_steps, hparams="", recipe=CELL.recipe):
        splits = {"test": by_steps}
        return {"recipe": recipe, "seed": seed, "hparams": hparams, "splits": splits}

    steps = [
        run(1, {"2": at, "16": none}),
        run(2, {"4": {**at, "ponder_time": 2.54}}, "act_type=random"),
        run(3, {"2": {**at, "mean_error": 0.75}, "16": at}),
        run(4, {"2": at}),
        run(1, {"99": at}, recipe="another"),
    ]
    text = page.texts_of([TABLE], made_up.lines(steps=steps))["results", "tables"]
    assert (
        "|  | 2 | 4 | 16 |\n"
        "| --- | --- | --- | --- |\n"
        "| task1, adaptive, seeds 1, 3: mean_error | 50.0 |  | 12.5 |\n"
        "| task1, adaptive, seed 4: mean_error | 25.0 |  |  |\n"
        "| task1, adaptive, act_type=random, seed 2: mean_error |  | 25.0 (2.5) |  |"
    ) in text


def test_summary_of_depth_has_scores_and_steps_of_each_model():
    every = [definitions.load(name) for name in definitions.names()]
    [table] = (table for table in every if table.name == "depth_addition")
    [cell] = (cell for cell in table.cells if cell.name == "addition/act")
    runs = [
        line(seed, 0.2, 0.1, cell) | {"test": {"accuracy_per_sequence": x, "ponder_time": 3.5}}
        for seed, x in ((1, 0.25), (2, 0.35))
    ]
    rows = depth.summary(every, made_up.lines(*runs)).splitlines()
    assert "| `act` | 0.300 ± 0.071 | — | — | 3.50 |" in rows
    assert "| `fixed` | — | — | — |  |" in rows


def test_time_of_another_machine_is_named_and_not_counted():
    there = line(2, 0.2, 0.1, seconds=7200, where="a GPU")
    texts = page.texts_of([TABLE], made_up.lines(line(1, 0.2, 0.1, seconds=3600), there))
    assert "| 90 min, a GPU |" in texts["results", "tables"]
    assert "took 1.0 hours on one core" in texts["results", "hours"]


def test_page_without_block_is_rejected():
    with pytest.raises(UserError, match="Received: 0 blocks"):
        blocks.fill("", {"hours": "3"})
