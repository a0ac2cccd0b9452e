import importlib.util
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras.layers.basic import dense
from ut_keras.ops import litert_file, private_api

FEATURES = {"inputs": examples.INPUTS, "targets": examples.TARGETS}


_PONDER_NET = "act_type=ponder_net,act_epsilon=0.5,act_halted_state=copy"
_Q_HALT = "recurrence_type=act,act_type=q_halt,act_epsilon=0.5,act_halted_state=copy"


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("adaptive", ""),
        pytest.param("encoder", "", marks=pytest.mark.slow),
        pytest.param("adaptive", _PONDER_NET, marks=pytest.mark.slow),
        ("tagger", _Q_HALT),
    ],
)
def test_export_saved_model_of_any_shape(kind, how, tmp_path):
    model = examples.make(kind, how) if how else examples.shared(kind)
    features = examples.features(kind)
    model.export(tmp_path / "exported", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "exported")
    for rows in (slice(None), slice(1, 2)):
        some = {name: features[name][rows] for name in model.input_features}
        want = model(some, training=False)
        np.testing.assert_allclose(loaded.serve(some), want, atol=1e-5)


@pytest.mark.slow  # tests/inference/litert_export_test.py covers steps in the default run
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_export_litert_of_fixed_shapes(tmp_path):
    model = examples.shared("adaptive")
    path = tmp_path / "model.tflite"
    signature = model.input_signature(batch_size=3, inputs=5, targets=4)
    model.export(path, format="litert", input_signature=signature, verbose=False)
    run = tf.lite.Interpreter(str(path)).get_signature_runner()
    (logits,) = run(**FEATURES).values()
    np.testing.assert_allclose(logits, model(FEATURES, training=False), atol=1e-5)


def test_export_litert_of_attention_with_large_logits(tmp_path):
    """LiteRT's conversion of `tf.math.log_sigmoid` returns -inf for large negative numbers."""
    model = examples.make("tagger", "self_attention_type=geometric")
    for variable in model.trainable_variables:
        if variable.path.endswith(("/q/kernel", "/k/kernel")):
            variable.assign(variable * 40)
    path = tmp_path / "model.tflite"
    signature = [{"inputs": keras.InputSpec(shape=(3, 5), dtype="int32")}]
    model.export(path, format="litert", input_signature=signature, verbose=False)
    run = litert_file.runner(path.read_bytes())
    (logits,) = run({"inputs": examples.INPUTS}).values()
    expected = model({"inputs": examples.INPUTS}, training=False)
    np.testing.assert_allclose(logits, expected, atol=1e-4)


@pytest.mark.slow
def test_export_litert_warns_if_the_file_needs_tensorflow(tmp_path, caplog):
    """TensorFlow's interpreter cannot run the file, so its outputs cannot be compared."""
    model = examples.make("language_model")
    path = tmp_path / "model.tflite"
    signature = model.input_signature()
    model.export(path, format="litert", input_signature=signature, verbose=False)
    assert path.exists() and "LiteRT file were not compared" in caplog.text


def test_loading_an_exported_saved_model_registers_no_gradients(tmp_path):
    """TensorFlow never removes the custom gradients of a loaded SavedModel from its registry."""
    examples.shared("encoder").export(tmp_path / "exported", verbose=False)
    before = set(private_api.gradient_registry())
    loaded = tf.saved_model.load(tmp_path / "exported")
    assert loaded.serve({"inputs": examples.INPUTS}).shape[0] == examples.B
    assert set(private_api.gradient_registry()) <= before


@pytest.mark.parametrize("is_remote", [False, True])
def test_failed_export_keeps_an_older_saved_model(is_remote, tmp_path, monkeypatch, capsys):
    model = examples.make("language_model")
    path = "ram://kept/exported" if is_remote else str(tmp_path / "exported")
    model.export(path)
    assert capsys.readouterr().out == f"Saved artifact at '{path}'.\n"
    with tf.io.gfile.GFile(f"{path}/notes.txt", "w") as file:
        file.write("of the user")
    features = {"targets": examples.TARGETS}
    expected = model(features, training=False)
    forward = model.forward

    def calls_python(*args, **kwargs):
        output = forward(*args, **kwargs)
        same = tf.numpy_function(lambda x: x, [output.logits], tf.float32)
        return output._replace(logits=tf.ensure_shape(same, output.logits.shape))

    monkeypatch.setattr(model, "forward", calls_python)
    with pytest.raises(ValueError, match="must not call tf.py_function"):
        model.export(path, verbose=False)
    loaded = tf.saved_model.load(path)
    np.testing.assert_allclose(loaded.serve(features), expected, atol=1e-5)

    monkeypatch.setattr(model, "forward", forward)
    for variable in model.trainable_variables:
        variable.assign(variable * 1.5)
    model.export(path, verbose=False)
    expected = model(features, training=False)
    loaded = tf.saved_model.load(path)
    np.testing.assert_allclose(loaded.serve(features), expected, atol=1e-5)
    names = ["assets", "fingerprint.pb", "notes.txt", "saved_model.pb", "variables"]
    assert sorted(name.strip("/") for name in tf.io.gfile.listdir(path)) == names


def test_export_rejects_a_file_as_the_folder_of_a_saved_model(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ValueError, match="^filepath must be a folder. Received: .*file"):
        examples.shared("encoder").export(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"


needs_onnx = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("tf2onnx", "onnxruntime"))),
    reason="no tf2onnx and onnxruntime: pip install -e '.[onnx]'",
)


@needs_onnx
@pytest.mark.filterwarnings("ignore")  # warnings of tf2onnx
def test_export_onnx_rejects_lengths_that_are_not_fixed(tmp_path):
    """Without a fixed length, onnxruntime can run the file only for some batch sizes."""
    model = examples.make("language_model")
    signature = model.input_signature()
    match = "onnxruntime must be able to run .* Received: .*Reshape.* Pass fixed shapes: "
    with pytest.raises(ValueError, match=match) as caught:
        model.export(tmp_path / "m.onnx", format="onnx", input_signature=signature, verbose=False)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


@needs_onnx
@pytest.mark.filterwarnings("ignore")  # warnings of tf2onnx
def test_export_onnx_of_a_signature_without_names(tmp_path, capsys):
    import onnxruntime

    model = examples.make("language_model")
    signature = {"targets": tf.TensorSpec([None, 4], tf.int64)}
    model.export(tmp_path / "m.onnx", format="onnx", input_signature=signature)
    assert capsys.readouterr().out == f"Saved artifact at '{tmp_path}/m.onnx'.\n"
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (logits,) = session.run(None, {"targets": examples.TARGETS.astype("int64")})
    expected = model({"targets": examples.TARGETS}, training=False)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@needs_onnx
@pytest.mark.filterwarnings("ignore")  # warnings of tf2onnx
def test_export_onnx_removes_a_file_that_cannot_run(tmp_path):
    """tf2onnx writes operations in bfloat16 that ONNX does not have, and raises no error."""
    model = examples.make("classifier", "activation_dtype=bfloat16")
    signature = model.input_signature(batch_size=1, inputs=5)
    with pytest.raises(ValueError, match="^ONNX must support all operations.*bfloat16"):
        model.export(tmp_path / "m.onnx", format="onnx", input_signature=signature, verbose=False)
    assert not list(tmp_path.iterdir())


def test_export_expands_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def export(model, path, **options):
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "saved_model.pb"), "wb"):
            pass

    monkeypatch.setattr(keras.Model, "export", export)
    examples.shared("adaptive").export("~/1")
    assert os.listdir(tmp_path) == ["1"]


def test_export_input_signature():
    (signature,) = examples.shared("stories").input_signature(batch_size=2, targets=4)
    shapes = {name: spec.shape for name, spec in signature.items()}
    assert shapes == {"inputs": (2, None, 3), "targets": (2, 4)}
    (signature,) = examples.shared("classifier").input_signature(inputs=7)
    shapes = {name: spec.shape for name, spec in signature.items()}
    assert shapes == {"inputs": (None, 7), "targets": (None, 1)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.export("m.onnx", format="onnx"), "needs fixed shapes.*targets=32"),
        (lambda model: model.input_signature(source=3), "'inputs', 'targets'.*source"),
        (lambda model: model.quantize("int8"), "^quantize .*'int8'"),
        (
            lambda model: model.export("m.onnx", format="onnx", input_signature=[[1], [2]]),
            r"input_signature must be .* inputs, targets. Received: \[\[1\], \[2\]\]",
        ),
        (
            lambda model: model.export("m", input_signature=[{"inputs": np.ones([1, 2])}]),
            "input_signature must be .* inputs, targets. Received: .*inputs",
        ),
    ],
)
def test_export_rejects_arguments(call, message):
    with pytest.raises((ValueError, NotImplementedError), match=message):
        call(examples.shared("adaptive"))


def test_dtype_policy_of_a_model_cannot_be_changed():
    """The layers would keep their own policies, and so would a clone of the model."""
    model = examples.make("classifier")
    with pytest.raises(ValueError, match=r"dtype_policy cannot .*Received: 'mixed_bfloat16'\. "):
        model.dtype_policy = "mixed_bfloat16"
    model.dtype_policy = model.dtype_policy
    assert model.compute_dtype == model.encoder.compute_dtype == "float32"


def test_dtype_policy_of_a_layer_with_sublayers_cannot_be_changed():
    """The sublayers would keep their own policies."""
    model = examples.make("classifier")
    with pytest.raises(ValueError, match=r"sublayers .* Received: 'mixed_bfloat16' for encoder"):
        model.encoder.dtype_policy = "mixed_bfloat16"
    model.encoder.dtype_policy = model.encoder.dtype_policy
    assert model.encoder.compute_dtype == "float32"
    single = dense.Dense(3)
    single.dtype_policy = "mixed_bfloat16"
    assert single(np.ones([1, 2])).dtype == "bfloat16"


@pytest.fixture
def _policy():
    before = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.usefixtures("_policy")
def test_models_use_global_dtype_policy(tmp_path):
    plain = examples.make("adaptive")
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = examples.make("adaptive")
    assert model.hparams.activation_dtype == "bfloat16"
    assert {v.dtype for v in model.trainable_variables} == {"float32"}
    assert model.encoder.compute_dtype == "bfloat16"
    # A loaded model has the dtype policy of its file, even if the global policy differs.
    for made, expected in ((plain, "float32"), (model, "bfloat16")):
        made.save(tmp_path / "model.keras")
        for policy in ("float32", "mixed_bfloat16"):
            keras.config.set_dtype_policy(policy)
            loaded = keras.models.load_model(tmp_path / "model.keras")
            assert loaded.encoder.compute_dtype == expected


@pytest.mark.usefixtures("_policy")
@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_models_reject_global_dtype_policy(kind):
    keras.config.set_dtype_policy("mixed_float16")
    with pytest.raises(ValueError, match="float32 or mixed_bfloat16.* Received: mixed_float16"):
        examples.make(kind)


class SeveralOutputs(type(examples.shared("universal"))):  # type: ignore[misc]
    """A user's model with three outputs."""

    convert = staticmethod(lambda outputs: outputs)

    def call(self, features, training=None, num_steps=None):
        logits = super().call(features, training, num_steps)
        return self.convert((logits, tf.nn.softmax(logits), 2.0 * logits))


def _with_outputs(convert):
    model = examples.shared("universal")
    kind = type("Users", (SeveralOutputs,), {"convert": staticmethod(convert)})
    return kind(model.hparams, model.specs)


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.filterwarnings("ignore:.*np.object")
@pytest.mark.parametrize("format", ["litert", pytest.param("onnx", marks=needs_onnx)])
@pytest.mark.parametrize("names", [None, ("b", "a", "c")])
def test_export_compares_several_outputs(format, names, tmp_path, monkeypatch):
    def named(outputs):
        return dict(zip(names, outputs, strict=True)) if names else outputs

    def changed(outputs):
        return named(outputs if tf.executing_eagerly() else [x + 1.0 for x in outputs])

    model = _with_outputs(named)
    path = str(tmp_path / "model")
    path += ".tflite" if format == "litert" else ".onnx"
    signature = model.input_signature(batch_size=3, inputs=5, targets=4)
    model.export(path, format=format, input_signature=signature, verbose=False)
    assert os.path.exists(path)

    model = _with_outputs(changed)
    with pytest.raises(ValueError, match="other output 0 and output 1 and output 2 for random"):
        model.export(path, format=format, input_signature=signature, verbose=False)


@pytest.mark.parametrize("format", ["litert", "onnx", "tf_saved_model"])
def test_export_rejects_nested_outputs(format, tmp_path):
    model = _with_outputs(lambda outputs: {"all": list(outputs)})
    signature = model.input_signature(batch_size=3, inputs=5, targets=4)
    with pytest.raises(ValueError, match=r"^call of Users .*Received: a dict that contains a list"):
        model.export(tmp_path / "m.onnx", format=format, input_signature=signature, verbose=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [tf.string, tf.float32])
def test_export_of_own_call_reads_other_features(dtype, tmp_path):
    """Only the caller knows which values a `call` of the user's class accepts."""
    model = examples.make("universal")

    class Reading(type(model)):
        def call(self, features, training=None, num_steps=None):
            given = features["inputs"]
            ids = tf.strings.to_number(given, tf.int32) if dtype == tf.string else given * 13.0
            features = {**features, "inputs": tf.cast(ids, tf.int32)}
            return super().call(features, training, num_steps)

    reading = Reading(model.hparams, model.specs)
    specs = {"inputs": tf.TensorSpec([None, None], dtype)}
    specs["targets"] = tf.TensorSpec([None, None], tf.int32)
    reading.export(tmp_path / "model", input_signature=[specs], verbose=False)
    features = examples.features("universal")
    if dtype == tf.string:
        features["inputs"] = features["inputs"].astype(str)
    else:
        features["inputs"] = np.float32(features["inputs"] + 0.5) / 13
    features = {name: tf.constant(values) for name, values in features.items()}
    loaded = tf.saved_model.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.serve(features), reading(features), atol=1e-6)
