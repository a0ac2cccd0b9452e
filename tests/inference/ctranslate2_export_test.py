import functools
import os
import re

import ctranslate2
import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.text import subword_text_encoder_test as golden
from ut_keras import export, hparams, models
from ut_keras.data.features import FeatureSpec
from ut_keras.errors import DataError
from ut_keras.inference import ctranslate2_export, feature_record
from ut_keras.text import text_encoder

ENCODER = text_encoder.IntegerTextEncoder(24)
SYMBOLS = FeatureSpec(24)
ENCODERS = {"inputs": ENCODER, "targets": ENCODER}


@functools.cache
def _model(changes="", name="transformer", hparams_set="transformer_tiny", targets=SYMBOLS):
    hp = hparams.get(hparams_set, f"hidden_size=32,filter_size=64,num_heads=4{changes}")
    keras.utils.set_random_seed(1)
    # The order of the features in `specs` has no effect.
    model = models.from_specs(name, hp, {"targets": targets, "inputs": SYMBOLS})
    rng = np.random.RandomState(1)
    for variable in model.trainable_variables:
        variable.assign(variable + rng.normal(size=variable.shape, scale=0.4))
    return model


def _written(translator, ids, **options):
    found = translator.translate_batch(
        [[str(i) for i in row if i] for row in ids],
        max_decoding_length=20,
        min_decoding_length=0,
        **options,
    )
    return [[int(word) for word in result.hypotheses[0]] for result in found]


@pytest.mark.parametrize(
    "changes",
    [
        ",shared_embedding_and_softmax_weights=False,num_encoder_layers=1,num_decoder_layers=3"
        ",norm_epsilon=0.01,pos=none",
        *(
            pytest.param(changes, marks=pytest.mark.slow)
            for changes in (
                "",
                ",shared_embedding_and_softmax_weights=False",
                ",num_encoder_layers=1,num_decoder_layers=3,norm_epsilon=0.01",
                ",pos=none",
            )
        ),
    ],
)
def test_export_writes_the_outputs_of_the_model(changes, tmp_path):
    model = _model(changes)
    export.export_ctranslate2(model, ENCODERS, str(tmp_path / "of" / "served"))
    assert feature_record.load(str(tmp_path / "of" / "served")).specs == model.specs
    translator = ctranslate2.Translator(str(tmp_path / "of" / "served"), intra_threads=1)
    ids = np.random.RandomState(2).randint(2, 24, [20, 9])
    ids[:, -1] = 1
    ids[5:, 6:] = 0  # the last sources are shorter
    expected = model.generate({"inputs": ids}, decode_length=11).ids[:, 0].numpy().tolist()
    expected = [row[: row.index(1)] if 1 in row else row for row in expected]
    assert _written(translator, ids, beam_size=1) == expected
    assert len({tuple(row) for row in expected}) > 1  # the outputs differ


def test_export_rejects_weights_that_are_not_finite(tmp_path):
    model = _model.__wrapped__(",num_hidden_layers=1")
    variable = model.trainable_variables[0]
    variable.assign(np.full(variable.shape, np.nan, "float32"))
    with pytest.raises(DataError, match=f"Received: {variable.path},"):
        export.export_ctranslate2(model, ENCODERS, str(tmp_path / "served"))
    assert not (tmp_path / "served").exists()


def test_export_compares_scores_of_padded_texts_in_full_float32(tmp_path, monkeypatch):
    model = _model.__wrapped__(",num_hidden_layers=1")
    real, calls = model.score, []

    def score(rows):
        calls.append((rows, tf.config.experimental.tensor_float_32_execution_enabled()))
        return real(rows)

    monkeypatch.setattr(model, "score", score)
    export.export_ctranslate2(model, ENCODERS, str(tmp_path / "served"))
    assert calls
    for rows, is_rounded in calls:
        assert not is_rounded
        for ids in rows.values():
            lengths = [row.tolist().index(0) if 0 in row else len(row) for row in ids]
            assert len(set(lengths)) > 1 and ids.max() == 23


@pytest.mark.slow  # the default run covers 32-bit weights
def test_export_with_int8_weights(tmp_path):
    model = _model()
    sizes = {}
    for quantize in ("", "float16", "int8"):
        path = str(tmp_path / f"served{quantize}")
        export.export_ctranslate2(model, ENCODERS, path, quantize)
        sizes[quantize] = os.path.getsize(os.path.join(path, "model.bin"))
        assert ctranslate2.Translator(path).translate_batch([["5", "7", "1"]])
    assert max(sizes["int8"], sizes["float16"]) < sizes[""]


def test_export_warns_of_wrong_int8_products(tmp_path, monkeypatch, caplog):
    def why_not_same(translator, *_):
        return None if translator.compute_type == "float32" else "-22.3 for -15.0"

    monkeypatch.setattr(ctranslate2_export, "_score_difference", why_not_same)
    export.export_ctranslate2(_model(), ENCODERS, str(tmp_path / "served"), "int8")
    assert "in 8 bits: -22.3 for -15.0. Set CT2_USE_MKL=1." in caplog.text


def test_export_checks_the_files_it_leaves(tmp_path, monkeypatch):
    """The export checks the quantized files, not the 32-bit files that they replace."""
    model, other = _model(), _model(",norm_epsilon=9.0")
    spec, rest = ctranslate2_export._spec, [model, other]
    monkeypatch.setattr(ctranslate2_export, "_spec", lambda of, _: spec(of, rest.pop(0)))
    with pytest.raises(ValueError, match=r"log probabilities .*Received: -\d+\.\d+ instead of -\d"):
        export.export_ctranslate2(model, ENCODERS, str(tmp_path / "served"), "int8")
    assert not rest and not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda: _model(name="universal_transformer", hparams_set="universal_transformer_tiny"),
            "Received: a universal_transformer .*inputs",
        ),
        (
            lambda: _model(",prepend_mode=prepend_inputs_masked_attention"),
            "prepend_mode=prepend_inputs_masked_attention",
        ),
        (lambda: _model(",hard_attention_k=12"), "Received: a transformer .*hard_attention_k=12"),
        # For texts of at most one block, local attention equals full attention.
        (
            lambda: _model(",self_attention_type=local_unmasked,block_length=16"),
            "Received: a transformer .*self_attention_type=local_unmasked",
        ),
        (
            lambda: _model(targets=FeatureSpec(3, "class_label")),
            r"Received: .*targets \(class_label\)",
        ),
        (lambda: _model(",activation_dtype=bfloat16"), "must be float32 .* Received: bfloat16"),
        (lambda: _model(",attention_key_channels=16"), "attention_key_channels=16, hidden_size=32"),
        (lambda: _model(",attention_value_channels=64"), "attention_value_channels must .*=64,"),
        (
            lambda: _model(",layer_preprocess_sequence=nn"),
            "no layer for the weights .*/layer_norm_1/",
        ),
        (lambda: _model(",norm_type=rms"), "layer_norm_bias. Received: none|layer_norm_scale"),
        (lambda: _model(",pos=emb"), "the weights source_position"),
        (lambda: _model(",ffn_layer=swiglu"), "the weights (encoder|decoder)/"),
        (lambda: _model(",unidirectional_encoder=True"), r"log probabilities .*Received: -\d"),
    ],
)
def test_export_rejects_models_without_a_layer(model, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        export.export_ctranslate2(model(), ENCODERS, str(tmp_path / "served"))
    assert not os.listdir(tmp_path)


ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def _snippet():
    """Return the Python lines of docs/serving.md that call CTranslate2."""
    with open(os.path.join(ROOT, "docs", "serving.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```text\n(.*?)```", file.read(), re.DOTALL)
    [snippet] = [block for block in blocks if "ctranslate2.Translator(" in block]
    return snippet


def _random_model(vocab_size, scale, seed):
    """Return a small model with random weights."""
    spec = FeatureSpec(vocab_size)
    changes = "hidden_size=32,filter_size=64,num_heads=4,num_encoder_layers=1,num_decoder_layers=1"
    keras.utils.set_random_seed(1)
    hp = hparams.get("transformer_tiny", changes)
    model = models.from_specs("transformer", hp, {"inputs": spec, "targets": spec})
    rng = np.random.RandomState(seed)
    for variable in model.trainable_variables:
        variable.assign(variable + rng.normal(size=variable.shape, scale=scale))
    return model


def test_serving_page_snippet_truncates_nothing(tmp_path, monkeypatch):
    """With the code of docs/serving.md, CTranslate2 and the model give long texts equal scores."""
    encoder = golden.load(golden.VOCABS[0])
    model = _random_model(encoder.vocab_size, 0.1, seed=1)
    export.export_ctranslate2(
        model, dict.fromkeys(model.specs, encoder), str(tmp_path / "served/TIME")
    )
    monkeypatch.chdir(tmp_path)
    options = {}

    class Translator(ctranslate2.Translator):
        """A translator that records the arguments of its calls."""

        def translate_batch(self, *args, **given):
            options.update(given)
            return super().translate_batch(*args, **given)

    monkeypatch.setattr(ctranslate2, "Translator", Translator)
    source, target = "Two dogs are playing. " * 70, "Zwei Hunde spielen. " * 70
    snippet = _snippet()
    for short, long in (("Two dogs are playing.", source), ("Zwei Hunde spielen.", target)):
        assert snippet.count(f'"{short}"') == 1
        snippet = snippet.replace(f'"{short}"', repr(long))
    names = {"ctranslate2": ctranslate2, "text_encoder": text_encoder}
    exec(snippet, names)
    ids = {"inputs": [[*encoder.encode(source), 1]], "targets": [[*encoder.encode(target), 1]]}
    assert min(len(row) for [row] in ids.values()) > 1024
    expected = model.score({name: np.int32(rows) for name, rows in ids.items()}).numpy()[0]
    np.testing.assert_allclose(sum(names["scored"][0].log_probs), expected, rtol=1e-4)
    [written] = names["found"][0].hypotheses
    length = len(ids["inputs"][0]) + 50
    assert 256 < len(written) <= length
    assert options.items() >= {**ctranslate2_export.OPTIONS, "max_decoding_length": length}.items()


def test_options_give_the_scores_of_the_model(tmp_path):
    """With ut_keras' options, scores of CTranslate2 equal the scores of the model.

    With CTranslate2's defaults of length_penalty and min_decoding_length, the scores differ as
    docs/serving.md describes.
    """
    model = _random_model(24, 0.3, seed=14)
    export.export_ctranslate2(model, ENCODERS, str(tmp_path / "served"))
    translator = ctranslate2.Translator(str(tmp_path / "served"), intra_threads=1)
    log_probabilities = _log_probabilities(model)
    sources = np.insert(np.random.RandomState(3).randint(2, 24, [40, 6]), 6, 1, axis=1)

    def translate(**options):
        """Yield (source, ids, score, log probabilities of the ids) of each source."""
        words = [list(map(str, source)) for source in sources]
        options = {**ctranslate2_export.OPTIONS, "max_decoding_length": 12, **options}
        results = translator.translate_batch(
            words, beam_size=1, return_scores=True, return_end_token=True, **options
        )
        for source, result in zip(sources, results, strict=True):
            ids = list(map(int, result.hypotheses[0]))
            yield source, ids, result.scores[0], log_probabilities(source, ids)

    ended = 0
    for _, ids, score, expected in translate():
        np.testing.assert_allclose(score, expected.sum(), atol=1e-3)
        ended += ids[-1] == 1
    for _, ids, score, expected in translate(length_penalty=1):
        np.testing.assert_allclose(score, expected.sum() / len(ids), atol=1e-3)
    for source, ids, score, expected in translate(min_decoding_length=1):
        end = log_probabilities(source, [1])[0]
        assert ids[0] != 1
        np.testing.assert_allclose(score, expected.sum() - np.log1p(-np.exp(end)), atol=1e-3)
    assert 0 < ended < 40  # some outputs end, and others are truncated
    # CTranslate2 does not run the model for a source that contains only EOS.
    [empty] = translator.translate_batch(
        [["1"]], return_scores=True, max_decoding_length=12, **ctranslate2_export.OPTIONS
    )
    assert empty.hypotheses == [[]] and empty.scores == [0]
    assert model.generate({"inputs": [[1]]}, decode_length=11).ids[0, 0, 0] > 1
    assert "For an empty source, translate_batch returns an empty" in ctranslate2_export.ADVICE


def _log_probabilities(model):
    """Return a traced function (source, ids) -> the model's log probability of each of `ids`."""
    ids = tf.TensorSpec([1, None], tf.int32)
    signature = [{"inputs": ids, "targets": ids}]
    forward = tf.function(lambda x: model(x, training=False), signature, autograph=False)

    def log_probabilities(source, ids):
        features = {"inputs": np.int32([source]), "targets": np.int32([ids])}
        logits = forward(features).numpy().reshape(len(ids), -1)
        logits -= logits.max(-1, keepdims=True)
        return (logits - np.log(np.exp(logits).sum(-1, keepdims=True)))[np.arange(len(ids)), ids]

    return log_probabilities


@pytest.mark.parametrize("encoder", [text_encoder.ByteTextEncoder(), None])
def test_export_rejects_encoders_of_another_model(encoder, tmp_path):
    encoders = {"inputs": ENCODER, **({} if encoder is None else {"targets": encoder})}
    with pytest.raises(ValueError, match="encoder of targets .*24. Received: (258|no encoder)"):
        export.export_ctranslate2(_model(), encoders, str(tmp_path / "served"))


def test_export_rejects_arguments(tmp_path):
    with pytest.raises(ValueError, match="quantize must be one of"):
        export.export_ctranslate2(_model(), ENCODERS, str(tmp_path / "served"), "int4")
    with pytest.raises(FileExistsError):
        export.export_ctranslate2(_model(), ENCODERS, str(tmp_path))
