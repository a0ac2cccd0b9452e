import numpy as np
import pytest
import tensorflow as tf

from ut_keras import metrics, registry

# Sequence 0 is correct, sequence 1 is wrong at its end, and sequence 2 is only padding.
_TARGETS = np.array([[3, 4, 1, 0], [5, 2, 6, 1], [0, 0, 0, 0]], "int32")
_PREDICTIONS = np.array([[3, 4, 1, 7], [5, 2, 6, 7], [1, 1, 1, 1]], "int32")
_VOCAB_SIZE = 8


def _logits(predictions=_PREDICTIONS):
    noise = np.random.RandomState(0).uniform(0, 1, predictions.shape + (_VOCAB_SIZE,))
    return (noise + 5 * np.eye(_VOCAB_SIZE)[predictions]).astype("float32")


def _pair(name, logits, targets):
    eager = [float(value) for value in metrics.get(name)(logits, targets)]
    graph = [float(value) for value in tf.function(metrics.get(name))(logits, targets)]
    assert eager == graph
    return eager


def test_accuracy_ignores_padding():
    assert _pair("accuracy", _logits(), _TARGETS) == [6, 7]


def test_accuracy_per_sequence_ignores_padding():
    assert _pair("accuracy_per_sequence", _logits(), _TARGETS) == [1, 2]


def test_accuracy_top5():
    logits = np.tile(np.arange(8, dtype="float32"), (1, 4, 1))
    assert _pair("accuracy_top5", logits, np.array([[7, 3, 2, 0]])) == [2, 3]
    assert _pair("accuracy_top5", logits[..., :4], np.array([[3, 1, 2, 0]])) == [3, 3]


def test_neg_log_perplexity():
    logits = _logits()
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    rows, columns = np.nonzero(_TARGETS)
    expected = log_probs[rows, columns, _TARGETS[rows, columns]].sum()
    total, count = _pair("neg_log_perplexity", logits, _TARGETS)
    assert total == pytest.approx(expected, rel=1e-5)
    assert count == 7


def test_edit_distance():
    # The prediction of sequence 0 has one additional id. The prediction of sequence 1 has one wrong
    # id. The prediction of sequence 2, which is padding, has four additional ids.
    assert _pair("edit_distance", _logits(), _TARGETS) == [6, 7]
    # A shift by one position is one deletion and one insertion, not an error at every position.
    shifted = np.array([[2, 3, 4, 5]])
    assert _pair("edit_distance", _logits(np.array([[3, 4, 5, 6]])), shifted) == [2, 4]


def test_edit_distance_ignores_padding():
    predictions = np.array([[3, 0, 4, 0], [0, 0, 0, 0]])
    targets = np.array([[3, 4, 0, 0], [0, 0, 0, 0]])
    assert _pair("edit_distance", _logits(predictions), targets) == [0, 2]


@pytest.mark.parametrize("name", ["accuracy", "accuracy_per_sequence"])
def test_class_zero_is_a_class(name):
    logits = np.eye(4, dtype="float32")[[0, 1, 2]]
    assert _pair(name, logits, np.array([[0], [1], [3]])) == [2, 3]


def test_half_precision_logits_are_summed_in_float32():
    logits = tf.cast(_logits(), tf.bfloat16)
    total, _ = metrics.get("neg_log_perplexity")(logits, _TARGETS)
    assert total.dtype == tf.float32


def test_unknown_metric_lists_the_nearest():
    with pytest.raises(registry.UnknownNameError, match="accuracy_per_sequence"):
        metrics.get("accuracy_per_sequnce")
