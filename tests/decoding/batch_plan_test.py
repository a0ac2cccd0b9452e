"""Tests of the plan that assigns sequences to batches."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras.decoding import batch_plan


def test_plan_example_of_the_docstring():
    assert batch_plan.plan([3, 9, 2, 8], tokens=20, max_examples=64) == [[1, 3], [0, 2]]


def test_plan_has_every_sequence_once_within_limits():
    lengths = np.random.default_rng(1).integers(1, 60, size=500).tolist()
    batches = batch_plan.plan(lengths, tokens=200, max_examples=16)
    assert sorted(row for batch in batches for row in batch) == list(range(500))
    for batch in batches:
        assert len(batch) <= 16
        assert len(batch) * max(lengths[row] for row in batch) <= 200
    longest = [lengths[batch[0]] for batch in batches]
    assert longest == sorted(longest, reverse=True)
    # Every batch except the last is full: one more sequence would exceed a limit.
    for one, other in zip(batches, batches[1:], strict=False):
        assert len(one) == 16 or (len(one) + 1) * lengths[one[0]] > 200, (one, other)


def test_plan_puts_long_sequence_alone():
    assert batch_plan.plan([5, 1000, 4], tokens=20, max_examples=9) == [[1], [0, 2]]


def test_plan_without_token_limit():
    assert batch_plan.plan([50, 60, 70], tokens=0, max_examples=2) == [[2, 1], [0]]


def test_plan_same_length():
    batches = batch_plan.plan([2, 3, 2, 3, 3], tokens=100, max_examples=2, same_length=True)
    assert batches == [[1, 3], [4], [0, 2]]


def test_plan_without_sequences():
    assert batch_plan.plan([], tokens=10, max_examples=10) == []
    assert batch_plan.plan([]) == batch_plan.plan([], same_length=True) == []


def test_plan_without_limits_is_one_batch_in_order():
    assert batch_plan.plan([2, 9, 3]) == [[0, 1, 2]]


def test_plan_same_lengths_of_targets_and_sources():
    lengths = [(2, 3), (3, 2), (2, 3), (3, 3)]
    assert batch_plan.plan(lengths, same_length=True) == [[3], [1], [0, 2]]


def test_split_groups_by_plan():
    """`split` makes the groups that `plan` returns for the lengths without padding."""
    model = examples.shared("lstm_attention")
    ids = tf.constant([[5, 3, 0], [4, 0, 0], [6, 7, 8], [2, 0, 0], [0, 0, 0]])
    groups = batch_plan.split(model, ids, per_example_length=True)
    assert [group.indices.tolist() for group in groups] == [[2], [0], [1, 3, 4]]
    assert [group.ids.numpy().tolist() for group in groups][1:] == [[[5, 3]], [[4], [2], [0]]]
    [unsplit] = batch_plan.split(model, ids, per_example_length=False)
    np.testing.assert_array_equal(unsplit.ids, ids)


@pytest.mark.parametrize(
    ("kind", "reason", "scoring"),
    [
        ("transformer", "", ""),
        ("language_model", "a prompt is continued", ""),
        ("lstm_attention", "attends to padding", "attends to padding"),
        ("tagger", "also has outputs at padding", "also has outputs at padding"),
        ("encoder", "class_label_pooling=mean", "class_label_pooling=mean"),
    ],
)
def test_why_equal_lengths_gives_reason(kind, reason, scoring):
    model = examples.shared(kind)
    found = batch_plan.why_equal_lengths(model), batch_plan.why_equal_lengths(model, scores=True)
    for text, expected in zip(found, (reason, scoring), strict=True):
        assert expected in text and bool(text) == bool(expected)
