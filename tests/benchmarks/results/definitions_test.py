"""The tables of docs/results.md have valid commands and the bAbI numbers of the paper."""

import dataclasses
import statistics

import pytest
from results import babi, definitions
from results.definitions import Score

from tests.benchmarks.results.made_up import CELL
from ut_keras import problems
from ut_keras.bin import command_line, flags, trainer_setup
from ut_keras.errors import DataError


@pytest.mark.parametrize("name", definitions.names())
def test_cell_has_valid_flags(name, tmp_path, small_data):
    """The trainer accepts all commands. Validation and test use different splits."""
    table = definitions.load(name)
    assert len({cell.name for cell in table.cells}) == len(table.cells)
    folders = [f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'run'}"]
    for cell in table.cells:
        assert cell.name.count("/") == 1
        splits = []
        for arguments in (cell.training(seed=1), cell.testing()):
            if arguments == cell.testing():
                # A real test command reads the hparams set from the folder of the run.
                arguments = [*arguments, f"--hparams_set={cell.hparams_set}"]
            # The fixture has imported the package. A second import would register its names twice.
            arguments = [x for x in arguments if not x.startswith(definitions.PACKAGE_FLAG)]
            args = command_line.parse(flags.TRAINER, [*arguments, *folders], "trainer.py", "")
            splits.append(trainer_setup.check(args).eval_split)
        assert splits == ["dev", "test"]
        problem = problems.get(cell.problem)
        if cell.valid in ("accuracy", "accuracy_per_sequence", "neg_log_perplexity"):
            assert cell.valid in problem.eval_metrics
        if "babi" in cell.problem:
            known = {**problem.feature_metrics(None), "mean_error": 0, "failed_tasks": 0}
            assert {score.metric for score in cell.scores} <= set(known)


def test_recipe_contains_settings_without_names():
    """Two cells share their runs if the cells differ only in their names and scores."""
    same = f"batch_size={CELL.set_values['batch_size']}"
    by_hand = dataclasses.replace(CELL, name="a/b", hparams=same, scores=())
    assert by_hand.recipe == CELL.recipe
    assert dataclasses.replace(CELL, every=3).recipe != CELL.recipe


def test_cell_with_package_names_it_in_both_commands():
    cell = dataclasses.replace(CELL, package="benchmarks/results/small_data")
    for arguments in (cell.training(seed=1), cell.testing()):
        assert "--t2t_usr_dir=benchmarks/results/small_data" in arguments
    assert cell.recipe == CELL.recipe


@pytest.mark.parametrize(
    ("kind", "best", "mean", "deviation"),
    [
        ("10k_single", 0.21, 0.73, 0.89),
        ("10k_joint", 0.29, 1.12, 1.62),
        ("1k_single", 4.56, 6.39, 3.22),
        ("1k_joint", 7.85, 11.21, 6.62),
    ],
)
def test_numbers_of_paper_match_its_averages(kind, best, mean, deviation):
    numbers = {babi.BEST[kind]: best, babi.MEAN[kind]: mean, babi.DEVIATION[kind]: deviation}
    for listed, average in numbers.items():
        values = [float(number) for number in listed.split()]
        assert len(values) == 20
        assert statistics.mean(values) == pytest.approx(average, abs=0.006)


def test_public_numbers_match_their_average():
    assert statistics.mean(map(float, babi.PUBLIC.split())) == pytest.approx(6.98)


@pytest.mark.parametrize(
    ("percent", "value", "text"),
    [
        (False, 1.0, "1.000"),
        (False, 0.9996, "0.9996"),
        (False, 0.99996, "0.99996"),
        (False, 0.0004, "0.0004"),
        (False, 0.9994, "0.999"),
        (True, 100.0, "100.0"),
        (True, 99.96, "99.96"),
        (True, 0.04, "0.04"),
        (True, 1.0, "1.0"),
        (False, 245.0, "245.0"),
    ],
)
def test_score_shows_limits_only_for_exact_values(percent, value, text):
    assert Score("accuracy", percent=percent).show(value) == text


def test_value_names_line_without_number():
    with pytest.raises(DataError, match=r"must have 'accuracy'. Received: loss\."):
        Score("accuracy").of({"loss": 1.0})
