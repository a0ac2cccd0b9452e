"""Tests of `Predictor` with sequences of any length, in batches and alone."""

import contextlib
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.decoding import cache_test
from tests.inference import export_models
from ut_keras import hparams, models
from ut_keras.decoding import batch_plan
from ut_keras.decoding.options import Options
from ut_keras.errors import UsageError
from ut_keras.inference import decode_hparams, decode_job
from ut_keras.inference.predictor import Predictor
from ut_keras.inference.text_model import TextModel


def _global_model():
    """Return a model whose outputs depend on padding after source and target."""
    encoders, specs = export_models.features("numbers")
    model = export_models.variant_model("global", specs)
    export_models.randomize(model, 7)
    return model, encoders


def test_predictor_outputs_do_not_depend_on_the_batch():
    model, encoders = _global_model()
    predictor = Predictor(model)
    assert batch_plan.why_equal_lengths(model)
    rows = export_models.rows(encoders, ["1 0 3", "0", "9 8 7 1 2 5", "4 4 1", "0 3"])
    options = {"beam_size": 2, "decode_length": 3}
    alone = [predictor([row], **options)[0] for row in rows]
    batch = predictor(batch_plan.trim(export_models.padded(rows)), **options)
    for found in (predictor(rows, **options), batch):
        for here, there in zip(found, alone, strict=True):
            # Every output is padded to the length of the longest output of its batch.
            room = [[0, 0], [0, here.ids.shape[1] - there.ids.shape[1]]]
            np.testing.assert_array_equal(here.ids, np.pad(there.ids, room))
            np.testing.assert_allclose(here.scores, there.scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "masked_mean"])
def test_predictor_of_trimmed_stories(pooling):
    """A story has the same scores alone and in a batch, whether it is given as text or as ids."""
    encoders, specs = export_models.features("story")
    overrides = f"{cache_test.TINY},trim_stories=True,class_label_pooling={pooling}"
    hp = hparams.get("universal_transformer_tiny", overrides)
    model = models.from_specs("universal_transformer_encoder", hp, specs)
    export_models.randomize(model, 3)
    texts = ["Mary is in | the garden | where is Mary ?", "", "where is ?", "in | " * 5 + "is ?"]
    rows = []
    for text in texts:
        story = export_models.story_ids(encoders["inputs"], text)[0]
        rows.append(story[story.any(axis=1)] if text else story[:1])
    assert [len(row) for row in rows] == [3, 1, 1, 4]
    predictor, graph = Predictor(model), TextModel(model, encoders)
    found = predictor(rows)
    scores = [beams.scores[0] for beams in found]
    np.testing.assert_allclose(
        graph.generate(tf.constant(texts), Options()).scores[:, 0], scores, rtol=1e-4
    )
    assert graph.ids(tf.constant(texts)).shape == [4, 4, 5]  # the longest story has 4 rows
    for row, score in zip(rows, scores, strict=True):
        np.testing.assert_allclose(predictor([row])[0].scores, [score], rtol=1e-4)


def test_predictor_uses_num_steps_and_exit_threshold():
    encoders, specs = export_models.features("classes")
    hp = hparams.get("adaptive_universal_transformer_tiny", cache_test.TINY)
    model = models.from_specs("universal_transformer_encoder", hp, specs)
    export_models.randomize(model, 3)
    text, found = "where is Mary ?", {}
    ids = export_models.rows(encoders, [text])
    features = {"inputs": np.array(ids), "targets": np.zeros([1, 1], np.int32)}
    graph = TextModel(model, encoders)
    for depth in ({}, {"exit_threshold": 0.05}, {"num_steps": 1}):
        logits = model.forward(features, training=False, **depth).logits
        expected = tf.reduce_max(tf.nn.log_softmax(logits)).numpy()
        scores = [graph.predictor(ids, beam_size=2, **depth)[0].scores[0]]
        scores += [graph.classify(tf.constant([text]), **depth).scores[0, 0]]
        scores += [graph.generate(tf.constant([text]), Options(**depth)).scores[0, 0]]
        np.testing.assert_allclose(scores, expected, rtol=1e-4)
        found[str(depth)] = float(expected)
    assert len(set(found.values())) == 3
    with pytest.raises(TypeError, match="beam_sise"):
        graph.predictor(ids, beam_sise=2)
    with pytest.raises(ValueError, match=r"jit_compile must .* without a search\. Received: True"):
        graph.predictor(ids, jit_compile=True)
    model, encoders = export_models.build("adaptive")
    graph, depth = TextModel(model, encoders), {"exit_threshold": 0.05}
    ids = export_models.rows(encoders, [text])
    features = {"inputs": np.array(ids), "targets": np.array(ids)}
    expected = model.score(features, **depth).numpy()
    assert abs(expected - model.score(features).numpy()) > 1e-3
    texts = tf.constant([text])
    np.testing.assert_allclose(graph.score(texts, texts, **depth), expected, rtol=1e-4)
    np.testing.assert_allclose(graph.predictor.scores(ids, ids, **depth), expected, rtol=1e-4)
    states = model.forward(features, training=False, **depth).encoder.output
    np.testing.assert_allclose(graph.encode(texts, **depth).states, states, rtol=1e-4, atol=1e-5)


def test_predictor_scores_match_graph():
    model, encoders = _global_model()
    texts = ["1 0 3", "0", "9 8 7 1 2 5", "4 4 1"]
    targets = ["3 0", "1 2 2 2", "0", "7 7"]
    ids = [export_models.rows(encoders, column) for column in (targets, texts)]
    scores = Predictor(model).scores(*ids)
    graph = TextModel(model, encoders).score(tf.constant(targets), tf.constant(texts))
    np.testing.assert_allclose(scores, graph, rtol=1e-4)
    alone = [Predictor(model).scores([t], [s])[0] for t, s in zip(*ids, strict=True)]
    np.testing.assert_allclose(scores, alone, rtol=1e-4)


def test_predictor_samples_differently_for_each_length():
    """Prompts of different lengths are in different batches, which need different seeds."""
    model, _ = export_models.build("prompts")
    rows = [[5] * length for length in range(1, 6)]
    options = {"temperature": 1e6, "decode_length": 12}  # the prompts have no influence
    sampled = Predictor(model)(rows, **options, seed=3)
    assert len({tuple(decoded.ids[0]) for decoded in sampled}) == len(rows)
    again = Predictor(model)(rows, **options, seed=3)
    assert [d.ids.tolist() for d in sampled] == [d.ids.tolist() for d in again]


def test_predictor_samples_differently_for_equal_prompts():
    """Prompts of two lengths are two batches. The temperature removes the effect of the prompts."""
    model, _ = export_models.build("prompts")
    rows = [[5]] * 40 + [[5, 5]] * 88
    options = {"temperature": 1e6, "decode_length": 12, "min_length": 9}
    sampled = [d for seed in (3, 4) for d in Predictor(model)(rows, **options, seed=seed)]
    assert len({tuple(decoded.ids[0]) for decoded in sampled}) == 2 * len(rows)


def test_text_model_samples_differently_for_each_length():
    model, encoders = export_models.build("prompts")
    options = Options(temperature=1e6, seed=3, decode_length=12)
    texts = tf.constant(["a", "a a a", "where is Mary ?", "a a a a a a"])
    graph = TextModel(model, encoders)
    sample = tf.function(lambda: graph.generate(texts, options).texts, autograph=False)
    sampled = sample().numpy()[:, 0].tolist()
    assert len(set(sampled)) == len(sampled)
    assert sample().numpy()[:, 0].tolist() == sampled


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_generate_samples_the_same_for_seeds_of_any_type(dtype):
    model, _ = export_models.build("prompts")
    prompt = {"inputs": tf.constant([[5, 6]])}
    options = {"temperature": 1.0, "decode_length": 9}
    expected, found = (
        model.generate(prompt, seed=seed, **options).ids for seed in (3, tf.constant(3, dtype))
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("xla_compile", "is_error"), [(True, True), ("auto", False)])
def test_decoder_rejects_xla_for_a_model_without_a_search(xla_compile, is_error):
    args = types.SimpleNamespace(xla_compile=xla_compile)
    model = types.SimpleNamespace(class_labels=False, decoder=None)
    setup = types.SimpleNamespace(
        args=args,
        values=decode_hparams.parse("", decode_hparams.DECODER),
        source=None,
        load_model=lambda values: (model, "path"),
        model_name="neural_gpu",
    )
    expected = pytest.raises(UsageError, match="Received: True, with --model=neural_gpu")
    with expected if is_error else contextlib.nullcontext():
        assert decode_job.load_predictor(setup)[1] == "path"
