"""Tests of `xla_score`: the scores of given targets with XLA, and the decision to use XLA."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras.decoding import xla_fallback, xla_score
from ut_keras.ops import compiled, devices

# Three examples of different lengths, with ids that every model of `examples` knows.
_FEATURES = {
    "inputs": np.array([[3, 4, 5, 6, 1], [5, 1, 0, 0, 0], [2, 7, 1, 0, 0]], np.int32),
    "targets": np.array([[4, 7, 1, 0], [5, 2, 3, 1], [1, 0, 0, 0]], np.int32),
}


def _features(model):
    return {name: ids for name, ids in _FEATURES.items() if name in model.specs}


@pytest.mark.parametrize("kind", ["universal", "adaptive", "language_model"])
def test_auto_on_a_gpu_gives_the_same_scores(kind, gpu, signatures):
    model = examples.make(kind)
    features = _features(model)
    expected = model.score(features, jit_compile=False)
    assert not signatures
    found = model.score(features)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # A batch of another size and other lengths does not need another shape.
    shorter = {name: np.tile(ids[:2, :3], [2, 1]) for name, ids in features.items()}
    expected = model.score(shorter, jit_compile=False)
    np.testing.assert_allclose(model.score(shorter), expected, rtol=1e-5)
    ((shapes,),) = signatures
    assert {tuple(spec.shape) for spec in shapes.values()} == {(4, 8)}


def test_auto_does_not_score_with_xla_on_a_cpu(monkeypatch, signatures):
    monkeypatch.setattr(devices, "has_gpu", lambda: False)
    model = examples.shared("universal")
    model.score(_FEATURES)
    assert not signatures and xla_score.is_used(model, True)


def test_auto_does_not_pad_where_padding_matters(gpu, signatures, caplog):
    model = examples.make("neural_gpu")
    with caplog.at_level(logging.INFO, "ut_keras"):
        expected = model.score(_FEATURES)
    assert "the scoring" in caplog.text and "convolutions" in caplog.text and not signatures
    np.testing.assert_allclose(model.score(_FEATURES, jit_compile=True), expected, rtol=1e-5)
    ((shapes,),) = signatures
    assert tuple(shapes["inputs"].shape) == (4, 5)  # only the number of examples is padded


def test_auto_scores_without_xla_and_logs_one_line(gpu, monkeypatch, caplog):
    def fails(run, input_signature, jit_compile=False):
        if jit_compile:
            raise error
        return original(run, input_signature)

    original = compiled.function
    model = examples.make("universal")
    expected = model.score(_FEATURES, jit_compile=False)
    monkeypatch.setattr(compiled, "function", fails)
    error = tf.errors.ResourceExhaustedError(None, None, "out of memory")
    np.testing.assert_array_equal(model.score(_FEATURES), expected)
    assert "[3, 4]" in caplog.text
    error = tf.errors.UnimplementedError(None, None, "no kernel for this\nand a long trace")
    caplog.clear()
    for _ in range(2):
        np.testing.assert_array_equal(model.score(_FEATURES), expected)
    (message,) = (record.getMessage() for record in caplog.records)
    assert "no kernel for this" in message and "\n" not in message
    # The search is still compiled.
    assert not xla_fallback.has_failed(model, "the search")
    with pytest.raises(tf.errors.UnimplementedError, match="no kernel"):
        model.score(_FEATURES, jit_compile=True)


def test_score_rejects_other_values_of_jit_compile():
    model = examples.shared("universal")
    with pytest.raises(ValueError, match="jit_compile must be .*Received: 'atuo'"):
        model.score(_FEATURES, jit_compile="atuo")
    with pytest.raises(ValueError, match="inside a tf.function.*Received: True"):
        tf.function(lambda: model.score(_FEATURES, jit_compile=True), autograph=False)()


@pytest.mark.slow  # XLA takes long to compile the forward pass
@pytest.mark.parametrize("kind", ["universal", "adaptive", "language_model"])
def test_compiled_scores_are_equal(kind):
    model = examples.make(kind)
    features = _features(model)
    expected = model.score(features, jit_compile=False)
    np.testing.assert_allclose(model.score(features, jit_compile=True), expected, rtol=1e-5)
