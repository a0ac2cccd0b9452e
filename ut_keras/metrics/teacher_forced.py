"""Metrics over teacher-forced logits: each target is predicted from the true targets before it.

What counts as a target: with symbols (logits [B, T, V]) every id but 0, the padding; with class
labels (logits [B, C]) every row, since class 0 is a class. T2T counts a row that is all padding as
a correct sequence; here it does not count, so that batches may be filled up.

Data may be weighted: sum and count then are, and what weighs 0 is as good as absent. See `weights`.

References: tensor2tensor/utils/metrics.py.
"""

from typing import TypeAlias

import tensorflow as tf

from ut_keras import registry
from ut_keras.metrics import weights as weights_lib
from ut_keras.ops import log_softmax

METRICS = registry.Registry("metric")
Weights: TypeAlias = tf.Tensor | None
Pair: TypeAlias = tuple[tf.Tensor, tf.Tensor]  # sum and count


@METRICS.register("accuracy")
def accuracy(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Share of targets whose logit is the largest."""
    correct, weights = _correct(logits, targets, weights)
    return tf.reduce_sum(correct * weights), tf.reduce_sum(weights)


@METRICS.register("accuracy_top5")
def accuracy_top5(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Share of targets whose logit is among the five largest (or among all, if fewer)."""
    logits, targets, weights = flatten(logits, targets, weights)
    _, best = tf.math.top_k(logits, k=min(5, logits.shape[-1] or 5))
    hit = tf.reduce_any(best == targets[..., tf.newaxis], axis=-1)
    return tf.reduce_sum(tf.cast(hit, tf.float32) * weights), tf.reduce_sum(weights)


@METRICS.register("accuracy_per_sequence")
def accuracy_per_sequence(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Share of rows in which every target of a weight is right."""
    correct, weights = _correct(logits, targets, weights)
    wrong = tf.reduce_sum((1.0 - correct) * weights, axis=1)
    counted = tf.reduce_max(weights, axis=1)
    right = tf.cast(wrong == 0, tf.float32) * counted
    return tf.reduce_sum(right), tf.reduce_sum(counted)


@METRICS.register("neg_log_perplexity")
def neg_log_perplexity(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Mean log probability of the targets; without label smoothing."""
    logits, targets, weights = flatten(logits, targets, weights)
    return tf.reduce_sum(log_softmax.of(logits, targets) * weights), tf.reduce_sum(weights)


@METRICS.register("edit_distance")
def edit_distance(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Insertions, deletions and substitutions per target; padding ids are left out of both.

    As in T2T, what is predicted behind the end of the targets counts as inserted.
    """
    per_sequence = sequence_weights(logits, targets, weights)
    logits, targets, _ = flatten(logits, targets)
    predictions = tf.argmax(logits, axis=-1, output_type=targets.dtype)
    # Without the row that `_sparse` adds.
    distances = tf.edit_distance(_sparse(predictions), _sparse(targets), normalize=False)[:-1]
    counts = tf.math.count_nonzero(targets, axis=1, dtype=tf.float32)
    return tf.reduce_sum(distances * per_sequence), tf.reduce_sum(counts * per_sequence)


def flatten(
    logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Logits [B, T, V] in float32, targets [B, T] and weights [B, T]; a class label has T = 1."""
    class_labels = _are_classes(logits)
    targets, weights = weights_lib.of_targets(targets, class_labels, weights)
    logits = tf.cast(logits, tf.float32)
    return logits[:, tf.newaxis] if class_labels else logits, targets, weights


def sequence_weights(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> tf.Tensor:
    """What each row weighs, float32 [B]."""
    return weights_lib.of_rows(targets, _are_classes(logits), weights)


def _are_classes(logits):
    return len(logits.shape) == 2


def _correct(logits, targets, weights=None):
    """Whether the largest logit is the target's, as float [B, T], and the weights [B, T]."""
    logits, targets, weights = flatten(logits, targets, weights)
    predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return tf.cast(predictions == targets, tf.float32), weights


def _sparse(ids):
    # The operation fails on no rows, which a replica may get: one row of padding changes nothing.
    ids = tf.pad(ids, [[0, 1], [0, 0]])
    indices = tf.where(ids != 0)
    return tf.SparseTensor(indices, tf.gather_nd(ids, indices), tf.shape(ids, out_type=tf.int64))
