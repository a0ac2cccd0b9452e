"""ONNX files give the outputs of the model."""

import importlib.util
import os

import numpy as np
import pytest
import tensorflow as tf

import ut_keras
from tests.inference import export_models
from ut_keras import export, hparams, models
from ut_keras.inference import fixed_shapes, onnx_export

LENGTH, DECODE_LENGTH = 6, 4
SOURCES = [[5, 3, 7, 2, 6, 1], [4, 1], [9, 8, 1]]
MISSING = [name for name in onnx_export.PACKAGES if importlib.util.find_spec(name) is None]
needs_extra = pytest.mark.skipif(
    bool(MISSING), reason=f"no {' and '.join(MISSING)}: pip install -e '.[onnx]'"
)


def _model(variant, kind="numbers"):
    _, specs = export_models.features(kind)
    model = export_models.variant_model(variant, specs)
    export_models.randomize(model, seed=7)
    return model


def _exported(model, path, *arguments, **options):
    import onnxruntime

    export.export_onnx(model, str(path), *arguments, **options)
    return onnxruntime.InferenceSession(str(path))


def _check_same_outputs(model, session, sources, length, decode_length, **options):
    """Check that the session gives the ids and scores of the model, one source at a time."""
    for ids in sources:
        wanted = model.generate({"inputs": [ids]}, decode_length=decode_length, **options)
        source = np.pad(np.int32([ids]), [(0, 0), (0, length - len(ids))])
        outputs, scores = session.run(["outputs", "scores"], {"inputs": source})
        width = wanted.ids.shape[2]
        assert outputs.shape == (1, 1, length + decode_length)
        np.testing.assert_array_equal(outputs[..., :width], wanted.ids)
        assert not outputs[..., width:].any()
        np.testing.assert_allclose(scores, wanted.scores, rtol=1e-5, atol=1e-5)


@needs_extra
@pytest.mark.parametrize(
    "variant",
    [
        "transformer",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("local", "lstm_plain", "convergence")
        ),
    ],
)
def test_onnx_export_writes_the_outputs_of_the_model(variant, tmp_path):
    model = _model(variant)
    options = {"min_length": 2, "no_repeat_ngram_size": 2} if variant == "transformer" else {}
    path = tmp_path / "m.onnx"
    session = _exported(model, path, LENGTH, decode_length=DECODE_LENGTH, **options)
    _check_same_outputs(model, session, SOURCES, LENGTH, DECODE_LENGTH, **options)
    for wrong in (-3, model.specs["inputs"].vocab_size):  # ONNX would read -3 as an id at the end
        with pytest.raises(Exception, match="Gather.*out of data bounds"):
            session.run(None, {"inputs": np.int32([[5, wrong, 1, 0, 0, 0]])})


ENGLISH = [
    "Two dogs are playing in the snow.",
    "A man in a blue shirt is standing on a ladder.",
    "A little girl climbs into a wooden playhouse.",
    "People are fixing the roof of a house.",
    "A woman sleeps.",
    "Five people wearing winter jackets stand in the snow.",
]


@needs_extra
@pytest.mark.slow
@pytest.mark.parametrize("name", ["reverse40", "multi30k_ende"])
def test_onnx_export_of_a_shipped_run_writes_its_outputs(name, tmp_path):
    run = ut_keras.load(name)
    rng = np.random.RandomState(3)
    texts = ENGLISH
    if name == "reverse40":
        texts = [" ".join(map(str, rng.randint(0, 10, n))) for n in rng.randint(1, 31, 20)]
    sources = [[*run.encoders["inputs"].encode(text), 1] for text in texts]
    length = max(map(len, sources))
    session = _exported(run.model, tmp_path / "m.onnx", length, decode_length=10)
    _check_same_outputs(run.model, session, sources, length, 10)


@needs_extra
@pytest.mark.slow
def test_onnx_export_of_a_classifier_writes_log_probabilities(tmp_path):
    model, encoders = export_models.build("story")
    ids = export_models.story_ids(encoders["inputs"], "Mary is in | the garden | where is Mary ?")
    session = _exported(model, tmp_path / "m.onnx")
    (scores,) = session.run(["scores"], {"inputs": ids})
    logits = model({"inputs": ids, "targets": np.zeros([1, 1], np.int32)}, training=False)
    np.testing.assert_allclose(scores, tf.nn.log_softmax(logits), atol=1e-5)


@needs_extra
@pytest.mark.parametrize(
    ("variant", "kind", "arguments", "options", "message"),
    [
        ("act", "numbers", (None,), {}, "source_length must be given. Received: None"),
        ("act", "numbers", (0,), {}, "source_length must be at least 1. Received: 0"),
        ("act", "numbers", (4,), {"beam_size": 4}, "beam_size must be 1 .*Received: 4"),
        ("act", "numbers", (4,), {"temperature": 1.0}, "temperature must be 0 .*Received: 1.0"),
        ("act", "numbers", (4,), {"forced_prefix": [[2]]}, "Received: forced_prefix"),
        ("act", "numbers", (4,), {"return_steps": True}, "Received: return_steps"),
        ("global", "numbers", (4,), {}, "Received: .* act_type=global"),
        ("act", "subwords_only", (4,), {}, "must have an encoder"),
    ],
)
def test_onnx_export_rejects_arguments(variant, kind, arguments, options, message, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        export.export_onnx(_model(variant, kind), str(tmp_path / "m.onnx"), *arguments, **options)
    assert "\n" not in str(caught.value) and not os.listdir(tmp_path)


@needs_extra
def test_onnx_export_names_unsupported_operation(tmp_path, monkeypatch, capfd, caplog):
    """The converter copies an unsupported operation into the file, which onnxruntime rejects."""

    def generate(inputs):
        return {"outputs": inputs, "scores": tf.random.stateless_uniform([1, 1], inputs[0, :2])}

    model = _model("transformer")
    # TensorFlow warns about existing lookup tables when it converts a graph.
    keys = tf.lookup.KeyValueTensorInitializer(["a"], [1])
    table = tf.lookup.StaticHashTable(keys, 0)
    capfd.readouterr()
    monkeypatch.setattr(fixed_shapes, "whole_search", lambda *_: ("generate", generate))
    with pytest.raises(ValueError, match=r"operations .* Received: StatelessRandom\w+\.$"):
        export.export_onnx(model, str(tmp_path / "m.onnx"), LENGTH)
    assert not os.listdir(tmp_path)
    assert not capfd.readouterr().err and not caplog.records
    assert table.size() == 1


@needs_extra
def test_onnx_export_rejects_bfloat16(tmp_path):
    with pytest.raises(ValueError, match="activation_dtype must be float32.*Received: bfloat16"):
        export.export_onnx(export_models.bfloat16_model(), str(tmp_path / "m.onnx"), LENGTH)
    assert not os.listdir(tmp_path)


@needs_extra
@pytest.mark.parametrize("override", ["ffn_layer=sru", "add_sru=True"])
def test_onnx_export_rejects_sru_in_decoder(override, tmp_path):
    sizes = dict.fromkeys(("inputs", "targets"), 12)
    hp = hparams.get("adaptive_universal_transformer_quick", f"hidden_size=16,{override}")
    model = models.get("universal_transformer", hp, vocab_sizes=sizes)
    with pytest.raises(ValueError, match=f"must not use SRUs .*Received: {override}. "):
        export.export_onnx(model, str(tmp_path / "m.onnx"), LENGTH)


def test_onnx_export_names_missing_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"no tf2onnx and no onnxruntime.*'\.\[onnx\]'"):
        export.export_onnx(None, str(tmp_path / "m.onnx"), LENGTH)
