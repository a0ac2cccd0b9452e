"""Metrics of teacher-forced logits.

With teacher forcing, the model predicts each target from the true targets before it. For sequences
(logits [B, T, V]), all ids except 0 count as targets, because 0 is padding. For class labels
(logits [B, C]), every example counts, because 0 is a class. The metrics ignore sequences that
consist only of padding, so that these sequences can fill up a batch. (T2T counts these sequences as
correct.)

If the data contain weights, the sum and the count are weighted. Targets with weight 0 have no
effect. See `weights`.

References: tensor2tensor/utils/metrics.py.
"""

from typing import TypeAlias

import tensorflow as tf

from ut_keras import registry
from ut_keras.metrics import weights as weights_lib
from ut_keras.ops import log_softmax, maximum

METRICS = registry.Registry("metric")
Weights: TypeAlias = tf.Tensor | None
Pair: TypeAlias = tuple[tf.Tensor, tf.Tensor]  # the sum and the count of a metric


@METRICS.register("accuracy")
def accuracy(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Compute the fraction of targets that have the largest logit."""
    correct, weights = _correct(logits, targets, weights)
    return tf.reduce_sum(correct * weights), tf.reduce_sum(weights)


@METRICS.register("accuracy_top5")
def accuracy_top5(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Compute the fraction of targets whose logit is among the five largest.

    If there are fewer than five logits, every target is correct.
    """
    logits, targets, weights = flatten(logits, targets, weights)
    _, best = tf.math.top_k(logits, k=min(5, logits.shape[-1] or 5))
    hit = tf.reduce_any(best == targets[..., tf.newaxis], axis=-1)
    return tf.reduce_sum(tf.cast(hit, tf.float32) * weights), tf.reduce_sum(weights)


@METRICS.register("accuracy_per_sequence")
def accuracy_per_sequence(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Compute the fraction of sequences whose targets are all correct.

    The metric ignores targets with weight 0.
    """
    correct, weights = _correct(logits, targets, weights)
    wrong = tf.reduce_sum((1.0 - correct) * weights, axis=1)
    counted = tf.reduce_max(weights, axis=1)
    right = tf.cast(wrong == 0, tf.float32) * counted
    return tf.reduce_sum(right), tf.reduce_sum(counted)


@METRICS.register("neg_log_perplexity")
def neg_log_perplexity(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Compute the mean log probability of the targets, without label smoothing."""
    logits, targets, weights = flatten(logits, targets, weights)
    return tf.reduce_sum(log_softmax.of_ids(logits, targets) * weights), tf.reduce_sum(weights)


@METRICS.register("edit_distance")
def edit_distance(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> Pair:
    """Compute the number of insertions, deletions and substitutions per target.

    The metric removes padding ids from the predictions and the targets. As in T2T, predictions
    after the end of the targets count as insertions.
    """
    per_sequence = sequence_weights(logits, targets, weights)
    logits, targets, _ = flatten(logits, targets)
    predictions = maximum.argmax(logits, targets.dtype)
    # Remove the sequence that `_sparse` adds.
    distances = tf.edit_distance(_sparse(predictions), _sparse(targets), normalize=False)[:-1]
    counts = tf.math.count_nonzero(targets, axis=1, dtype=tf.float32)
    return tf.reduce_sum(distances * per_sequence), tf.reduce_sum(counts * per_sequence)


def flatten(
    logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return logits [B, T, V] in float32, targets [B, T] and weights [B, T].

    For class labels, T is 1.
    """
    class_labels = _are_classes(logits)
    targets, weights = weights_lib.targets_and_weights(targets, class_labels, weights)
    logits = tf.cast(logits, tf.float32)
    return logits[:, tf.newaxis] if class_labels else logits, targets, weights


def sequence_weights(logits: tf.Tensor, targets: tf.Tensor, weights: Weights = None) -> tf.Tensor:
    """Return the weight of each sequence, float32 [B]."""
    return weights_lib.sequence_weights(targets, _are_classes(logits), weights)


def _are_classes(logits):
    return len(logits.shape) == 2


def _correct(logits, targets, weights=None):
    """Return whether each target is predicted, float32 [B, T], and the weights [B, T]."""
    logits, targets, weights = flatten(logits, targets, weights)
    return tf.cast(maximum.is_argmax(logits, targets), tf.float32), weights


def _sparse(ids):
    # `tf.edit_distance` fails for an empty batch, which a replica may get. Therefore this function
    # adds a sequence that consists of padding.
    ids = tf.pad(ids, [[0, 1], [0, 0]])
    indices = tf.where(ids != 0)
    return tf.SparseTensor(indices, tf.gather_nd(ids, indices), tf.shape(ids, out_type=tf.int64))
