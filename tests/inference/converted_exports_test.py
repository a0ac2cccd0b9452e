"""Exports raise an error if the converted model computes other outputs."""

import importlib.util
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras import export, hparams, models, parts
from ut_keras.inference import onnx_export
from ut_keras.ops import litert_file
from ut_keras.text import text_encoder

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


def _model(monkeypatch, layer, features=("inputs", "targets")):
    monkeypatch.setitem(parts.transitions._entries, "converted", lambda hp, side: layer())
    hp = hparams.get("universal_transformer_tiny", "num_rec_steps=1,ffn_layer=converted")
    keras.utils.set_random_seed(1)
    return models.get("universal_transformer", hp, vocab_sizes=dict.fromkeys(features, 13))


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


class InPython(keras.layers.Layer):
    """Calls a Python function."""

    def call(self, x):
        return tf.ensure_shape(tf.numpy_function(np.abs, [x], tf.float32), x.shape)


class HiddenVariable(keras.layers.Layer):
    """Keras does not find the variable."""

    def build(self, shape):
        self.hidden = {"scale": {1: tf.Variable(2.0)}}
        self.built = True

    def call(self, x):
        return x * self.hidden["scale"][1]


class WithTables(keras.layers.Layer):
    """Multiplies the state by numbers from two lookup tables."""

    def build(self, shape):
        numbers = tf.range(-9, 9, dtype=tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(numbers, tf.cast(numbers, tf.float32))
        self.own_tables = {"square": [tf.lookup.StaticHashTable(initializer, 0.5)]}
        self.lookup = keras.layers.IntegerLookup(vocabulary=[3, 0, 1, 2])
        self.built = True

    def call(self, x):
        x_int = tf.cast(tf.round(3.0 * x), tf.int64)
        square = self.own_tables["square"][0].lookup(x_int)
        return x * square + tf.cast(self.lookup(x_int), x.dtype)


_RUN_SAVED_MODEL = """
import sys, tensorflow as tf
ids = tf.constant([[5, 3, 7, 2, 1], [4, 6, 1, 2, 1]])
found = tf.saved_model.load(sys.argv[1]).signatures["ids"](inputs=ids)
print(found["outputs"].numpy().tolist(), found["scores"].numpy().round(3).tolist())
"""


def test_saved_model_contains_the_lookup_tables_of_layers(monkeypatch, tmp_path):
    """Another process loads the SavedModel, because this process already has the tables."""
    model = _model(monkeypatch, WithTables)
    encoders = dict.fromkeys(("inputs", "targets"), text_encoder.IntegerTextEncoder(13))
    folder = str(tmp_path / "1")
    export.export_saved_model(model, encoders, folder, beam_size=1, decode_length=1)
    command = [sys.executable, "-c", _RUN_SAVED_MODEL, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    ids = [[5, 3, 7, 2, 1], [4, 6, 1, 2, 1]]
    want = model.generate({"inputs": ids}, decode_length=1, per_example_length=True)
    scores = want.scores.numpy().round(3).tolist()
    assert done.stdout.splitlines()[-1] == f"{want.ids.numpy().tolist()} {scores}"


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (InPython, "must not call tf.py_function .* Received: the operation .*/in_python.*/PyFunc"),
        (HiddenVariable, "variable of the model must .* Received: a layer with a resource that "),
    ],
)
def test_saved_model_rejects_what_other_processes_cannot_run(monkeypatch, tmp_path, layer, message):
    """TensorFlow writes a SavedModel that calls Python functions without an error."""
    model = _model(monkeypatch, layer)
    encoders = dict.fromkeys(("inputs", "targets"), text_encoder.IntegerTextEncoder(13))
    with pytest.raises(ValueError, match=message) as caught:
        export.export_saved_model(model, encoders, str(tmp_path / "1"), 1, decode_length=1)
    assert "\n" not in str(caught.value)
    if layer is InPython:
        with pytest.raises(ValueError, match=message):
            model.export(tmp_path / "2", verbose=False)
    assert not os.listdir(tmp_path)


def test_litert_export_compares_the_steps_of_a_language_model(monkeypatch, tmp_path):
    model = _model(monkeypatch, LargeSoftplus, ["targets"])
    with pytest.raises(ValueError, match="The model for LiteRT must .* Received: other .*logits"):
        export.export_litert(model, str(tmp_path / "m.tflite"), decode_length=2)
    assert not os.listdir(tmp_path)


def test_quantized_litert_export_compares_32_bit_weights(monkeypatch, tmp_path):
    model = _model(monkeypatch, LargeSoftplus)
    path = str(tmp_path / "m.tflite")
    with pytest.raises(ValueError, match="The model for LiteRT must .* Received: other "):
        export.export_litert(model, path, source_length=4, decode_length=2, quantize="int8")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("signature", "output"),
    [("step", "logits"), pytest.param("encode", "states", marks=pytest.mark.slow)],
)
def test_litert_export_compares_every_signature(monkeypatch, tmp_path, signature, output):
    """A LiteRT file with a correct search can have a wrong `encode` or `step`."""
    real = litert_file.runner
    positions = []

    def runner(content, name):
        run = real(content, name)

        def changed(inputs):
            positions.extend(inputs.get("position", []))
            outputs = run(inputs)
            last = name == "encode" or (name == "step" and inputs["position"] == [5])
            return {**outputs, output: outputs[output] + 1.0} if last else outputs

        return changed if name == signature else run

    monkeypatch.setattr(litert_file, "runner", runner)
    model = _model(monkeypatch, keras.layers.Identity)
    with pytest.raises(ValueError, match=f"The model for LiteRT must .* Received: other {output} "):
        export.export_litert(model, str(tmp_path / "m.tflite"), source_length=4, decode_length=2)
    assert positions == ([] if signature == "encode" else [0, 1, 5, 5, 5])
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("layer", "format", "ending"),
    [
        (LargeSoftplus, "litert", "tflite"),
        pytest.param(RootOfPositives, "onnx", "onnx", marks=needs_extra),
    ],
)
@pytest.mark.filterwarnings("ignore")  # warnings of tf2onnx
def test_model_export_rejects_an_operation_that_the_converter_changes(
    monkeypatch, tmp_path, layer, format, ending
):
    model = _model(monkeypatch, layer)
    path = tmp_path / f"m.{ending}"
    path.write_text("old")
    signature = model.input_signature(batch_size=2, inputs=5, targets=4)
    with pytest.raises(ValueError, match="The model for .* must .* Received: other logits "):
        model.export(path, format=format, input_signature=signature, verbose=False)
    assert os.listdir(tmp_path) == [path.name] and path.read_text() == "old"
