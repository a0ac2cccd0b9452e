import tensorflow as tf

from tests.training.toy import ToyOutput, ToyStack
from ut_keras.training import ponder

_INPUTS = tf.constant([[5, 6, 0], [7, 0, 0]])
_TIMES = tf.constant([[1.0, 2.0, 9.0], [4.0, 9.0, 9.0]])


def _sum_and_count(inputs, times, targets=None, decoder=None, logits_rank=3):
    targets = tf.zeros([2, 1], tf.int32) if targets is None else targets
    logits = tf.zeros([2] * logits_rank)
    stack = None if decoder is None else ToyStack(decoder)
    output = ToyOutput(logits, ToyStack(times), stack)
    found = ponder.times_and_masks(output, {"inputs": inputs, "targets": targets}, targets)
    return [float(value) for value in ponder.sum_and_count(found)]


def test_ponder_time_ignores_padding():
    assert _sum_and_count(_INPUTS, _TIMES) == [7.0, 3.0]


def test_ponder_time_includes_both_stacks():
    targets, decoder = tf.constant([[3, 1], [1, 0]]), tf.constant([[2.0, 2.0], [2.0, 9.0]])
    assert _sum_and_count(_INPUTS, _TIMES, targets, decoder) == [13.0, 6.0]


def test_ponder_time_counts_sentences_as_positions():
    words = tf.stack([tf.zeros_like(_INPUTS), _INPUTS], axis=-1)
    assert _sum_and_count(words, _TIMES) == [7.0, 3.0]


def test_ponder_time_of_act_type_global():
    assert _sum_and_count(_INPUTS, tf.constant([3.0, 4.0])) == [7.0, 2.0]


def test_ponder_time_counts_class_zero():
    decoder = tf.constant([[2.0], [3.0]])
    targets = tf.constant([[0], [1]])
    assert _sum_and_count(_INPUTS, _TIMES, targets, decoder, logits_rank=2) == [12.0, 5.0]


def test_ponder_time_is_zero_without_pondering():
    assert _sum_and_count(_INPUTS, None) == [0.0, 0.0]
