"""The tables of docs/results.md: their commands can be run, the page says what the lines say."""

import dataclasses
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import time

import pytest

import problems
from tests.problems import babi_qa_test
from ut_keras.bin import command_line, flags, run_setup

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def _load():
    spec = importlib.util.spec_from_file_location("paper_command", f"{ROOT}/benchmarks/paper.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAPER = _load()
CELLS, PAGE, RUNS = PAPER.paper_cells, PAPER.paper_page, PAPER.paper_runs
CELL = CELLS.Cell(
    name="task1/adaptive",
    problem="babi_qa_sentence_single_task1_1k_valid",
    model="universal_transformer_encoder",
    hparams_set="adaptive_universal_transformer_babi",
    updates=4,
    every=2,
    valid="mean_error",
    scores=(CELLS.Score("mean_error", "0.0; 0.2 ± 0.3", percent=True),),
)
TABLE = CELLS.Table("A title", (CELL,), averages={"adaptive": "4.56"}, name="t", text="A text.")


@pytest.mark.parametrize("name", PAGE.HEADS)
def test_page_is_up_to_date(name):
    with open(os.path.join(ROOT, "docs", f"{name}.md"), encoding="utf-8") as file:
        text = file.read()
    written = PAGE.read(f"{ROOT}/docs/results", name)
    assert text == written, "run: python benchmarks/paper.py --write"


@pytest.mark.parametrize("name", CELLS.names())
def test_every_cell_can_be_run(name, tmp_path):
    """The trainer takes the commands, the validation split and the test split are two."""
    table = CELLS.load(name)
    assert len({cell.name for cell in table.cells}) == len(table.cells)
    folders = [f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'run'}"]
    for cell in table.cells:
        assert cell.name.count("/") == 1
        splits = []
        for arguments in (cell.training(seed=1), cell.testing()):
            if arguments == cell.testing():
                arguments = [*arguments, f"--hparams_set={cell.hparams_set}"]  # the run's own
            args = command_line.parse(flags.TRAINER, [*arguments, *folders], "trainer.py", "")
            splits.append(run_setup.check(args).eval_split)
        assert splits == ["dev", "test"]
        problem = problems.get(cell.problem)
        if cell.valid in ("accuracy", "accuracy_per_sequence", "neg_log_perplexity"):
            assert cell.valid in problem.eval_metrics
        if "babi" in cell.problem:
            known = {**problem.feature_metrics(None), "mean_error": 0, "failed_tasks": 0}
            assert {score.metric for score in cell.scores} <= {*known, "ponder_time"}


@pytest.mark.parametrize(
    "kind, best, mean",
    [
        ("10k_single", 0.21, 0.73),
        ("10k_joint", 0.29, 1.12),
        ("1k_single", 4.56, 6.39),
        ("1k_joint", 7.85, 11.21),
    ],
)
def test_the_papers_numbers_add_up_to_its_table_1(kind, best, mean):
    babi = sys.modules["paper_babi"]
    for numbers, average in ((babi.BEST, best), (babi.MEAN, mean)):
        values = [float(number) for number in numbers[kind].split()]
        assert len(values) == 20
        assert statistics.mean(values) == pytest.approx(average, abs=0.006)


# The page, of lines that are made up.


def _line(seed, valid, test, cell=CELL, **more):
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


def _page(lines, tried=()):
    finished = {}
    for line in lines:
        finished.setdefault(line["recipe"], {})[line["seed"]] = line
    return PAGE.page([TABLE], finished, list(tried)).splitlines()


def test_the_best_seed_is_chosen_by_validation():
    page = _page([_line(1, 0.2, 0.01), _line(2, 0.1, 0.03), _line(3, 0.3, 0.08)])
    row = "| task1, adaptive | 0.0; 0.2 ± 0.3 | 3.0 | 4.0 ± 3.6 | 3 | 4 | 60 s | 2.50 |"
    assert row in page
    row = "| **mean of the tasks, adaptive** | 4.56 | 3.00 (0/1) | 4.00 ± 3.61 |  |  |  |  |"
    assert row in page


def test_what_was_not_run_has_empty_cells():
    assert "| task1, adaptive | 0.0; 0.2 ± 0.3 |  |  |  |  |  |" in _page([])


def test_runs_of_an_earlier_recipe_are_listed_as_tried():
    other = dataclasses.replace(CELL, hparams="learning_rate_constant=0.5", updates=3)
    assert other.recipe != CELL.recipe
    page = _page([_line(1, 0.25, 0.5, other)], tried=[{**_line(1, 0.5, 1), "setting": "much"}])
    assert "| t: task1, adaptive | much | 1 | mean_error 0.5 |  |" in page
    row = "| t: task1, adaptive | learning_rate_constant=0.5, 3 updates | 1 | mean_error 0.25 |"
    assert f"{row} an earlier recipe |" in page
    assert not any("50.0" in line for line in page)


def test_a_recipe_is_what_is_run_and_not_its_name():
    """Two tables with the same cell share its runs."""
    by_hand = dataclasses.replace(CELL, name="a/b", hparams="batch_size=704", scores=())
    assert by_hand.recipe == CELL.recipe
    assert dataclasses.replace(CELL, every=3).recipe != CELL.recipe


def test_runs_that_were_stopped_after_other_steps():
    at = {"mean_error": 0.25, "seconds": 1.0}
    splits = {"test": {"2": at, "16": {**at, "mean_error": 0.0, "seconds": 4.0}}}
    lines = [
        {"recipe": CELL.recipe, "seed": 1, "hparams": "", "splits": splits},
        {
            "recipe": CELL.recipe,
            "seed": 2,
            "hparams": "act_type=random",
            "splits": {"test": {"4": {**at, "ponder_time": 2.54}}},
        },
        {
            "recipe": CELL.recipe,
            "seed": 3,
            "hparams": "",
            "splits": {"test": {"2": {**at, "mean_error": 0.75}, "16": at}},
        },
        {
            "recipe": CELL.recipe,
            "seed": 4,
            "hparams": "",
            "splits": {"test": {"2": at}},
        },
        {"recipe": "another", "seed": 1, "hparams": "", "splits": {"test": {"99": at}}},
    ]
    page = PAGE.page([TABLE], {}, [], steps=lines)
    assert (
        "|  | 2 | 4 | 16 |\n"
        "| --- | --- | --- | --- |\n"
        "| task1, adaptive, seeds 1, 3: mean_error | 50.0 |  | 12.5 |\n"
        "| task1, adaptive, seed 4: mean_error | 25.0 |  |  |\n"
        "| task1, adaptive, act_type=random, seed 2: mean_error |  | 25.0 (2.5) |  |\n"
    ) in page


# The command.


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--table=babi_10k"], "babi_10k_single"),
        (["--table=scan", "--only=lenth"], "length 22"),
        (["--table=scan", "--hparams=dropout=0"], "--tried=WHY must be given with --hparams"),
        (["--table=scan", "--tried=why"], "--tried=WHY must be given with --hparams"),
        (["--table=scan", "--steps=abc"], "--steps must be numbers from 1 to 1000"),
        (["--table=scan", "--steps="], "--steps must be numbers"),
        (["--table=scan", "--steps=1," + "9" * 5000], "--steps must be numbers"),
        (["--table=scan", "--tried=why", "--steps=2"], "--steps goes with --hparams alone"),
    ],
)
def test_what_is_refused(argv, message, capsys):
    assert PAPER.main(argv) == 2
    assert message in capsys.readouterr().err


def test_only(capsys):
    def listed(only):
        assert PAPER.main(["--table=lte", f"--only={only}", "--list"]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [line.split(":")[0] for line in lines if not line.startswith(" ")]

    assert len(listed("")) == 24
    assert listed("copy,program,adaptive") == ["copy/adaptive", "program/adaptive"]
    assert listed("double/lstm") == ["double/lstm"]


def test_nothing_starts_when_the_time_is_over(tmp_path, capsys):
    folders = [f"--{name}_dir={tmp_path}" for name in ("runs", "data", "tmp", "results")]
    assert PAPER.main(["--table=scan", "--hours=0", *folders]) == 0
    assert "the time is over. Run the same command again" in capsys.readouterr().out


TINY = """
'''A text.'''
import dataclasses
import paper_babi
from paper_cells import Table
SMALL = "hidden_size=8,filter_size=8,num_heads=1,act_max_steps=2,batch_size=100"
CELLS = paper_babi.single("1k", {1: 400}, models=("adaptive",))
TABLE = Table(
    title="Tiny",
    cells=tuple(dataclasses.replace(cell, every=40, hparams=SMALL) for cell in CELLS),
    raw=paper_babi.RAW,
)
"""
WITH_THESE_TABLES = """
import sys
sys.path.insert(0, sys.argv[1])
import paper
paper.paper_cells.FOLDER = sys.argv[2]
sys.exit(paper.main(sys.argv[3:]))
"""


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_and_ends_in_a_line(tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "tiny.py").write_text(TINY)
    (tmp_path / "raw" / "somewhere").mkdir(parents=True)
    # Many batches in an epoch, for a new one takes time.
    parts = {"train": babi_qa_test.TRAIN * 200, "valid": babi_qa_test.TRAIN}
    babi_qa_test.write_archive(tmp_path / "raw" / "somewhere", valid=parts)
    folders = [f"--{name}_dir={tmp_path / name}" for name in ("runs", "data", "tmp", "results")]

    def start(*more):
        words = [sys.executable, "-c", WITH_THESE_TABLES, f"{ROOT}/benchmarks", tmp_path / "tables"]
        return subprocess.Popen(
            [*words, "--table=tiny", f"--raw={tmp_path / 'raw'}", *folders, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def evaluations():
        return list(tmp_path.glob("runs/*/seed-1/metrics.jsonl"))

    process = start()
    deadline = time.monotonic() + 900
    while not evaluations() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=900)[0]
    assert process.returncode == 143, output
    assert "Run the same command again to go on." in output
    assert not (tmp_path / "results").exists()
    [run] = tmp_path.glob("runs/*/seed-1")
    assert not json.loads((run / "paper.json").read_text())["trained"]

    process = start()
    output = process.communicate(timeout=900)[0]
    assert process.returncode == 0, output
    log = (run / "log.txt").read_text()
    assert "SIGTERM: stopped at step" in log and "Going on from step" in log
    [line] = map(json.loads, (tmp_path / "results" / "tiny.jsonl").read_text().splitlines())
    assert (line["cell"], line["seed"], line["updates"]) == ("task1/adaptive", 1, 400)
    assert line["best_at"] % 40 == 0 and line["seconds"] > 0 and line["commit"]
    assert str(tmp_path) not in json.dumps(line)
    assert set(line["valid"]) == set(line["test"]) >= {"mean_error", "ponder_time"}
    [tested] = map(json.loads, (run / "best" / "metrics.jsonl").read_text().splitlines())
    assert (tested["split"], tested["step"]) == ("test", line["best_at"])

    process = start()
    assert process.communicate(timeout=900)[0] == ""
    assert process.returncode == 0

    process = start("--steps=1,2", "--hparams=act_epsilon=0.5")
    output = process.communicate(timeout=900)[0]
    assert process.returncode == 0, output
    [line] = map(json.loads, (tmp_path / "results" / "steps.jsonl").read_text().splitlines())
    assert str(tmp_path) not in json.dumps(line)
    of_steps = line["splits"]["test"]
    assert set(of_steps) == {"1", "2"}
    assert of_steps["1"]["ponder_time"] == 1 < of_steps["2"]["ponder_time"] <= 2
