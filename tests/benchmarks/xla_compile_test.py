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
