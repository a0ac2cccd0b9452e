"""The sets of docs/results.md: what is compared differs in what it is compared by."""

import math

import pytest

import hparams

TASKS = ("babi", "algorithmic", "lte", "scan", "multi30k")
# Of the model, not of its training; the last two are defaults that differ.
OF_THE_MODEL = {"hidden_size", "filter_size", "pos", "daisy_chain_variables"}


@pytest.mark.parametrize("task", TASKS)
def test_the_same_training(task):
    base, universal, adaptive = (
        hparams.get(f"{kind}transformer_{task}").to_dict()
        for kind in ("", "universal_", "adaptive_universal_")
    )
    assert {k for k, v in base.items() if universal[k] != v} <= OF_THE_MODEL
    assert {k for k, v in universal.items() if adaptive[k] != v} == {
        *("recurrence_type", "act_max_steps", "act_halting_bias_init", "act_loss_weight")
    }
    assert adaptive["act_max_steps"] == universal["num_rec_steps"] == base["num_hidden_layers"]


def test_as_many_weights_on_multi30k():
    from ut_keras import models

    def count(name, kind=""):
        hp = hparams.get(f"{kind}{name}_multi30k")
        model = models.get(name, hp, vocab_sizes={"inputs": 8192, "targets": 8192})
        return sum(math.prod(weight.shape) for weight in model.trainable_variables)

    base = count("transformer")
    assert base == pytest.approx(2.4e6, rel=0.05)
    assert count("universal_transformer") == pytest.approx(base, rel=0.02)
    assert count("universal_transformer", "adaptive_") == pytest.approx(base, rel=0.02)
