"""benchmarks/operations.py counts the operations of an update."""

import pytest
import tensorflow as tf

from ut_keras.ops import devices


@pytest.fixture
def command(benchmark_module):
    return benchmark_module("operations")


def test_counted_separates_loops(command):
    @tf.function(autograph=False)
    def run(x):
        x = tf.while_loop(lambda x: x < 9.0, lambda x: (tf.sin(tf.sin(x)),), [tf.cos(x)])[0]
        return tf.cond(x < 1.0, lambda: tf.tan(x), lambda: x)

    graph = run.get_concrete_function(tf.TensorSpec([])).graph.as_graph_def()
    counts = command.counted(graph)
    assert counts["once"]["Cos"] == counts["once"]["Tan"] == 1
    assert counts["loop"]["Sin"] == 2 and "Sin" not in counts["once"]


@pytest.mark.slow  # TensorFlow traces the update twice
def test_update_for_gpus_has_no_slow_operations(command, monkeypatch):
    monkeypatch.setattr(devices, "has_gpu", lambda: False)
    size = {"hidden": 8, "filter": 16, "heads": 2, "vocab": 12, "batch": 2, "length": 40}
    found = {
        form: command.operations("universal_transformer", size, "bfloat16", form)
        for form in ("cpu", "gpu")
    }
    for name in ("StatelessRandomGetKeyCounter", "ArgMax", "BiasAddGrad"):
        numbers = {
            form: sum(part.get(name, 0) for part in counts.values())
            for form, counts in found.items()
        }
        assert numbers["gpu"] == 0, name
        # In bfloat16, no device uses TensorFlow's gradient of a bias (`ops/bias.py`).
        assert (numbers["cpu"] > 0) == (name != "BiasAddGrad"), name
    assert found["cpu"]["loop"]["MatMul"] > found["cpu"]["once"]["MatMul"]
    lines = command.table("tiny", {"now": found["gpu"], "before": found["cpu"]})
    assert len(lines) == 3 + len(command.SHOWN)
    assert len(command.table("tiny", {"now": found["cpu"]}, all_types=True)) > 30


def test_sizes_are_checked(command, capsys):
    with pytest.raises(SystemExit):
        command.main(["--sizes=a,z"])
    assert "--sizes must be some of a, b. Received: 'z'." in capsys.readouterr().err
