"""Searches and single steps in LiteRT give the outputs of the model."""

import os

import numpy as np
import pytest
import tensorflow as tf

from tests.decoding import cache_test
from tests.inference import export_models
from ut_keras import export, hparams, models

LENGTH, ROOM = 6, 4
SOURCES = [[5, 3, 7, 2, 6, 1], [4, 1], [9, 8, 1]]
pytestmark = pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")


def _model(variant, seed=7):
    _, specs = export_models.features("numbers")
    model = export_models.variant_model(variant, specs)
    export_models.randomize(model, seed)
    return model


def _exported(model, path, *arguments, **options):
    export.export_litert(model, str(path), *arguments, **options)
    return tf.lite.Interpreter(str(path))


def _padded(source):
    return np.pad(np.array([source], np.int32), [(0, 0), (0, LENGTH - len(source))])


_SLOW = (
    "act",
    "act_copy",
    "basic",
    "transformer",
    "relative",
    "sepconv",
    "modern",
    "local",
    "random_start",
)


@pytest.mark.parametrize(
    ("variant", "beam_size"),
    [
        ("act", 1),
        *(pytest.param(n, 2 - i % 2, marks=pytest.mark.slow) for i, n in enumerate(_SLOW)),
    ],
)
def test_export_writes_the_outputs_of_the_model(variant, beam_size, tmp_path):
    """The exported search and a loop over exported single steps match the model."""
    model = _model(variant)
    lite = _exported(model, tmp_path / "m.tflite", LENGTH, decode_length=ROOM, beam_size=beam_size)
    operations = {op["op_name"] for op in lite._get_ops_details()}
    assert not {name for name in operations if name.startswith(("Flex", "CUSTOM"))}
    generate = lite.get_signature_runner("generate")
    written = set()
    for source in SOURCES:
        wanted = model.generate({"inputs": [source]}, beam_size, decode_length=ROOM)
        found = generate(inputs=_padded(source))
        width = wanted.ids.shape[2]
        np.testing.assert_array_equal(found["outputs"][..., :width], wanted.ids)
        assert found["outputs"].shape == (1, beam_size, LENGTH + ROOM)
        assert not found["outputs"][..., width:].any()
        np.testing.assert_allclose(found["scores"], wanted.scores, rtol=1e-4)
        written.add(float(found["scores"][0, 0]))
        if beam_size == 1 and "step" in lite.get_signature_list():
            assert _greedy(lite, source, width) == wanted.ids[0, 0].numpy().tolist()
    assert len(written) == len(SOURCES)


@pytest.mark.slow
def test_export_names_unsupported_operation(tmp_path):
    """LiteRT supports greedy search of an LSTM, but does not support beam search."""
    model = _model("lstm_plain")
    assert "generate" in _exported(model, tmp_path / "m.tflite", LENGTH).get_signature_list()
    with pytest.raises(ValueError, match=r"operations .* Received: tf.TensorList\w+\.$"):
        _exported(model, tmp_path / "n.tflite", LENGTH, beam_size=2)
    assert os.listdir(tmp_path) == ["m.tflite"]


def _greedy(lite, source, length):
    """Return the tokens of greedy search, which this function computes from single steps."""
    encode, step = map(lite.get_signature_runner, ("encode", "step"))
    state, symbols = encode(inputs=_padded(source)), [0]
    del state["states"]
    for position in range(length):
        found = step(symbol=np.int32(symbols[-1:]), position=np.int32([position]), **state)
        symbols.append(int(found.pop("logits")[0].argmax()))
        state.update(found)
    return symbols[1:]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    """Return the export of a language model with 5 positions."""
    path = str(tmp_path_factory.mktemp("prompts") / "m.tflite")
    export.export_litert(export_models.build("prompts")[0], path, decode_length=5)
    return path


def test_export_rejects_bfloat16(tmp_path):
    with pytest.raises(ValueError, match="activation_dtype must be float32.*Received: bfloat16"):
        export.export_litert(export_models.bfloat16_model(), str(tmp_path / "m.tflite"), LENGTH)
    assert not os.listdir(tmp_path)


def test_step_signature_continues_prompt(prompts):
    model, _ = export_models.build("prompts")
    lite = tf.lite.Interpreter(prompts)
    assert set(lite.get_signature_list()) == {"start", "step"}
    start, step = map(lite.get_signature_runner, ("start", "step"))
    ids = np.array([[7, 3, 11, 2, 1]], np.int32)
    wanted = model({"targets": ids}, training=False)[0]
    state = start(inputs=np.zeros(1, np.int32))
    for position, symbol in enumerate([0, *ids[0, :-1]]):
        found = step(symbol=np.int32([symbol]), position=np.int32([position]), **state)
        np.testing.assert_allclose(found.pop("logits")[0], wanted[position], atol=1e-4)
        state.update(found)


def test_export_rejects_language_model_without_cache(tmp_path):
    hp = hparams.get("adaptive_universal_transformer_tiny", f"{cache_test.TINY},act_type=global")
    model = models.get("universal_transformer", hp, vocab_sizes={"targets": 12})
    with pytest.raises(ValueError, match="Received: .* act_type=global"):
        export.export_litert(model, str(tmp_path / "m.tflite"))


@pytest.mark.parametrize("option", [{"beam_size": 2}, {"min_length": 3}, {"cache": False}])
def test_export_of_language_model_rejects_options_of_a_search(option, tmp_path):
    """The file contains no search, so these options would have no effect."""
    ((name, value),) = option.items()
    model, _ = export_models.build("prompts")
    with pytest.raises(ValueError, match=f"{name} must be .* language model.* Received: {value}"):
        export.export_litert(model, str(tmp_path / "m.tflite"), decode_length=5, **option)


def test_export_of_language_model_rejects_a_cache_without_positions(tmp_path):
    model, _ = export_models.build("prompts")
    with pytest.raises(ValueError, match="decode_length must be at least 1 .* Received: 0"):
        export.export_litert(model, str(tmp_path / "m.tflite"), decode_length=0)


def test_export_stores_no_empty_caches(prompts, tmp_path):
    """With a longer cache, the file grows only by the constants for the positions."""
    if tf.__version__.startswith("2.19."):
        pytest.skip("The LiteRT converter of TensorFlow 2.19 stores empty caches as constants")
    model, _ = export_models.build("prompts")
    short, long = prompts, tmp_path / "2000.tflite"
    start = _exported(model, long, decode_length=2000).get_signature_runner("start")
    caches = sum(c.nbytes for c in start(inputs=np.zeros(1, np.int32)).values())
    assert os.path.getsize(long) - os.path.getsize(short) < 0.05 * caches


def test_classify_signature(tmp_path):
    model, encoders = export_models.build("story")
    ids = export_models.story_ids(encoders["inputs"], "Mary is in | the garden | where is Mary ?")
    classify = _exported(model, tmp_path / "m.tflite").get_signature_runner("classify")
    logits = model({"inputs": ids, "targets": np.zeros([1, 1], np.int32)}, training=False)
    found = classify(inputs=ids)["scores"]
    np.testing.assert_allclose(found, tf.nn.log_softmax(logits), atol=1e-5)


def test_export_rejects_stories_whose_padding_matters(tmp_path):
    _, specs = export_models.features("story")
    hp = hparams.get("universal_transformer_tiny", f"{cache_test.TINY},trim_stories=True")
    model = models.from_specs("universal_transformer_encoder", hp, specs)
    with pytest.raises(ValueError, match="class_label_pooling=mean .*docs/decoding.md"):
        export.export_litert(model, str(tmp_path / "m.tflite"))


@pytest.mark.slow
def test_quantized_export(tmp_path):
    """The file has one table for embedding and logits. Each row of the table has its own scale."""
    encoders, specs = export_models.features("subwords")
    sizes = "hidden_size=64,filter_size=256,num_heads=2"
    model = models.from_specs("transformer", hparams.get("transformer_tiny", sizes), specs)
    # Most weights are in the embedding table. The test gives its rows different norms.
    table = model.target_embedding.embedding
    table.assign(table * np.linspace(0.1, 2, table.shape[0], dtype=np.float32)[:, np.newaxis])
    source = export_models.rows(encoders, ["so cool"])[0]
    wanted = model.encode({"inputs": [source]}).stack.output
    sizes, errors = {}, {}
    for quantize in ("", "float16", "int8"):
        path = tmp_path / f"{quantize}.tflite"
        lite = _exported(model, path, len(source), decode_length=2, quantize=quantize)
        sizes[quantize] = os.path.getsize(path)
        states = lite.get_signature_runner("encode")(inputs=np.int32([source]))["states"]
        errors[quantize] = np.abs(states - wanted).max()
        assert lite.get_signature_runner("generate")(inputs=np.int32([source]))["scores"] < 0
    weights = 4 * sum(np.prod(v.shape) for v in model.trainable_variables)
    assert sizes[""] - sizes["float16"] > 0.35 * weights
    assert sizes[""] - sizes["int8"] > 0.5 * weights
    assert errors[""] < 1e-4 < errors["int8"] < 0.3
    # An export replaces in-place writes into the cache by other operations. A later search in this
    # process uses in-place writes again.
    model.generate({"inputs": [source]}, decode_length=2)
    [search] = model.compiled_functions.of_decoding().values()
    assert "InplaceUpdate" in str(search.get_concrete_function().graph.as_graph_def())


@pytest.mark.parametrize(
    ("variant", "arguments", "options", "message"),
    [
        ("act", (None,), {}, "source_length must be given. Received: None"),
        ("act", (0,), {}, "source_length must be at least 1. Received: 0"),
        ("act", (4,), {"quantize": "int4"}, "quantize must be one of .*Received: 'int4'"),
        ("act", (4,), {"beam_size": 0}, "beam_size must be at least 1. Received: 0"),
        ("act", (4,), {"forced_prefix": [[2]]}, "Received: forced_prefix"),
        ("act", (4,), {"exit_threshold": 0.5}, "Received: exit_threshold"),
        ("act", (4,), {"return_steps": True}, "Received: return_steps"),
        ("global", (4,), {}, "Received: .* act_type=global"),
        # In the default run, tests/bin/exporter_test.py covers this case.
        pytest.param(
            *("basic", (4,), {"temperature": 1.0}, "Received: StatelessRandom"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_export_rejects_arguments(variant, arguments, options, message, tmp_path, capfd):
    path = tmp_path / "m.tflite"
    with pytest.raises(ValueError, match=message) as caught:
        export.export_litert(_model(variant), str(path), *arguments, **options)
    assert "\n" not in str(caught.value) and not path.exists()
    assert "error" not in capfd.readouterr().err  # the export hides the converter's output


@pytest.mark.parametrize(
    "override", ["ffn_layer=sru", pytest.param("add_sru=True", marks=pytest.mark.slow)]
)
def test_export_names_sru_in_adaptive_decoder(override, tmp_path):
    hp = hparams.get("adaptive_universal_transformer_quick", f"hidden_size=16,{override}")
    model = models.get("universal_transformer", hp, vocab_sizes={"targets": 12})
    with pytest.raises(ValueError, match="must not use SRUs .*Received: .*ffn_layer=sru"):
        export.export_litert(model, str(tmp_path / "m.tflite"), decode_length=ROOM)
    assert not os.listdir(tmp_path)
