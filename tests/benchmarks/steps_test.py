"""benchmarks/steps.py evaluates a run with several numbers of steps."""

import json

import pytest

from tests.bin import small_run


@pytest.fixture
def command(benchmark_module):
    return benchmark_module("steps")


@pytest.mark.slow
def test_steps_writes_metrics_by_number_of_steps(command, run, capsys):
    argv = [f"--output_dir={run}", f"--data_dir={run}", "--steps=3,1", "--eval_steps=1"]
    assert command.main(argv) == 0
    lines = (run / "steps" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["step"] for record in records] == [1, 3]
    assert len({record["loss"] for record in records}) == 2
    assert all(record["seconds"] > 0 and 0 <= record["accuracy"] <= 1 for record in records)
    assert "   3 steps  loss " in capsys.readouterr().out


def test_steps_rejects_folder_of_a_run(command, run, capsys):
    argv = [f"--output_dir={run}", f"--data_dir={run}", f"--visualize_dir={run}"]
    assert f"Received: {str(run)!r}" in small_run.error(capsys, command.main, argv)


def test_steps_keeps_file_of_another_program(command, run, tmp_path, capsys):
    (tmp_path / "metrics.jsonl").write_text("precious")
    argv = [f"--output_dir={run}", f"--data_dir={run}", f"--visualize_dir={tmp_path}"]
    assert "File of another program" in small_run.error(capsys, command.main, argv)
    assert (tmp_path / "metrics.jsonl").read_text() == "precious"


@pytest.mark.parametrize(
    ("steps", "message"),
    [("0", "--steps must be numbers from 1"), ("a,2", "--steps must be numbers from 1")],
)
def test_steps_rejects_invalid_numbers(command, capsys, steps, message):
    argv = ["--output_dir=run", "--data_dir=data", f"--steps={steps}"]
    assert message in small_run.error(capsys, command.main, argv)
