"""Tests of the table in docs/decoding.md about models whose outputs depend on padding.

The table lists where padding changes outputs, and which hparam prevents the effect.
"""

import os
import re

import numpy as np
import pytest

from tests.models import examples
from ut_keras.decoding import batch_plan

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "decoding.md")
_V2 = "self_attention_type=dot_product_relative_v2,max_relative_position=3"
_STEP = "position_start_index=step"

# Each row has a kind of example, overrides, and overrides that prevent the effect ("" if there are
# none). The last element names the features whose padding changes the outputs in teacher forcing.
ROWS = {
    "dot_product_relative_v2": ("transformer", _V2, "relative_mask_future=True", "inputs"),
    "global": ("adaptive", "act_type=global", "act_mask_padding=True", "inputs targets"),
    "position_start_index": ("universal", _STEP, "", "inputs targets"),
    # In teacher forcing, padding has no effect on this model. In generation, padding changes the
    # outputs, because the generated tokens follow the padding of the inputs.
    "prepend_mode": ("transformer", "prepend_mode=prepend_inputs_masked_attention", "", ""),
    "lstm_seq2seq_attention": ("lstm_attention", "", "attention_mask_padding=True", "inputs"),
    "neural_gpu": ("neural_gpu", "", "conv_mask_padding=True", "inputs"),
    "universal_transformer_encoder": ("encoder", "", 'class_label_pooling="last"', "inputs"),
}


def _changed_by_padding(model, kind, name):
    features = examples.features(kind)
    wider = {**features, name: np.pad(features[name], [(0, 0), (0, 3)])}
    first = model(features, training=False)
    second = model(wider, training=False)
    if len(first.shape) == 3:
        second = second[:, : first.shape[1]]
    return np.abs(first - second).max() > 1e-4


@pytest.mark.parametrize("row", ROWS)
def test_padding_changes_outputs_as_documented(row):
    kind, overrides, cure, expected = ROWS[row]
    model = examples.make(kind, overrides)
    names = [name for name in examples.features(kind) if not model.class_labels or name == "inputs"]
    assert [name for name in names if _changed_by_padding(model, kind, name)] == expected.split()
    assert batch_plan.why_equal_lengths(model)
    assert bool(model.why_target_padding_matters) == ("targets" in expected)
    if cure:
        model = examples.make(kind, f"{overrides},{cure}".strip(","))
        assert not any(_changed_by_padding(model, kind, name) for name in names)
        assert not batch_plan.why_equal_lengths(model) + batch_plan.why_equal_lengths(
            model, scores=True
        )


def test_convolved_values_are_masked():
    overrides = f"{_V2},add_relative_to_values=True,relative_mask_future=True"
    assert not _changed_by_padding(examples.make("tagger", overrides), "tagger", "inputs")


def test_padding_table_matches_docs():
    with open(DOCS, encoding="utf-8") as file:
        table = file.read().partition("## What padding changes\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| .*? \| (.*?) \|$", table, re.MULTILINE)[1:]
    assert len(rows) == len(ROWS)
    for (setting, cure), (name, row) in zip(rows, ROWS.items(), strict=True):
        assert f"{name}" in setting
        assert cure == (f"`{row[2]}`" if row[2] else "none")


@pytest.mark.parametrize("kind", [k for k in examples.KINDS if "stories" not in k])
def test_examples_that_may_share_a_batch(kind):
    model = examples.shared(kind)
    prompts_and_encoders = kind.endswith("language_model") or kind in examples.ENCODERS
    attends_to_padding = kind in ("lstm_attention", "lstm_bidirectional", "lstm_classifier")
    assert bool(batch_plan.why_equal_lengths(model)) == (prompts_and_encoders or attends_to_padding)
    assert not model.why_target_padding_matters and not model.why_not_cached
