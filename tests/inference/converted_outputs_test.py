"""Exports raise an error if the converted model computes other outputs."""

import importlib.util
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras import export, hparams, models, parts
from ut_keras.inference import converted_outputs, onnx_export

MISSING = [name for name in onnx_export.PACKAGES if importlib.util.find_spec(name) is None]
needs_extra = pytest.mark.skipif(
    bool(MISSING), reason=f"no {' and '.join(MISSING)}: pip install -e '.[onnx]'"
)


class RootOfPositives(keras.layers.Layer):
    """In ONNX, the result is NaN for negative numbers."""

    def call(self, x):
        return tf.where(x > 0.0, tf.sqrt(x), 0.0)


class InverseOfRoot(keras.layers.Layer):
    """In LiteRT, `rsqrt(0)` is NaN instead of inf, so the result is NaN instead of 0."""

    def call(self, x):
        return 1.0 / tf.math.rsqrt(x * 0.0)


class LargeSoftplus(keras.layers.Layer):
    """In LiteRT, the softplus is inf, so the result is 0 instead of about 5 * x."""

    def call(self, x):
        return 500.0 * x / tf.nn.softplus(tf.abs(x) + 100.0)


def _model(monkeypatch, layer):
    monkeypatch.setitem(parts.transitions._entries, "converted", lambda hp, side: layer())
    hp = hparams.get("universal_transformer_tiny", "num_rec_steps=1,ffn_layer=converted")
    keras.utils.set_random_seed(1)
    return models.get("universal_transformer", hp, vocab_sizes={"inputs": 13, "targets": 13})


@needs_extra
def test_onnx_export_rejects_an_operation_that_the_converter_changes(monkeypatch, tmp_path):
    model = _model(monkeypatch, RootOfPositives)
    match = "The model for ONNX must .* Received: other (scores|outputs)"
    with pytest.raises(ValueError, match=match):
        export.export_onnx(model, str(tmp_path / "m.onnx"), source_length=4, decode_length=2)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (LargeSoftplus, "The model for LiteRT must .* Received: other "),
        (
            InverseOfRoot,
            "LiteRT must be able to run the model. Received: gather index out of bounds",
        ),
    ],
)
def test_litert_export_rejects_an_operation_that_the_converter_changes(
    monkeypatch, tmp_path, layer, message
):
    model = _model(monkeypatch, layer)
    with pytest.raises(ValueError, match=message):
        export.export_litert(model, str(tmp_path / "m.tflite"), source_length=4, decode_length=2)
    assert not os.listdir(tmp_path)


def test_one_equal_source_of_three_is_sufficient():
    """With almost equal probabilities, rounding errors may change an output."""
    calls = []

    def run(source):
        calls.append(source)
        return {"scores": np.float32([len(calls) < 3]), "outputs": np.int32([5])}

    def function(source):
        return {"scores": tf.constant([0.0]), "outputs": tf.constant([5])}

    converted_outputs.check("ONNX", function, run, [1, 6], 9)
    assert len(calls) == 3
    assert not np.array_equal(calls[0], calls[1])
    for source in calls:
        assert source.shape == (1, 6) and source.dtype == np.int32
        assert source[0, :3].min() >= 2 and source.max() < 9
        assert source[0, 3:].tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match="Received: other scores for random ids"):
        converted_outputs.check("ONNX", function, lambda x: {**run(x), "scores": [9.0]}, [1, 6], 9)


def test_a_neighboring_id_is_another_output():
    """A relative tolerance would accept the id 20001 instead of 20000."""

    def function(source):
        return {"outputs": tf.constant([20_000])}

    converted_outputs.check("ONNX", function, lambda x: {"outputs": np.int32([20_000])}, [1, 6], 9)
    with pytest.raises(ValueError, match="Received: other outputs for random ids"):
        converted_outputs.check(
            "ONNX", function, lambda x: {"outputs": np.int32([20_001])}, [1, 6], 9
        )


def test_a_model_with_noise_is_not_compared():
    """Its outputs differ in each call, so they differ from those of the converted model."""

    def function(source):
        return {"scores": tf.random.uniform([3])}

    converted_outputs.check("ONNX", function, lambda x: {"scores": np.zeros(3)}, [1, 6], 9)


def test_products_of_the_model_are_exact_in_the_comparison():
    """By default, a GPU computes products with TensorFloat-32, whose error is about 1e-3."""
    used = []

    def function(source):
        used.append(tf.config.experimental.tensor_float_32_execution_enabled())
        return {"scores": tf.constant([0.0])}

    before = tf.config.experimental.tensor_float_32_execution_enabled()
    assert before
    converted_outputs.check("ONNX", function, lambda x: {"scores": np.zeros(1)}, [1, 6], 9)
    assert used == [False]
    with pytest.raises(ValueError, match="other scores"):
        converted_outputs.check("ONNX", function, lambda x: {"scores": np.ones(1)}, [1, 6], 9)
    assert tf.config.experimental.tensor_float_32_execution_enabled() == before
