"""The training loss of a model: the loss of the targets and auxiliary losses.

An example of an auxiliary loss is the ponder cost.
"""

from typing import Any

import tensorflow as tf

from ut_keras.layers.depth import state_layer
from ut_keras.metrics import losses
from ut_keras.metrics import weights as weights_lib
from ut_keras.models.output import ModelOutput

Terms = dict[str, list[losses.LossTerm]]


def terms(
    model: Any,
    output: ModelOutput,
    targets: tf.Tensor,
    smoothing: float,
    weights: tf.Tensor | None = None,
) -> Terms:
    """Return the terms of the loss of a forward pass.

    Args:
        model: the `Seq2Seq` that computed the output.
        output: `ModelOutput`.
        targets: int [B, T]; [B] or [B, 1] for classes.
        smoothing: float, the label smoothing.
        weights: float [B], [B, 1] or [B, T], the weights of the targets. See `metrics.losses`.
            Optional.

    Returns:
        dict from T2T's name of a loss to a list of `LossTerm`; `losses.total` sums them.
    """
    logits, targets, weights = model.match_lengths(output.logits, targets, weights)
    classes, example_weights = model.class_labels, None
    if weights is not None:
        example_weights = weights_lib.sequence_weights(targets, classes, weights)
    costs, steps = cost_terms(model, output, example_weights), output.steps
    if steps is None:
        term = losses.target_term(logits, targets, smoothing, classes, weights)
        if output.prepended is not None:  # the loss is then one mean over inputs and targets
            prepended = losses.target_term(*output.prepended, smoothing, classes, example_weights)
            term = losses.LossTerm(*map(tf.add, term, prepended))
    else:
        mask = output.encoder_mask if output.decoder is None else output.decoder_mask
        mask = None if mask is None else tf.tile(mask, [tf.shape(steps.states)[0], 1])
        logits = model.logits(_merge_steps(steps.states), padding_mask=mask)
        step_weights = _step_weights(model, steps, mask)
        term = losses.target_term(logits, targets, smoothing, classes, weights, step_weights)
        if steps.confidence is not None:
            confidence = losses.confidence_term(
                steps.confidence, logits, step_weights, targets, classes, weights
            )
            cost = model.hparams.act_loss_weight * confidence.numerator
            costs.setdefault("act_loss", []).append(confidence._replace(numerator=cost))
    return {"training": [term], **costs}


def cost_terms(model: Any, output: ModelOutput, example_weights: tf.Tensor | None = None) -> Terms:
    """Return the auxiliary losses of encoder and decoder, see `StateLayer.cost_terms`."""
    stacks = (
        (model.encoder, output.encoder, output.encoder_mask),
        (model.decoder, output.decoder, output.decoder_mask),
    )
    costs: Terms = {}
    for stack, result, padding_mask in stacks:
        if isinstance(stack, state_layer.StateLayer):  # an LSTM has no auxiliary loss
            for name, terms in stack.cost_terms(result, padding_mask, example_weights).items():
                costs.setdefault(name, []).extend(terms)
    return costs


def _merge_steps(states):
    """Reshape [N, B, ...] to [N * B, ...], so that each step becomes an example."""
    return tf.reshape(states, tf.concat([[-1], tf.shape(states)[2:]], axis=0))


def _step_weights(model, steps, mask):
    """Return the weight of each step, float32 [N, B, T].

    For classes, the weights are pooled over the positions, [N, B, 1].
    """
    if not model.class_labels:
        return steps.weights
    pooled = model.class_label_head.pool(_merge_steps(steps.weights)[:, :, tf.newaxis], mask)
    pooled = tf.reshape(pooled, [tf.shape(steps.weights)[0], -1, 1])
    return tf.math.divide_no_nan(pooled, tf.reduce_sum(pooled, axis=0))
