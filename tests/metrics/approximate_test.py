import numpy as np
import pytest
import tensorflow as tf

from tests.training import toy
from ut_keras import metrics
from ut_keras.metrics import approximate, bleu
from ut_keras.training import evaluation

_TARGETS = np.array([[3, 4, 5, 6, 7, 1, 0], [5, 2, 6, 2, 5, 2, 1]], "int32")
_PREDICTIONS = np.array([[3, 4, 5, 6, 2, 1, 0], [5, 6, 2, 5, 2, 1, 7]], "int32")
_NAMES = ("approx_bleu_score", "rouge_2_fscore", "rouge_L_fscore")


def _logits(predictions):
    return np.eye(8, dtype="float32")[predictions]


def _pair(name, predictions, targets):
    function = metrics.get(name)
    eager = [float(value) for value in function(_logits(predictions), targets)]
    graph = [float(value) for value in tf.function(function)(_logits(predictions), targets)]
    assert eager == graph
    return eager


def _value(name, predictions, targets):
    total, count = _pair(name, predictions, targets)
    assert count == (1 if name == "approx_bleu_score" else len(targets))
    return total / count


def _lcs(a, b):
    """Compute the length of the longest common subsequence from its definition."""
    if not a or not b:
        return 0
    if a[-1] == b[-1]:
        return _lcs(a[:-1], b[:-1]) + 1
    return max(_lcs(a[:-1], b), _lcs(a, b[:-1]))


def test_common_subsequence():
    rng = np.random.RandomState(0)
    a, b = rng.randint(0, 4, (20, 7)), rng.randint(0, 4, (20, 6))
    expected = [_lcs(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert approximate.common_subsequence_lengths(a, b).tolist() == expected


def test_bleu_of_a_batch():
    expected = bleu.compute_bleu(_TARGETS.tolist(), _PREDICTIONS.tolist())
    assert 0.3 < expected < 0.9
    assert _pair("approx_bleu_score", _PREDICTIONS, _TARGETS) == pytest.approx([expected, 1])


def test_rouge_2_counts_each_pair_once():
    # In sequence 0, targets and predictions have 6 pairs each, and 4 pairs are in both.
    # In sequence 1, the targets have the pairs 52 26 62 25 21, and the predictions have the pairs
    # 56 62 25 52 21 17. Four pairs are in both: 62 25 52 21.
    precision, recall = 4 / 6, 4 / 5
    expected = (4 / 6 + 2 * precision * recall / (precision + recall)) / 2
    value = _value("rouge_2_fscore", _PREDICTIONS, _TARGETS)
    assert value == pytest.approx(expected, rel=1e-6)


def test_rouge_l():
    # In both sequences, the longest common subsequence has 6 of the 7 ids. The subsequences are
    # 3 4 5 6 1 0 and 5 6 2 5 2 1.
    assert _value("rouge_L_fscore", _PREDICTIONS, _TARGETS) == pytest.approx(6 / 7, rel=1e-6)


@pytest.mark.parametrize("name", _NAMES)
def test_sequences_of_padding_are_ignored(name):
    expected = _pair(name, _PREDICTIONS, _TARGETS)
    padding = np.zeros_like(_TARGETS[:1])
    more = np.concatenate([_TARGETS, padding]), np.concatenate([_PREDICTIONS, padding + 3])
    assert _pair(name, more[1], more[0]) == expected
    assert _pair(name, padding, padding) == [0, 0]


@pytest.mark.parametrize("name", _NAMES)
def test_scores_of_perfect_and_wrong_predictions(name):
    assert _value(name, _TARGETS, _TARGETS) == pytest.approx(1, rel=1e-6)
    assert _value(name, np.full_like(_TARGETS, 7), np.full_like(_TARGETS, 3)) < 0.05


def test_mean_is_over_sequences_or_for_bleu_over_batches():
    model = toy.ToyModel()
    batches = [_TARGETS, _PREDICTIONS[:, :5]]
    dataset = tf.data.Dataset.from_generator(
        lambda: (({"inputs": ids}, ids) for ids in batches),
        output_signature=({"inputs": tf.TensorSpec([None, None], tf.int32)},)
        + (tf.TensorSpec([None, None], tf.int32),),
    )
    functions = {name: metrics.get(name) for name in _NAMES}
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    results = evaluation.Evaluator(model, strategy, functions)(dataset)
    for name, function in functions.items():
        pairs = np.array([function(model({"inputs": ids}), ids) for ids in batches])
        total, count = pairs.sum(axis=0)
        assert results[name] == pytest.approx(total / count, rel=1e-6)


def test_matches_t2t():
    """The expected values are results of tensor2tensor 1.15.7.

    T2T computed them with `rouge_n`, `rouge_l_sentence_level` and `compute_bleu`.
    """
    rng = np.random.RandomState(7)
    targets = rng.randint(0, 6, (5, 12))
    predictions = np.where(rng.rand(5, 12) < 0.6, targets, rng.randint(0, 6, (5, 12)))
    expected = {
        "approx_bleu_score": 0.2546035945415497,
        "rouge_2_fscore": 0.4988683760166168,
        "rouge_L_fscore": 0.7166666388511658,
    }
    for name, value in expected.items():
        assert _value(name, predictions, targets) == pytest.approx(value, rel=1e-6)
