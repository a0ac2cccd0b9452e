"""Tests that compare `prepend_mode` with a plain Transformer."""

import numpy as np
import pytest
import tensorflow as tf

from tests.data.reading import small_files
from tests.models import examples
from ut_keras import hparams, models
from ut_keras.data.features import FeatureSpec
from ut_keras.hparam_schema import HParamError
from ut_keras.models import prepended
from ut_keras.visualize import observer

MODES = (prepended.MASKED, prepended.FULL)
PLAIN = (
    "label_smoothing=0.0,attention_dropout=0.0,relu_dropout=0.0,layer_prepostprocess_dropout=0.0"
)
INPUTS, TARGETS = examples.INPUTS, examples.TARGETS  # rows of 5, 3, 2 and of 4, 2, 3 tokens
JOINED = np.array(
    [
        [5, 3, 7, 2, 1, 0, 3, 8, 2, 1],
        [4, 6, 1, 0, 6, 1, 0, 0, 0, 0],
        [9, 1, 0, 2, 12, 1, 0, 0, 0, 0],
    ]
)


def _make(mode):
    return examples.make("transformer", f"prepend_mode={mode},{PLAIN}")


def test_join_puts_targets_after_inputs():
    joined = prepended.join({}, tf.constant(INPUTS), tf.constant(TARGETS))
    np.testing.assert_array_equal(joined.ids, JOINED)
    want = np.where(np.arange(10) < [[5], [3], [2]], JOINED, 0)
    np.testing.assert_array_equal(joined.input_ids, want)
    np.testing.assert_array_equal(
        joined.target_positions, [[6, 7, 8, 9], [4, 5, 6, 7], [3, 4, 5, 6]]
    )
    with pytest.raises(ValueError, match="Received: packed examples"):
        prepended.join({"targets_segmentation": 1}, tf.constant(INPUTS), tf.constant(TARGETS))


def test_inputs_mask_matches_t2t():
    ids = np.array([[5, 1, 0, 7, 1, 0]])
    got = np.tril(np.ones([6, 6], bool)) | prepended.inputs_mask(tf.constant(ids))[0, 0].numpy()
    # T2T has in_target 0 0 0 1 1 1 and target_pos 0 0 0 1 2 3. T2T masks the keys whose
    # target_pos is greater than the target_pos of the query.
    position = np.array([0, 0, 0, 1, 2, 3])
    np.testing.assert_array_equal(got, position[np.newaxis] <= position[:, np.newaxis])


def _log_probs(mode):
    """Return log probabilities [B, L, V] of joined sequences from a model without prepend_mode.

    For the mode `prepended.FULL`, this model uses the attention mask of the mode.
    """
    plain = examples.make("transformer", PLAIN)
    if mode == prepended.FULL:
        mask = prepended.inputs_mask(tf.constant(JOINED))
        decode = plain.decoder.forward
        plain.decoder.forward = lambda x, inputs: decode(
            x, inputs._replace(attention_mask=inputs.attention_mask | mask)
        )
    logits = plain({"inputs": INPUTS, "targets": JOINED}, training=False)
    return tf.nn.log_softmax(logits).numpy()


@pytest.mark.parametrize("mode", MODES)
def test_prepend_mode_matches_reference(mode):
    """The reference is a model without `prepend_mode` that reads the joined sequences.

    In training with a causal mask, the loss includes the inputs.
    """
    model, features = _make(mode), {"inputs": INPUTS, "targets": TARGETS}
    log_probs = _log_probs(mode)
    places = np.array([[6, 7, 8, 9], [4, 5, 6, 7], [3, 4, 5, 6]])
    want = np.take_along_axis(log_probs, places[..., np.newaxis], axis=1)
    out = model.inspect(features)
    np.testing.assert_allclose(tf.nn.log_softmax(out.logits), want, atol=1e-5)
    losses = -np.take_along_axis(log_probs, JOINED[..., np.newaxis], axis=2)[..., 0]
    of_targets = np.array([5, 3, 2])[:, np.newaxis] < np.arange(10)
    real, read = JOINED != 0, JOINED != 0
    np.testing.assert_allclose(out.losses["training"], losses[real & of_targets].mean(), rtol=1e-5)
    if mode == prepended.FULL:
        read = real & of_targets
    trained = model.inspect(features, training=True).losses["training"]
    np.testing.assert_allclose(trained, losses[read].mean(), rtol=1e-5)
    rows = np.array([1.0, 0.0, 2.0], "float32")
    term = model.loss_terms(model.forward(features, training=True), TARGETS, True, rows)
    weights = read * rows[:, np.newaxis]
    want = (losses * weights).sum() / weights.sum()
    np.testing.assert_allclose(term["training"][0].value(), want, rtol=1e-5)


@pytest.mark.parametrize(
    "mode", [prepended.MASKED, pytest.param(prepended.FULL, marks=pytest.mark.slow)]
)
def test_prepend_mode_generates_likely_tokens(mode):
    """For sequences of one length, the search matches teacher forcing, with and without a cache."""
    model, given = _make(mode), {"inputs": INPUTS[:1].repeat(2, axis=0)}
    given["inputs"][1, :4] += 1
    found = model.generate(given, beam_size=1, decode_length=3)
    written = found.ids[:, 0].numpy()
    logits = model({**given, "targets": written}, training=False)
    kept = np.cumsum(written == 1, axis=1) - (written == 1) == 0
    np.testing.assert_array_equal(np.argmax(logits, -1)[kept], written[kept])
    scores = model.score({**given, "targets": written})
    np.testing.assert_allclose(found.scores[:, 0], scores, atol=1e-4)
    uncached = model.generate(given, beam_size=1, decode_length=3, cache=False)
    np.testing.assert_array_equal(uncached.ids, found.ids)
    assert "prepend_mode=" in model.why_source_padding_matters


def test_prepend_mode_adds_lengths(tmp_path):
    lengths = [(10, 21), (10, 22), (21, 10), (31, 1)]
    files = small_files.write(tmp_path, [small_files.example(*pair) for pair in lengths])
    chosen = small_files.settings(prepend_mode=prepended.MASKED)
    kept = sorted(map(len, small_files.rows(small_files.batches(files, True, settings=chosen))))
    assert kept == [10, 21]  # the maximum length is 32


def test_prepend_sets_match_t2t():
    for version in ("1", "2"):
        got = hparams.get(f"transformer_prepend_v{version}")
        want = hparams.get(f"transformer_base_v{version}", "max_length=0")
        assert got == want.override(f"prepend_mode={prepended.MASKED}")
    assert hparams.get("transformer_prepend") == hparams.get("transformer_prepend_v2")


@pytest.mark.parametrize(
    "kind, overrides, message",
    [
        ("language_model", "", "Received: symbols: {'targets': 13}"),
        ("classifier", "", "Received: symbols: {'inputs': 13}"),
        ("plain_encoder", "", "Received: symbols: .*without a decoder"),
        ("transformer", ",self_attention_type=local_mask_right", "self_attention_type=local"),
        ("transformer", ",pos=coupled", "Received: pos=coupled"),
        ("transformer", ",max_target_seq_length=9", "Received: max_target_seq_length=9"),
        ("universal", "", "prepend_mode"),
        ("lstm", "", "prepend_mode"),
    ],
)
def test_prepend_mode_rejects_other_hparams(kind, overrides, message):
    with pytest.raises(HParamError, match=message):
        examples.make(kind, f"prepend_mode={prepended.FULL}{overrides}")


def test_prepend_mode_rejects_larger_inputs_and_pictures():
    hp = hparams.get("transformer_tiny").override(f"prepend_mode={prepended.MASKED}")
    specs = {"inputs": FeatureSpec(14), "targets": FeatureSpec(13)}
    with pytest.raises(HParamError, match="Received: symbols: .*'inputs': 14"):
        models.from_specs("transformer", hp, specs)
    with pytest.raises(ValueError, match="prepend_mode must be none"):
        observer.observe(_make(prepended.MASKED), {"inputs": INPUTS})
