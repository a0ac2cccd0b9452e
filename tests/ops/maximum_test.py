import numpy as np
import pytest
import tensorflow as tf

from ut_keras import metrics
from ut_keras.ops import devices, maximum


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
