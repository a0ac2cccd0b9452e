"""The trainer's step: the updates of a batch on all replicas, and sums to report.

step = make_train_step(model, optimizer, strategy, batches.element_spec)
result = step((features, targets))             # or (features, targets, weights)
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras import metrics
from ut_keras.metrics import losses
from ut_keras.optimizers import batch_update
from ut_keras.optimizers import update as update_lib
from ut_keras.training import evaluation, ponder


class StepResult(NamedTuple):
    """The result of an update over all replicas. All scalars are float32."""

    losses: dict  # dict from the name of a loss to its value in this batch
    loss: tf.Tensor  # the sum of the losses, which training minimizes
    # Number (or total weight) of sequences predicted correctly, with teacher forcing.
    correct: tf.Tensor
    sequences: tf.Tensor  # number (or total weight) of sequences
    # Number of targets predicted correctly by a language model; 0 for other models.
    correct_tokens: tf.Tensor
    target_tokens: tf.Tensor  # number of targets of a language model; 0 for other models
    tokens: tf.Tensor  # number of ids in inputs and targets, without padding
    # The same as `correct` and `sequences`, but only for the newest lengths of a curriculum. Both
    # values are 0 if there is no curriculum.
    newest_correct: tf.Tensor
    newest_sequences: tf.Tensor
    ponder_sum: tf.Tensor  # sum of the ponder times of the real positions; 0 without adaptive depth
    ponder_count: tf.Tensor  # number of real positions; 0 without adaptive depth
    ponder: Any  # {stack name: (ponder_times, mask)} of the first replica, for histograms


def make_train_step(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    element_spec: Any,
    jit_compile: bool = False,
    moving_average: Any = None,
    curriculum: Any = None,
) -> Callable[..., StepResult]:
    """Build the compiled update.

    Args:
        model: model with `forward` and `loss_terms`.
        optimizer: a Keras optimizer, created and built in the scope of the strategy.
        strategy: the `tf.distribute.Strategy` of the run.
        element_spec: element spec of the distributed dataset. The update is traced once for all
            lengths that the spec does not fix. If it is None, the update is traced for every batch
            shape, so that XLA knows the shape.
        jit_compile: bool. Whether XLA compiles the update. With several replicas, XLA compiles the
            forward pass and the gradients of each replica, but not the optimizer.
        moving_average: `MovingAverage` of the weights, which the step also updates. Optional.
        curriculum: `Curriculum`, which determines the newest lengths. Optional.

    Returns:
        A function from (features, targets) or (features, targets, weights) to `StepResult`. The
        format of the weights is described in `losses`: float [B], [B, 1] or [B, T].
    """
    # XLA compiles programs for one device, so it cannot compile sums over replicas.
    is_split = jit_compile and strategy.num_replicas_in_sync > 1
    run_replica = functools.partial(_run_replica, model, optimizer, curriculum, is_split)
    signature = None if element_spec is None else [element_spec]
    jit_all = jit_compile and not is_split

    @tf.function(input_signature=signature, jit_compile=jit_all or None, autograph=False)
    def train_step(batch):
        result = strategy.run(run_replica, args=batch)
        if moving_average is not None:
            moving_average.update(optimizer.iterations.value // batch_update.count(model))
        return tf.nest.map_structure(lambda x: strategy.experimental_local_results(x)[0], result)

    return train_step


def _run_replica(model, optimizer, curriculum, is_split, *batch):
    """Update the weights with a replica's part of a batch.

    Each replica calls this function.

    Args:
        is_split: bool. Whether XLA compiles everything except the optimizer and the sums over
            replicas.
        *batch: features, targets and, optionally, weights.

    Returns:
        `StepResult` of all replicas.
    """
    if is_split:
        forward = functools.partial(_counts_and_terms, model, curriculum, batch)
        counts, shares = batch_update.update(
            model, optimizer, forward, update_lib.update_in_two_programs
        )
        return _summed_result(shares, counts.result)
    forward = functools.partial(_output_and_terms, model, batch)
    output, shares = batch_update.update(model, optimizer, forward)
    return _summed_result(shares, _count(model, curriculum, output, *batch))


def _output_and_terms(model, batch, carried):
    """Return the output of a segment's forward pass, and the terms of the loss.

    Args:
        batch: tuple of features, targets and, optionally, weights.
        carried: the state from which the segment starts, or None for the first segment.
    """
    features, targets, *weights = batch
    segment = {} if carried is None else {"carried": carried}
    output = model.forward(features, training=True, **segment)
    return output, model.loss_terms(output, targets, True, *weights)


class _Counts(NamedTuple):
    """The part of a segment's output that XLA's programs return.

    It does not contain the logits, because they are large.
    """

    result: StepResult  # the result of `_count`
    carried: Any  # the state that the next segment starts from, or None


def _counts_and_terms(model, curriculum, batch, carried):
    """Return the same as `_output_and_terms`, with `_Counts` instead of the output."""
    output, terms = _output_and_terms(model, batch, carried)
    result = _count(model, curriculum, output, *batch)
    return _Counts(result, getattr(output, "carried", None)), terms


def _count(model, curriculum, output, features, targets, *weights):
    """Return the `StepResult` of this replica, without losses."""
    logits, targets, *matched = evaluation.match_lengths(model, output.logits, targets, *weights)
    ponder_times = ponder.times_and_masks(output, features, targets)
    ponder_sum, ponder_count = ponder.sum_and_count(ponder_times)
    accuracy = metrics.get("accuracy_per_sequence")
    correct, sequences = accuracy(logits, targets, *matched)
    correct_tokens = target_tokens = tf.zeros([])
    if "inputs" not in features:
        correct_tokens, target_tokens = metrics.get("accuracy")(logits, targets, *matched)
    newest_correct = newest_sequences = tf.constant(0.0)
    if curriculum is not None:
        newest = curriculum.newest_weights(features, targets, *matched)
        newest_correct, newest_sequences = accuracy(logits, targets, newest)
    return StepResult(
        losses={},
        loss=tf.constant(0.0),
        correct=correct,
        sequences=sequences,
        correct_tokens=correct_tokens,
        target_tokens=target_tokens,
        newest_correct=newest_correct,
        newest_sequences=newest_sequences,
        tokens=_count_tokens(features, targets),
        ponder_sum=ponder_sum,
        ponder_count=ponder_count,
        ponder=ponder_times,
    )


def _summed_result(shares, counted):
    """Return the `StepResult` of all replicas.

    Args:
        shares: dict from the name of a loss to this replica's share.
        counted: the result of `_count`.
    """
    loss = tf.add_n(list(shares.values()))
    result = losses.sum_over_replicas(counted._replace(losses=shares, loss=loss, ponder={}))
    return result._replace(ponder=counted.ponder)


def _count_tokens(features, targets):
    counted = [targets, *([features["inputs"]] if "inputs" in features else [])]
    return tf.add_n([tf.math.count_nonzero(ids, dtype=tf.float32) for ids in counted])
