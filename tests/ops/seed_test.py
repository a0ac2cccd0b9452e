import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras.layers.basic import dropout
from ut_keras.ops import devices, seed


@pytest.fixture(params=["eager", "graph"])
def mode(request):
    return request.param


def _both_forms(run, mode, monkeypatch):
    """Return (result of the form for CPUs, result of the form for GPUs, operations for GPUs)."""
    results = []
    for has_gpu in (False, True):
        monkeypatch.setattr(devices, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        traced = tf.function(run, autograph=False)
        results.append(tf.nest.map_structure(np.asarray, run() if mode == "eager" else traced()))
    graph = traced.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    return *results, [node.op for node in nodes]


@pytest.mark.parametrize("values", [[0, 0], [3, 1], [-5, 2**31 - 1], [123456789, -1]])
def test_random_int64_is_that_of_tensorflow(values, mode, monkeypatch):
    made = tf.constant(values, tf.int32)
    expected = tf.random.stateless_uniform([7], made, None, None, tf.int64).numpy()
    assert len({*expected}) == 7
    for dtype in (tf.int32, tf.int64):
        run = lambda dtype=dtype: seed.random_int64([7], tf.cast(made, dtype))  # noqa: E731
        cpu, gpu, operations = _both_forms(run, mode, monkeypatch)
        np.testing.assert_array_equal(cpu, expected)
        np.testing.assert_array_equal(gpu, expected)
        assert "StatelessRandomGetKeyCounter" not in operations


@pytest.mark.parametrize("start", [1, 2**31 + 5, 2**40 + 2**31 + 7])
def test_seeds_for_gpus_are_equal(start, mode, monkeypatch):
    generator = keras.random.SeedGenerator(seed=1)

    def run():
        generator.state.assign([start, start + 3])
        return [seed.per_replica(generator) for _ in range(3)]

    cpu, gpu, _ = _both_forms(run, mode, monkeypatch)
    assert cpu[0].dtype == np.int32 and gpu[0].dtype == np.int64
    np.testing.assert_array_equal(cpu, gpu)
    assert cpu[0].tolist() == np.array([start, start + 3]).astype("int32").tolist()


def test_dropout_in_loop_has_equal_masks(mode, monkeypatch):
    layer = dropout.Dropout(0.5, broadcast_dims=(1,), seed=3)

    def run():
        layer.seed_generator.state.assign([3, 0])
        return tf.while_loop(
            lambda i, _: i < 3,
            lambda i, x: (i + 1, layer(x, training=True) + 1),
            [0, tf.ones([5, 4, 3])],
        )[1]

    cpu, gpu, operations = _both_forms(run, mode, monkeypatch)
    np.testing.assert_array_equal(cpu, gpu)
    assert len(np.unique(cpu)) > 3
    assert "StatelessRandomGetKeyCounter" not in operations
