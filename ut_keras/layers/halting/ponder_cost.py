"""What it costs to ponder, as a part of a loss."""

from typing import NamedTuple

import tensorflow as tf


class PonderTerm(NamedTuple):
    """A part of a loss: numerator / denominator, or 0 where nothing weighs anything."""

    numerator: tf.Tensor  # float32 scalar
    denominator: tf.Tensor  # float32 scalar


def term(
    cost: tf.Tensor, weight: float, counted: tf.Tensor | None = None, rows: tf.Tensor | None = None
) -> PonderTerm:
    """The price of thinking: `weight` times the mean of the cost.

    Args:
        cost: float32 tensor [B, S] (or [B]), such as steps + remainder.
        weight: float, `act_loss_weight`.
        counted: bool, like the cost, where padding is not to be counted. T2T counts it: leave it
            out.
        rows: float32 [B], what each row weighs. Optional.
    Returns:
        `PonderTerm`.
    References: Dehghani et al. 2019, appendix C; T2T `UniversalTransformer.body`.
    """
    weights = tf.ones_like(cost) if counted is None else tf.cast(counted, tf.float32)
    if counted is not None:
        cost = tf.where(counted, cost, 0.0)
    if rows is not None:
        rows = rows[:, tf.newaxis] if len(cost.shape) == 2 else rows
        cost, weights = cost * rows, weights * rows
    return PonderTerm(weight * tf.reduce_sum(cost), tf.reduce_sum(weights))
