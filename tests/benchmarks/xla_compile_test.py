"""benchmarks/xla_compile.py counts the instructions of XLA's program of an update."""

import pytest
import tensorflow as tf


@pytest.fixture
def command(benchmark_module):
    return benchmark_module("xla_compile")


def test_counted_counts_instructions_by_type(command):
    compiled = tf.function(lambda x: tf.sin(tf.sin(x)) + x, jit_compile=True, autograph=False)
    program = compiled.experimental_get_compiler_ir(tf.ones([3]))("hlo")
    counts = command.counted(program)
    assert (counts["sine"], counts["add"], counts["parameter"]) == (2, 1, 1)


@pytest.mark.slow  # XLA compiles an update
def test_update_is_measured(command):
    result = command.measure("universal_transformer", "float32", hidden_size=8, steps=2)
    assert 1000 < result["instructions"] < 20_000 and result["optimized"] > 0
    assert result["seconds"] > 0
    lines = command.table("tiny", {"now": [result, result], "before": [result]})
    assert len(lines) == 4 and f"{result['instructions']:,}" in lines[2]


def test_instructions_are_counted_without_compilation(command):
    model = "universal_transformer"
    result = command.measure(model, "float32", compiles=False, hidden_size=8, steps=2)
    assert list(result) == ["instructions"] and 1000 < result["instructions"] < 20_000
    assert len(command.table("tiny", {"now": [result]})) == 3


def test_rounds_are_checked(command, capsys):
    with pytest.raises(SystemExit):
        command.main(["--rounds=1"])
    assert "Received: 1." in capsys.readouterr().err


def test_keep_is_checked(command, capsys):
    with pytest.raises(SystemExit):
        command.main(["--keep", "--count"])
    assert "--keep must be given without --count" in capsys.readouterr().err


def test_loaded_programs_have_their_own_line(command):
    result = {"instructions": 5, "optimized": 4, "seconds": 3.0}
    loaded = [result | {"seconds": seconds} for seconds in (1.0, 2.0)]
    lines = command.table("tiny", {"compiles": [result], "loads": loaded})
    assert lines[2].split() == ["compiles", "5", "4", "3.0"]
    assert lines[3].split() == ["loads", "5", "4", "1.5"]
