"""The hparams sets of docs/results.md differ only in the compared properties."""

import math

import numpy as np
import pytest

from ut_keras import hparams, models
from ut_keras.data.features import FeatureSpec

TASKS = ("babi", "algorithmic", "lte", "scan", "multi30k")
# These fields belong to the model, not to its training. The defaults of "pos" and
# "daisy_chain_variables" differ between the Transformer and the Universal Transformer.
OF_THE_MODEL = {"hidden_size", "filter_size", "pos", "daisy_chain_variables"}


@pytest.mark.parametrize("task", TASKS)
def test_compared_sets_have_the_same_training(task):
    base, universal, adaptive = (
        hparams.get(f"{kind}transformer_{task}").to_dict()
        for kind in ("", "universal_", "adaptive_universal_")
    )
    assert {k for k, v in base.items() if universal[k] != v} <= OF_THE_MODEL
    assert {k for k, v in universal.items() if adaptive[k] != v} == {
        *("recurrence_type", "act_max_steps", "act_halting_bias_init", "act_loss_weight")
    }
    assert adaptive["act_max_steps"] == universal["num_rec_steps"] == base["num_hidden_layers"]


@pytest.mark.parametrize("kind", ["", "universal_", "adaptive_universal_"])
def test_padding_sentences_do_not_change_babi_predictions(kind):
    specs = {
        "inputs": FeatureSpec(20, "sentences", (71, 5)),
        "targets": FeatureSpec(20, "class_label"),
    }
    hp = hparams.get(f"{kind}transformer_babi")
    model = models.from_specs(f"{'universal_' * bool(kind)}transformer_encoder", hp, specs)
    stories = np.random.RandomState(1).randint(1, 20, [2, 6, 5]).astype("int32")
    stories[1, 4:] = 0
    together = model({"inputs": stories}).numpy()
    wider = model({"inputs": np.pad(stories, [(0, 0), (0, 9), (0, 0)])})
    np.testing.assert_allclose(wider, together, atol=1e-5)
    np.testing.assert_allclose(model({"inputs": stories[1:, :4]}), together[1:], atol=1e-5)
    # T2T puts empty sentences between the story and the question. The empty sentences change the
    # position of the question and therefore the outputs.
    between = np.insert(stories[1:, :4], 3, 0, axis=1)
    assert np.abs(model({"inputs": between}) - together[1:]).max() > 1e-3


def test_multi30k_sets_have_equal_numbers_of_weights():
    def count(name, kind=""):
        hp = hparams.get(f"{kind}{name}_multi30k")
        model = models.get(name, hp, vocab_sizes={"inputs": 8192, "targets": 8192})
        return sum(math.prod(weight.shape) for weight in model.trainable_variables)

    base = count("transformer")
    assert base == pytest.approx(2.4e6, rel=0.05)
    assert count("universal_transformer") == pytest.approx(base, rel=0.02)
    assert count("universal_transformer", "adaptive_") == pytest.approx(base, rel=0.02)


@pytest.mark.parametrize("size", ["base", "small", "tiny"])
def test_deepstart_sets_change_only_the_halting_bias(size):
    """Sets with a deep start differ from the sets of T2T only in the halting bias."""
    of_t2t = hparams.get(f"adaptive_universal_transformer_{size}").to_dict()
    deep = hparams.get(f"adaptive_universal_transformer_{size}_deepstart").to_dict()
    assert {k: v for k, v in deep.items() if v != of_t2t[k]} == {"act_halting_bias_init": -3.0}
