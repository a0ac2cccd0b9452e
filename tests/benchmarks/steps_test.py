"""benchmarks/steps.py: a run at several numbers of steps."""

import importlib.util
import json
import os

import pytest

import problems
from tests.bin import decoder_problems, small_run  # noqa: F401  registers
from ut_keras import visualize

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


@pytest.fixture(scope="module")
def command():
    path = f"{ROOT}/benchmarks/steps.py"
    spec = importlib.util.spec_from_file_location("steps_command", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    name = "decoder_test_digits"
    problems.get(name).generate_data(str(folder), str(folder))
    settings = {"num_rec_steps": 2, "step_timing_signal_type": "sinusoid", "batch_size": 64}
    small_run.write(folder, folder, problem=name, model="universal_transformer", **settings)
    return folder


@pytest.mark.slow
def test_metrics_by_steps(command, run, capsys):
    argv = [f"--output_dir={run}", f"--data_dir={run}", "--steps=3,1", "--eval_steps=1"]
    assert command.main(argv) == 0
    lines = (run / "steps" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["step"] for record in records] == [1, 3]
    assert len({record["loss"] for record in records}) == 2
    assert all(record["seconds"] > 0 and 0 <= record["accuracy"] <= 1 for record in records)
    assert "   3 steps  loss " in capsys.readouterr().out
    assert (run / "steps" / "curves.png").exists() == visualize.has_matplotlib()


@pytest.mark.parametrize(
    ("steps", "message"),
    [("0", "--steps must be numbers from 1"), ("a,2", "--steps must be numbers from 1")],
)
def test_refuses(command, capsys, steps, message):
    argv = ["--output_dir=run", "--data_dir=data", f"--steps={steps}"]
    assert message in small_run.error(capsys, command.main, argv)
