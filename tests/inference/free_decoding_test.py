import types

import numpy as np
import pytest
import tensorflow as tf

from tests.inference import export_models
from tests.training import toy
from ut_keras import hparams
from ut_keras.data.features import FeatureSpec
from ut_keras.data.reading import input_pipeline
from ut_keras.decoding import batch_seed, beam_search
from ut_keras.decoding.options import Options
from ut_keras.inference import decode_hparams, free_decoding, text_model

TARGETS = np.array([[5, 6, 7, 1], [5, 6, 1, 0], [5, 1, 0, 0], [5, 6, 7, 1]], np.int32)
DECODED = np.array(
    [
        [5, 6, 7, 1, 0],  # the correct output
        [5, 6, 6, 6, 1],  # a longer output
        [6, 1, 0, 0, 0],  # a wrong output
        [5, 6, 1, 0, 0],  # a shorter output
    ],
    np.int32,
)


class Decoded:
    """A model with fixed outputs."""

    class_labels = False
    encoder = decoder = "some"
    why_source_padding_matters = why_encoder_padding_matters = ""

    def search(self, features, options):
        return beam_search.Decoded(tf.constant(DECODED[:, None]), tf.zeros([len(DECODED), 1]))


@pytest.mark.parametrize(("changes", "longest"), [("max_length=0", 4096), ("max_length=50", 50)])
def test_read_rows_keeps_the_longest_length_of_the_run(changes, longest):
    """The batch size of decoding must not limit the lengths with eval_drop_long_sequences."""
    found = []

    def dataset(split, data_dir, hp):
        found.append(input_pipeline.InputSettings.from_hparams(hp))
        return tf.data.Dataset.from_tensors(({"inputs": TARGETS, "targets": TARGETS}, TARGETS))

    hp = hparams.get("transformer_tiny", f"batch_size=4096,{changes}")
    problem = types.SimpleNamespace(dataset=dataset)
    problem.for_decoding = lambda: problem
    run = types.SimpleNamespace(
        problem=problem,
        data_dir="",
        hp=hp,
        specs={"inputs": FeatureSpec(9)},
    )
    inputs, targets = free_decoding.read_rows(run, "dev")
    assert [*map(len, inputs)] == [4, 3, 2, 4] and len(targets) == 4
    assert found[0].use_fixed_batch_size and found[0].longest == longest


def test_free_decoding_accuracy():
    features = {"inputs": TARGETS, "targets": TARGETS}
    dataset = tf.data.Dataset.from_tensors((features, TARGETS))
    settings = decode_hparams.parse("beam_size=1")
    results, samples = toy.free_decoder(Decoded(), settings)(dataset)
    assert results["decode/accuracy_per_sequence"] == 1 / 4
    assert results["decode/accuracy"] == pytest.approx((3 + 2 + 0 + 2) / (3 + 2 + 1 + 3))
    assert [sample.is_correct for sample in samples] == [True, False, False]


def test_empty_output_is_shown():
    ids, none = np.array([5, 6], np.int32), np.array([], np.int32)
    decoder = toy.free_decoder(Decoded(), decode_hparams.parse("beam_size=1"))
    lines = decoder.shown(free_decoding.Sample(ids, ids, none)).splitlines()
    assert lines[-1] == "  decoded:   (empty)  (wrong)"


def test_free_decoding_samples_each_batch_with_another_seed():
    seeds = []

    class Sampler(Decoded):
        def search(self, features, options):
            seeds.append(options.seed)
            return super().search(features, options)

    features = {"inputs": TARGETS, "targets": TARGETS}
    dataset = tf.data.Dataset.from_tensors((features, TARGETS)).repeat(3)
    settings = decode_hparams.parse("beam_size=1,sampling_temp=1.0,seed=7")
    toy.free_decoder(Sampler(), settings)(dataset)
    assert seeds == [batch_seed.of_batch(7, number) for number in (0, 4, 8)]


@pytest.mark.parametrize(("written", "expected"), [([1, 0], 1.0), ([5, 1], 0.0)])
def test_free_decoding_accuracy_with_empty_references(written, expected, monkeypatch):
    """If all references are empty, empty outputs are correct."""
    monkeypatch.setitem(globals(), "DECODED", np.array([written] * 2, np.int32))
    targets = np.array([[1, 0], [1, 0]], np.int32)
    dataset = tf.data.Dataset.from_tensors(({"inputs": targets, "targets": targets}, targets))
    settings = decode_hparams.parse("beam_size=1")
    results, _ = toy.free_decoder(Decoded(), settings)(dataset)
    assert results["decode/accuracy_per_sequence"] == results["decode/accuracy"] == expected


@pytest.mark.parametrize(
    "name",
    [
        "encoder_symbols",
        "neural_gpu",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("lstm", "adaptive")),
    ],
)
def test_free_decoding_matches_export(name):
    """The outputs of the models depend on padding, and the lengths of the sources differ."""
    model, encoders = export_models.build(name)
    texts = ["1 0 3", "0", "9 8 7 1 2 5", "4 4", "3 9 9 9 9"]
    if name == "lstm":
        texts = ["where is", "Mary", "the garden where in the", "?"]
    inputs = export_models.padded(export_models.rows(encoders, texts))
    targets = np.zeros([len(texts), 1], np.int32)
    dataset = tf.data.Dataset.from_tensors(({"inputs": inputs, "targets": targets}, targets))
    settings = decode_hparams.parse("beam_size=3,alpha=0.6,extra_length=6")
    _, samples = toy.free_decoder(model, settings)(dataset, num_shown=9)
    written = [encoders["targets"].decode(sample.decoded.tolist()) for sample in samples]
    text_to_text = text_model.TextModel(model, encoders)
    search = Options(**export_models.SEARCH, per_example_length=True)
    found = text_to_text.generate(tf.constant(texts), search)
    assert written == [text.decode() for text in found.texts[:, 0].numpy()]
    for text, together in zip(texts, written, strict=True):
        alone = text_to_text.generate(tf.constant([text]), search)
        assert alone.texts[0, 0].numpy().decode() == together
    assert len(set(written)) > 1
