import types

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


def test_seeds_of_replicas_differ_from_the_seeds_of_other_layers(mode, monkeypatch):
    def seeds_of(number):
        replica = types.SimpleNamespace(num_replicas_in_sync=64, replica_id_in_sync_group=number)
        monkeypatch.setattr(tf.distribute, "get_replica_context", lambda: replica)
        cpu, gpu, _ = _both_forms(run, mode, monkeypatch)
        np.testing.assert_array_equal(cpu, gpu)
        return [tuple(pair) for pair in cpu.tolist()]

    def run():
        made = []
        for number in range(1, 5):
            generator.state.assign([number, 0])
            made.append(seed.per_replica(generator))
        return tf.stack(made)

    generator = keras.random.SeedGenerator(seed=1)
    assert seeds_of(0) == [(1, 0), (2, 0), (3, 0), (4, 0)]
    found = [pair for number in (0, 1, 2, 63) for pair in seeds_of(number)]
    assert len({*found}) == len(found)


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


def test_dropout_for_gpus_has_few_operations(monkeypatch):
    layer = dropout.Dropout(0.5, seed=3)

    def gradients():
        x = tf.ones([5, 4, 4])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
        return y, tape.gradient(y, x)

    _, _, operations = _both_forms(gradients, "graph", monkeypatch)
    # On a GPU, each of these operations starts a kernel, except the operations on shapes.
    kernels = [name for name in operations if name not in _WITHOUT_KERNEL]
    assert sorted(kernels) == sorted(
        [
            *("AddV2", "LeftShift", "RightShift"),  # the state and the seed
            *("StatelessRandomUniformFullIntV2", "Mul"),  # the key and the counter
            *("StatelessRandomUniformFullIntV2", "GreaterEqual", "SelectV2"),  # the factors
            # Forward pass, gradient, and the gradient of the mask, which TensorFlow removes later.
            *("Mul", "Mul", "Mul"),
        ]
    )


# On a GPU, these operations only change the view of a tensor, or are constants.
_WITHOUT_KERNEL = (
    *("Const", "Placeholder", "Identity", "NoOp", "Fill", "ReadVariableOp", "AssignVariableOp"),
    *("Bitcast", "Reshape", "StridedSlice"),
)


def _masks_under_xla(layers, shape):
    """Return the masks of two calls of each layer in one function that XLA compiles."""

    @tf.function(jit_compile=True, autograph=False)
    def run():
        return [layer(tf.ones(shape), training=True) for layer in layers for _ in range(2)]

    return run, [mask.numpy() > 0 for mask in run()]


def test_masks_under_xla_are_independent_and_repeatable():
    layers = [dropout.Dropout(0.3, seed=number) for number in (1, 2, 2**31 - 1)]
    run, masks = _masks_under_xla(layers, [500, 40])
    masks += [mask.numpy() > 0 for mask in run()]
    kept = np.array(masks).reshape(len(masks), -1)
    np.testing.assert_allclose(kept.mean(axis=1), 0.7, atol=4 * np.sqrt(0.7 * 0.3 / 20_000))
    correlation = np.corrcoef(kept) - np.eye(len(kept))
    assert abs(correlation).max() < 4.5 / np.sqrt(20_000)
    neighbors = [np.corrcoef(row[:-lag], row[lag:])[0, 1] for row in kept for lag in (1, 2, 4, 8)]
    assert abs(np.array(neighbors)).max() < 4.5 / np.sqrt(20_000)
    for layer in layers:
        layer.seed_generator.state.assign([layer.seed, 0])
    for again, mask in zip(run(), masks, strict=False):
        np.testing.assert_array_equal(again.numpy() > 0, mask)


def test_program_of_xla_stores_no_random_numbers():
    instructions = []
    for count in (1, 3):
        layers = [dropout.Dropout(0.3, seed=number) for number in range(count)]
        run, _ = _masks_under_xla(layers, [8, 8])
        program = run.experimental_get_compiler_ir()(stage="hlo")
        instructions.append(program.count(" = "))
        assert "rng-bit-generator(" not in program and "u64[" not in program
    # The key of TensorFlow's own generator would be 267 instructions.
    assert (instructions[1] - instructions[0]) / 4 < 90


def test_hashed_indices_of_similar_seeds_are_independent():
    """The correlations between masks are as small as between independent random numbers.

    Some seeds are those of consecutive calls. Others have one number in common.
    """
    size, rate = 2**18, 0.1
    seeds = [(a, b) for a in (0, 1, 7) for b in range(8)] + [(5, 5), (-1, 2**31 - 1)]
    sample = tf.function(
        lambda values: tf.map_fn(
            lambda value: seed.hashed_indices([size], value), values, fn_output_signature=tf.uint32
        )
    )
    numbers = sample(tf.constant(seeds, tf.int32)).numpy()
    masks = (numbers < rate * 2**32).astype(np.float32)
    values = (masks - rate) / np.sqrt(rate * (1 - rate))  # mean 0 and variance 1
    np.testing.assert_allclose(values.mean(axis=1), 0, atol=5 / np.sqrt(size))
    between = (values @ values.T / size)[np.triu_indices(len(seeds), 1)]
    lags = [*range(1, 65), 128, 512, 1024]
    within = [np.mean(values[:, :-lag] * values[:, lag:], axis=1) for lag in lags]
    for correlations in (between, np.ravel(within)):
        np.testing.assert_allclose(correlations, 0, atol=5.5 / np.sqrt(size))
        assert correlations.std() < 1.1 / np.sqrt(size)
