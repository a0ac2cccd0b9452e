"""benchmarks/halting_rules.py compares the CPU time of runs."""

import re

import pytest

from tests.bin import small_run


@pytest.fixture
def command(benchmark_module):
    return benchmark_module("halting_rules")


@pytest.mark.slow
def test_halting_rules_prints_shares_of_cpu_time(command, run, capsys):
    halting = f"{run}:recurrence_type=act,act_type=convergence,act_max_steps=2,act_epsilon=0.5"
    argv = [f"--data_dir={run}", "--eval_steps=1", "--rounds=1", str(run), halting]
    assert command.main(argv) == 0
    first, second = (
        line for line in capsys.readouterr().out.splitlines() if line.startswith("share ")
    )
    assert first.startswith("share 1.00 ") and first.endswith(str(run))
    assert "ponder_time" not in first
    assert 1 <= float(re.search(r"ponder_time ([\d.]+)", second)[1]) <= 2
    assert second.endswith(halting)


def test_halting_rules_rejects_a_single_run(command, capsys):
    assert "Received: ['run']" in small_run.error(capsys, command.main, ["--data_dir=data", "run"])
