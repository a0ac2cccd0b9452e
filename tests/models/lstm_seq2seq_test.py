"""Tests of the LSTM baselines. `t2t_golden_test.py` compares the models with T2T."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import hparams, models, t2t_import
from ut_keras.hparam_schema import HParamError

PAD = [(0, 0), (0, 2)]
FAST = "dropout=0.1,learning_rate_schedule=constant,learning_rate_constant=0.02"
KINDS = ("lstm", "lstm_attention", "lstm_bidirectional", "lstm_stories")


def _pad(features):
    return {name: np.pad(value, PAD) for name, value in features.items()}


@pytest.mark.parametrize("kind", ["lstm", "lstm_language_model"])
def test_padding_has_no_effect(kind):
    model, features = examples.shared(kind), examples.features(kind)
    want = model(features, training=False)
    got = model(_pad(features), training=False)[:, : want.shape[1]]
    np.testing.assert_allclose(got[:, :-1], want[:, :-1], atol=1e-6)


def test_attention_includes_padding_as_in_t2t():
    features = examples.features("lstm_attention")
    wider = {**features, "inputs": np.pad(features["inputs"], PAD)}
    model = examples.shared("lstm_attention")
    assert np.abs(model(wider) - model(features)).max() > 1e-4
    masking = examples.make("lstm_attention", "attention_mask_padding=True")
    np.testing.assert_allclose(masking(wider), masking(features), atol=1e-6)


def test_encoder_reads_source_backwards():
    model, features = examples.shared("lstm"), examples.features("lstm")
    encoded = model.encode(features)
    last_read = encoded.stack.output[:, 0]  # the encoder reads the first token last
    np.testing.assert_allclose(encoded.states[-1].output, last_read, atol=1e-6)
    np.testing.assert_array_equal(encoded.stack.output[1, 3:], 0)


def test_bidirectional_encoder_reads_both_directions():
    model, features = examples.shared("lstm_bidirectional"), examples.features("lstm")
    encoded = model.encode(features)
    forward, backward = tf.split(encoded.states[-1].output[1], 2)
    output = encoded.stack.output[1]  # this source has three tokens
    np.testing.assert_allclose(forward, output[2, :16], atol=1e-6)
    np.testing.assert_allclose(backward, output[0, 16:], atol=1e-6)
    np.testing.assert_array_equal(output[3:], 0)
    assert model.decoder.hidden_size == 32 and model.softmax.embedding.shape[1] == 32


@pytest.mark.parametrize("attention", ["", "_attention"])
def test_bidirectional_weights_have_t2t_names(attention):
    name = f"lstm_seq2seq{attention}_bidirectional_encoder"
    hp = hparams.get("lstm_bahdanau_attention", "hidden_size=4,num_hidden_layers=1")
    hp = hp.override("attention_layer_size=3")
    model = models.get(name, hp, vocab_sizes={"inputs": 9, "targets": 9})
    variables = t2t_import.export_variables(model)
    scope = f"{name}/body/lstm_seq2seq{attention}_bid_encoder"
    cell = "multi_rnn_cell/cell_0/lstm_cell/"
    wrapper = "attention_wrapper/" if attention else ""
    shapes = {
        f"{scope}/encoder/bidirectional_rnn/fw/{cell}kernel": (8, 16),
        f"{scope}/encoder/bidirectional_rnn/bw/{cell}kernel": (8, 16),
        f"{scope}/decoder/rnn/{wrapper}{cell}kernel": (4 + 8 + 3 * bool(attention), 32),
    }
    if attention:
        shapes[f"{scope}/memory_layer/kernel"] = (8, 8)
        shapes[f"{scope}/decoder/rnn/attention_wrapper/attention_layer/kernel"] = (16, 3)
    assert {key: variables[key].shape for key in shapes} == shapes
    again = t2t_import.build_model(name, hp.to_dict(), variables)
    features = examples.features("lstm")
    features = {key: np.minimum(ids, 8) for key, ids in features.items()}
    np.testing.assert_allclose(again(features), model(features), atol=1e-6)


def test_encoder_skips_empty_sentences():
    model, features = examples.shared("lstm_stories"), examples.features("lstm_stories")
    stories = features["inputs"]
    encoded = model.encode({"inputs": stories})
    alone = model.encode({"inputs": stories[2:, -1:]})
    for got, want in zip(encoded.states, alone.states, strict=True):
        np.testing.assert_allclose(got.output[2], want.output[0], atol=1e-6)


@pytest.mark.parametrize("kind", [*KINDS, "lstm_language_model"])
def test_is_causal(kind):
    model, features = examples.shared(kind), examples.features(kind)
    changed = dict(features, targets=features["targets"].copy())
    changed["targets"][0, 2] = 5
    got, want = model(changed), model(features)
    np.testing.assert_allclose(got[:, :3], want[:, :3], atol=1e-6)
    assert np.abs(got[0, 3] - want[0, 3]).max() > 1e-4


def test_inspect_returns_attention_weights():
    out = examples.shared("lstm_attention").inspect(examples.features("lstm_attention"))
    weights = out.decoder.memory_attention_weights
    assert weights.shape == (1, 3, 2, 4, 5)  # the axes are [N, B, H, T, S]
    np.testing.assert_allclose(tf.reduce_sum(weights, -1), 1, atol=1e-6)
    assert set(out.losses) == {"training", "extra"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", "lstm_attention", "lstm_classifier"])
def test_lstm_learns_in_fit(kind):
    model, features = examples.make(kind, FAST), examples.features(kind)
    model.compile()
    dataset = tf.data.Dataset.from_tensors((features, features["targets"])).repeat(30)
    options = {"epochs": 2, "steps_per_epoch": 15, "shuffle": False, "verbose": 0}
    history = model.fit(dataset, **options).history
    assert history["loss"][1] < 0.8 * history["loss"][0]


def test_softmax_has_attention_layer_size():
    model = examples.make("lstm_attention", "num_heads=1")
    assert model.softmax.embedding.shape == (examples.V, 12)
    message = "attention_layer_size=12, hidden_size=16, shared_embedding_and_softmax_weights=True"
    with pytest.raises(HParamError, match=message):
        examples.make("lstm_attention", "num_heads=1,shared_embedding_and_softmax_weights=True")
    with pytest.raises(HParamError, match="Received: 32 .*hidden_size=16"):
        examples.make("lstm_bidirectional", "shared_embedding_and_softmax_weights=True")


def test_models_reject_hparams_of_other_models():
    sizes = {"inputs": 9, "targets": 9}
    with pytest.raises(HParamError, match="LSTMSeq2seq .*Received: TransformerHParams"):
        models.get("lstm_seq2seq", hparams.get("transformer_tiny"), vocab_sizes=sizes)
    for name in ("transformer", "universal_transformer"):
        with pytest.raises(HParamError, match="Transformer .*Received: LSTMHParams"):
            models.get(name, hparams.get("lstm_seq2seq"), vocab_sizes=sizes)
    with pytest.raises(HParamError, match="max_area_width=2"):
        models.get(
            "lstm_seq2seq_attention", hparams.get("lstm_area_attention_base"), vocab_sizes=sizes
        )


def test_lstm_rejects_packed_examples_and_missing_source():
    features = examples.features("lstm")
    packed = {**features, "inputs_segmentation": (features["inputs"] != 0).astype("int32")}
    with pytest.raises(ValueError, match="Received: inputs_segmentation"):
        examples.shared("lstm")(packed)
    with pytest.raises(ValueError, match="LSTM.* inputs.*Received: a problem with targets"):
        hp = hparams.get("lstm_attention")
        models.get("lstm_seq2seq_attention", hp, vocab_sizes={"targets": 9})


# The other LSTM models have the same caches. tests/decoding/generate_test.py compares searches of
# "lstm" with T2T. It also compares searches of a language model with and without a cache.
@pytest.mark.parametrize("beam_size", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize(
    "kind",
    [
        *("lstm_attention", "lstm_bidirectional"),
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("lstm", "lstm_stories", "lstm_language_model")
        ),
    ],
)
def test_cache_matches_full_forward(kind, beam_size):
    model = examples.shared(kind)
    features = examples.features(kind)
    given = {"inputs": features["inputs" if "inputs" in features else "targets"][:, :3]}
    options = {"beam_size": beam_size, "decode_length": 8}
    got = model.generate(given, **options)
    want = model.generate(given, **options, cache=False)
    np.testing.assert_array_equal(got.ids, want.ids)
    np.testing.assert_allclose(got.scores, want.scores, rtol=1e-5)
