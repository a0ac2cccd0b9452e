import functools
import os

import ctranslate2
import keras
import numpy as np
import pytest

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
    model = models.from_specs(name, hp, {"targets": targets, "inputs": SYMBOLS})  # in any order
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
def test_writes_what_the_model_writes(changes, tmp_path):
    model = _model(changes)
    export.export_ctranslate2(model, ENCODERS, str(tmp_path / "of" / "served"))
    assert feature_record.load(str(tmp_path / "of" / "served")).specs == model.specs
    translator = ctranslate2.Translator(str(tmp_path / "of" / "served"))
    ids = np.random.RandomState(2).randint(2, 24, [20, 9])
    ids[:, -1] = 1
    ids[5:, 6:] = 0  # shorter ones
    expected = model.generate({"inputs": ids}, decode_length=11).ids[:, 0].numpy().tolist()
    expected = [row[: row.index(1)] if 1 in row else row for row in expected]
    assert _written(translator, ids, beam_size=1) == expected
    assert len({tuple(row) for row in expected}) > 1  # not one answer to all


def test_weights_that_are_not_finite_are_named(tmp_path):
    model = _model.__wrapped__(",num_hidden_layers=1")
    variable = model.trainable_variables[0]
    variable.assign(np.full(variable.shape, np.nan, "float32"))
    with pytest.raises(DataError, match=f"Received: {variable.path},"):
        export.export_ctranslate2(model, ENCODERS, str(tmp_path / "served"))
    assert not (tmp_path / "served").exists()


@pytest.mark.slow  # the default run has it in full precision
def test_weights_of_eight_bits(tmp_path):
    model = _model()
    sizes = {}
    for quantize in ("", "float16", "int8"):
        path = str(tmp_path / f"served{quantize}")
        export.export_ctranslate2(model, ENCODERS, path, quantize)
        sizes[quantize] = os.path.getsize(os.path.join(path, "model.bin"))
        assert ctranslate2.Translator(path).translate_batch([["5", "7", "1"]])
    assert max(sizes["int8"], sizes["float16"]) < sizes[""]


def test_a_cpu_that_multiplies_eight_bits_wrongly(tmp_path, monkeypatch, caplog):
    def why_not_same(translator, *_):
        return None if translator.compute_type == "float32" else "-22.3 for -15.0"

    monkeypatch.setattr(ctranslate2_export, "_why_not_same", why_not_same)
    export.export_ctranslate2(_model(), ENCODERS, str(tmp_path / "served"), "int8")
    assert "wrong in 8 bits: -22.3 for -15.0. CT2_USE_MKL=1 helps." in caplog.text


def test_what_lies_there_is_what_was_checked(tmp_path, monkeypatch):
    """The quantized files, too, and not those that were there before them."""
    model, other = _model(), _model(",norm_epsilon=9.0")
    spec, rest = ctranslate2_export._spec, [model, other]
    monkeypatch.setattr(ctranslate2_export, "_spec", lambda of, _: spec(of, rest.pop(0)))
    with pytest.raises(ValueError, match="must find the log probabilities of the model"):
        export.export_ctranslate2(model, ENCODERS, str(tmp_path / "served"), "int8")
    assert not rest and not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda: _model(name="universal_transformer", hparams_set="universal_transformer_tiny"),
            "adds its signals at every step. Received: a universal_transformer of inputs",
        ),
        (
            lambda: _model(",prepend_mode=prepend_inputs_masked_attention"),
            "prepend_mode=prepend_inputs_masked_attention",
        ),
        (lambda: _model(",hard_attention_k=12"), "Received: a transformer .*hard_attention_k=12"),
        (
            lambda: _model(targets=FeatureSpec(3, "class_label")),
            r"both of symbols.*targets \(class_label\)",
        ),
        (lambda: _model(",norm_type=rms"), "layer_norm_bias. Received: none|layer_norm_scale"),
        (lambda: _model(",pos=emb"), "no layer for the weights source_position"),
        (lambda: _model(",ffn_layer=swiglu"), "need the weights|no layer for the weights"),
        (lambda: _model(",unidirectional_encoder=True"), "must find the log probabilities"),
    ],
)
def test_says_what_does_not_fit(model, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        export.export_ctranslate2(model(), ENCODERS, str(tmp_path / "served"))
    assert not os.listdir(tmp_path)


def test_refuses(tmp_path):
    with pytest.raises(ValueError, match="quantize must be one of"):
        export.export_ctranslate2(_model(), ENCODERS, str(tmp_path / "served"), "int4")
    with pytest.raises(FileExistsError):
        export.export_ctranslate2(_model(), ENCODERS, str(tmp_path))
