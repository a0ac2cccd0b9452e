import importlib.util

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras.layers.basic import dense

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


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("tf2onnx", "onnxruntime"))),
    reason="no tf2onnx and onnxruntime: pip install -e '.[onnx]'",
)
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
    written = []
    monkeypatch.setattr(keras.Model, "export", lambda _, path, **options: written.append(path))
    examples.shared("adaptive").export("~/1")
    assert written == [str(tmp_path / "1")]


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
