"""Tests of the command that repeats experiments and writes one line of JSON per run."""

import json
import signal
import subprocess
import sys
import time

import pytest
from results import definitions, lines, more_steps, run, step_counts

from tests.benchmarks.conftest import ROOT
from tests.benchmarks.results import made_up
from tests.problems import babi_qa_test


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--table=babi_10k"], "babi_10k_single"),
        (["--table=scan", "--only=lenth"], "length 22"),
        (["--table=scan", "--hparams=dropout=0"], "--tried=WHY requires --hparams"),
        (["--table=scan", "--tried=why"], "--tried=WHY requires --hparams"),
        (["--table=scan", "--steps=abc"], "--steps must be numbers from 1 to 1024"),
        (["--table=scan", "--steps="], "--steps must be numbers"),
        (["--table=scan", "--steps=1," + "9" * 5000], "--steps must be numbers"),
        (["--table=scan", "--tried=why", "--steps=2"], "can only be used with --hparams"),
    ],
)
def test_run_rejects_arguments(argv, message, capsys):
    assert run.main(argv) == 2
    assert message in capsys.readouterr().err


def test_only_selects_cells(capsys):
    def listed(only):
        assert run.main(["--table=lte", f"--only={only}", "--list"]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [line.split(":")[0] for line in lines if not line.startswith(" ")]

    assert listed("") == [cell.name for cell in definitions.load("lte").cells]
    assert listed("copy,program,adaptive") == ["copy/adaptive", "program/adaptive"]
    assert listed("double/lstm") == ["double/lstm"]


def test_tried_setting_adds_its_flags(capsys):
    flags = "--flags=--moving_average_decay=0.9 --keep_checkpoint_max=1"
    words = ["--table=scan", "--only=simple/adaptive", "--tried=why", flags, "--list"]
    assert run.main(words) == 0
    listed = capsys.readouterr().out
    assert "seeds done: none" in listed
    assert "--moving_average_decay=0.9 --keep_checkpoint_max=1 --data_dir=data" in listed
    assert "--eval_early_stopping_metric=step" in listed  # the cell has this flag


def test_run_starts_nothing_after_its_time(tmp_path, capsys):
    folders = [f"--{name}_dir={tmp_path}" for name in ("runs", "data", "tmp", "results")]
    assert run.main(["--table=scan", "--hours=0", *folders]) == 0
    assert "is over. Run the same command again" in capsys.readouterr().out


def test_run_evaluates_finished_runs_of_table_with_steps(tmp_path, monkeypatch):
    [cell] = (x for x in definitions.load(more_steps.TABLE).cells if x.name == "parity/scale")
    values = {score.metric: 1.0 for score in cell.scores}
    finished = made_up.line(1, 0.5, 0.5, cell, table=more_steps.TABLE)
    finished |= {"valid": values, "test": values}
    lines.append(str(tmp_path), f"{more_steps.TABLE}.jsonl", finished)
    measured = []

    def measure(folders, table, cell, seed, numbers, hparams=""):
        measured.append(numbers)
        by_steps = {number: values for number in numbers.split(",")}
        splits = {"valid": by_steps, "test": by_steps}
        line = {"table": table.name, "cell": cell.name, "seed": seed, "recipe": cell.recipe}
        lines.append(str(tmp_path), lines.STEPS, {**line, "hparams": hparams, "splits": splits})

    monkeypatch.setattr(step_counts, "measure", measure)
    argv = [f"--table={more_steps.TABLE}", "--only=parity/scale", f"--results_dir={tmp_path}"]
    for _ in range(2):  # the second time, nothing is left to do
        assert run.main(argv) == 0
        assert measured == ["4,8,16,32,128"]


TINY = """
'''A text.'''
import dataclasses
from results import babi
from results.definitions import Table
SMALL = "hidden_size=8,filter_size=8,num_heads=1,act_max_steps=2,batch_size=100"
CELLS = babi.single("1k", {1: 400})[:1]
TABLE = Table(
    title="Tiny",
    cells=tuple(dataclasses.replace(cell, every=40, hparams=SMALL) for cell in CELLS),
    raw=babi.RAW,
)
"""
WITH_THESE_TABLES = """
import sys
sys.path.insert(0, sys.argv[1])
from results import run
run.definitions.FOLDER = sys.argv[2]
sys.exit(run.main(sys.argv[3:]))
"""


@pytest.mark.slow
def test_stopped_run_resumes_and_writes_a_line(tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "tiny.py").write_text(TINY)
    (tmp_path / "raw" / "somewhere").mkdir(parents=True)
    # The data are repeated, so that an epoch has many batches. The start of an epoch takes time.
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
    assert "Run the same command again to resume." in output
    assert not (tmp_path / "results").exists()
    [directory] = tmp_path.glob("runs/*/seed-1")
    assert not json.loads((directory / "paper.json").read_text())["trained"]

    process = start()
    output = process.communicate(timeout=900)[0]
    assert process.returncode == 0, output
    log = (directory / "log.txt").read_text()
    assert "SIGTERM: stopped at step" in log and "Resuming from step" in log
    [line] = map(json.loads, (tmp_path / "results" / "tiny.jsonl").read_text().splitlines())
    assert (line["cell"], line["seed"], line["updates"]) == ("task1/adaptive", 1, 400)
    assert [step for step, _ in line["curve"]] == list(range(40, 401, 40))
    assert line["best_at"] % 40 == 0 and line["seconds"] > 0 and line["commit"]
    assert str(tmp_path) not in json.dumps(line)
    assert set(line["valid"]) == set(line["test"]) >= {"mean_error", "ponder_time"}
    [tested] = map(json.loads, (directory / "best" / "metrics.jsonl").read_text().splitlines())
    assert (tested["split"], tested["step"]) == ("test", line["best_at"])

    process = start()
    assert process.communicate(timeout=900)[0].count(": already finished, see ") == 1
    assert process.returncode == 0

    process = start("--steps=1,2", "--hparams=act_epsilon=0.5")
    output = process.communicate(timeout=900)[0]
    assert process.returncode == 0, output
    [line] = map(json.loads, (tmp_path / "results" / "steps.jsonl").read_text().splitlines())
    assert str(tmp_path) not in json.dumps(line)
    of_steps = line["splits"]["test"]
    assert set(of_steps) == {"1", "2"}
    assert of_steps["1"]["ponder_time"] == 1 < of_steps["2"]["ponder_time"] <= 2
