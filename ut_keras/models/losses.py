"""What a model is trained by: the loss of its targets, and what it costs to ponder."""

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
    """The parts of the loss of a forward pass.

    Args:
        model: a `Seq2Seq`, which gave the output.
        targets: int [B, T]; [B] or [B, 1] for classes.
        smoothing: float, of the labels.
        weights: float [B], [B, 1] or [B, T], what the targets weigh: see `losses`. Optional.
    Returns:
        dict from T2T's name to a list of `LossTerm`; `losses.total` sums it.
    """
    classes, rows = model.class_labels, None
    if weights is not None:
        rows = weights_lib.of_rows(targets, classes, weights)
    costs, steps = cost_terms(model, output, rows), output.steps
    if steps is None:
        term = losses.target_term(output.logits, targets, smoothing, classes, weights)
        if output.before is not None:  # of one mean with the targets
            before = losses.target_term(*output.before, smoothing, classes, rows)
            term = losses.LossTerm(*map(tf.add, term, before))
    else:
        mask = output.encoder_mask if output.decoder is None else output.decoder_mask
        mask = None if mask is None else tf.tile(mask, [tf.shape(steps.states)[0], 1])
        logits = model.logits(_as_rows(steps.states), padding_mask=mask)
        shares = _shares(model, steps, mask)
        term = losses.target_term(logits, targets, smoothing, classes, weights, shares)
        if steps.confidence is not None:
            missed = losses.confidence_term(
                steps.confidence, logits, shares, targets, classes, weights
            )
            price = model.hparams.act_loss_weight * missed.numerator
            costs.setdefault("act_loss", []).append(missed._replace(numerator=price))
    return {"training": [term], **costs}


def cost_terms(model: Any, output: ModelOutput, rows: tf.Tensor | None = None) -> Terms:
    """What encoder and decoder cost, each row weighed: see `StateLayer.cost_terms`."""
    stacks = (
        (model.encoder, output.encoder, output.encoder_mask),
        (model.decoder, output.decoder, output.decoder_mask),
    )
    costs: Terms = {}
    for stack, result, padding_mask in stacks:
        if isinstance(stack, state_layer.StateLayer):  # an LSTM costs nothing
            for name, terms in stack.cost_terms(result, padding_mask, rows).items():
                costs.setdefault(name, []).extend(terms)
    return costs


def _as_rows(of_steps):
    """[N, B, ...] to [N * B, ...]: as if each step were the last."""
    return tf.reshape(of_steps, tf.concat([[-1], tf.shape(of_steps)[2:]], axis=0))


def _shares(model, steps, mask):
    """float32 [N, B, T]; [N, B, 1] for classes: of the positions that are read."""
    if not model.class_labels:
        return steps.weights
    of_rows = model.class_label_head.pool(_as_rows(steps.weights)[:, :, tf.newaxis], mask)
    of_rows = tf.reshape(of_rows, [tf.shape(steps.weights)[0], -1, 1])
    return tf.math.divide_no_nan(of_rows, tf.reduce_sum(of_rows, axis=0))
