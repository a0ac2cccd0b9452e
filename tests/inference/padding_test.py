import numpy as np

from ut_keras.inference import padding


def test_plan_example_of_the_docstring():
    assert padding.plan([3, 9, 2, 8], tokens=20, max_examples=64) == [[1, 3], [0, 2]]


def test_plan_has_every_sequence_once_within_limits():
    lengths = np.random.default_rng(1).integers(1, 60, size=500).tolist()
    batches = padding.plan(lengths, tokens=200, max_examples=16)
    assert sorted(row for batch in batches for row in batch) == list(range(500))
    for batch in batches:
        assert len(batch) <= 16
        assert len(batch) * max(lengths[row] for row in batch) <= 200
    longest = [lengths[batch[0]] for batch in batches]
    assert longest == sorted(longest, reverse=True)
    # The batches are full: two neighbors would not fit into one.
    for one, other in zip(batches, batches[1:], strict=False):
        assert len(one) == 16 or (len(one) + 1) * lengths[one[0]] > 200, (one, other)


def test_plan_puts_long_sequence_alone():
    assert padding.plan([5, 1000, 4], tokens=20, max_examples=9) == [[1], [0, 2]]


def test_plan_without_token_limit():
    assert padding.plan([50, 60, 70], tokens=0, max_examples=2) == [[2, 1], [0]]


def test_plan_same_length():
    batches = padding.plan([2, 3, 2, 3, 3], tokens=100, max_examples=2, same_length=True)
    assert batches == [[1, 3], [4], [0, 2]]


def test_plan_without_sequences():
    assert padding.plan([], tokens=10, max_examples=10) == []
