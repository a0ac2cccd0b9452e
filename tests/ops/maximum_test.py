import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import metrics
from ut_keras.metrics import losses
from ut_keras.ops import devices, litert, maximum


def _logits(kind):
    """Return logits of the given kind, float32 [4, 9, 6]."""
    rng = np.random.default_rng(0)
    if kind == "random":
        return rng.normal(size=(4, 9, 6)).astype("float32")
    if kind == "ties":
        return rng.integers(0, 2, (4, 9, 6)).astype("float32")
    if kind == "rounded":  # In bfloat16, these values have many ties.
        return tf.cast(tf.cast(1 + 0.02 * rng.random((4, 9, 6)), tf.bfloat16), tf.float32).numpy()
    return np.full((4, 9, 6), {"equal": 3.0, "infinite": -np.inf}[kind], "float32")


@pytest.mark.parametrize("mode", ["eager", "open", "xla"])
@pytest.mark.parametrize("kind", ["random", "ties", "rounded", "equal", "infinite"])
def test_form_for_gpus_equals_argmax(kind, mode, monkeypatch):
    logits = _logits(kind)
    ids = np.array([[*range(6), -1, 6, 100]] * 4, "int32")
    expected = logits.argmax(axis=-1) == ids
    if kind != "random":
        assert ((logits == logits.max(-1, keepdims=True)).sum(-1) > 1).any()
    for has_gpu in (False, True):
        monkeypatch.setattr(devices, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        found = {
            "eager": maximum.is_argmax,
            "open": tf.function(
                maximum.is_argmax,
                [tf.TensorSpec([None, None, None]), tf.TensorSpec([None, None], tf.int32)],
                autograph=False,
            ),
            "xla": tf.function(maximum.is_argmax, jit_compile=True, autograph=False),
        }[mode](tf.constant(logits), tf.constant(ids))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["accuracy", "accuracy_per_sequence"])
def test_accuracies_are_equal_in_both_forms(name, monkeypatch):
    rng = np.random.default_rng(1)
    logits = tf.constant(rng.integers(0, 3, (50, 2, 3)).astype("float32"))
    targets = tf.constant(rng.integers(0, 3, (50, 2)), tf.int32)
    classes = tf.constant(rng.integers(0, 3, (5, 3)).astype("float32"))
    labels = tf.constant(rng.integers(0, 3, (5, 1)), tf.int32)
    found = []
    for has_gpu in (False, True):
        monkeypatch.setattr(devices, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        function = metrics.get(name)
        found.append([*function(logits, targets), *function(classes, labels)])
        graph = tf.function(function).get_concrete_function(logits, targets).graph
        assert ("ArgMax" in {op.type for op in graph.get_operations()}) != has_gpu
    np.testing.assert_array_equal(*found)
    assert 0 < float(found[0][0]) < float(found[0][1])


def _results_and_operations(function, args, monkeypatch):
    """Return the results of both forms, CPU first, and the types of operations of both graphs."""
    results, types = [], []
    for has_gpu in (False, True):
        monkeypatch.setattr(devices, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        traced = tf.function(lambda *args: function(*args), autograph=False)
        results.append(tf.nest.map_structure(np.asarray, traced(*args)))
        graph = traced.get_concrete_function(*args).graph.as_graph_def()
        nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
        types.append({node.op for node in nodes})
    return results, types


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("kind", ["random", "ties", "rounded", "equal", "infinite"])
def test_argmax_for_gpus_is_the_first_largest_index(kind, dtype, monkeypatch):
    logits = tf.cast(_logits(kind), dtype)
    for output_type in (tf.int32, tf.int64):
        run = lambda x, output_type=output_type: maximum.argmax(x, output_type)  # noqa: E731
        (cpu, gpu), types = _results_and_operations(run, [logits], monkeypatch)
        expected = tf.cast(logits, tf.float32).numpy().argmax(axis=-1)
        np.testing.assert_array_equal(cpu, expected)
        np.testing.assert_array_equal(gpu, expected)
        assert gpu.dtype == output_type and ["ArgMax" in found for found in types] == [True, False]


def test_argmax_of_nan_is_an_index(monkeypatch):
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    assert 0 <= int(maximum.argmax(tf.fill([4], float("nan")))) < 4


def test_argmax_keeps_the_operation_where_the_other_form_does_not_apply(monkeypatch):
    monkeypatch.setattr(devices, "has_gpu", lambda: True)

    def types(spec):
        function = tf.function(lambda x: maximum.argmax(x), [spec], autograph=False)
        return {op.type for op in function.get_concrete_function().graph.get_operations()}

    assert "ArgMax" in types(tf.TensorSpec([2, None]))
    assert "ArgMax" in types(tf.TensorSpec([1, 2**24 + 1]))
    assert "ArgMax" not in types(tf.TensorSpec([None, 2**24]))
    with litert.tracing():
        assert "ArgMax" in types(tf.TensorSpec([None, 5]))


@pytest.mark.parametrize("name", ["edit_distance", "approx_bleu_score", "rouge_2_fscore"])
def test_metrics_of_predictions_are_equal_in_both_forms(name, monkeypatch):
    rng = np.random.default_rng(1)
    logits = tf.constant(rng.integers(0, 3, (6, 9, 4)).astype("float32"))
    targets = tf.constant(rng.integers(1, 4, (6, 9)), tf.int32)
    found, types = _results_and_operations(metrics.get(name), [logits, targets], monkeypatch)
    np.testing.assert_array_equal(*found)
    assert ["ArgMax" in of_form for of_form in types] == [True, False]


def test_confidence_term_is_equal_in_both_forms(monkeypatch):
    rng = np.random.default_rng(1)
    logits = tf.constant(rng.integers(0, 3, (6, 4, 5)).astype("float32"))  # 3 steps of 2 examples
    confidence = tf.constant(rng.normal(size=(3, 2, 4)), tf.float32)
    probabilities = tf.fill([3, 2, 4], 1 / 3)
    targets = tf.constant(rng.integers(1, 5, (2, 4)), tf.int32)

    def run(*args):
        return losses.confidence_term(*args, targets, class_labels=False).numerator

    args = [confidence, logits, probabilities]
    found, types = _results_and_operations(run, args, monkeypatch)
    np.testing.assert_array_equal(*found)
    assert ["ArgMax" in of_form for of_form in types] == [True, False]


@pytest.mark.parametrize("options", [{}, {"temperature": 0.8, "seed": 3}])
def test_decoding_is_equal_in_both_forms(options, monkeypatch):
    inputs = tf.constant(examples.features("universal")["inputs"])
    found, has_argmax = [], []
    for has_gpu in (False, True):
        monkeypatch.setattr(devices, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        model = examples.make("universal")  # a model traces its search only once
        rng = np.random.default_rng(4)
        for weight in model.trainable_variables:  # large weights give outputs that differ
            if len(weight.shape) > 1:
                weight.assign(rng.normal(size=weight.shape))
        search = functools.partial(model.generate, decode_length=4, **options)
        decode = tf.function(search, autograph=False)
        found.append(decode({"inputs": inputs}).ids.numpy())
        graph = decode.get_concrete_function({"inputs": inputs}).graph.as_graph_def()
        nodes = [node.op for function in graph.library.function for node in function.node_def]
        has_argmax.append("ArgMax" in nodes)
    np.testing.assert_array_equal(*found)
    assert has_argmax == [True, False]
    assert len(np.unique(found[0][:, 0], axis=0)) > 1
