"""What the targets of a batch weigh, in the loss and in the metrics.

Every real symbol weighs 1, and padding nothing; every class weighs 1, for class 0 is a class. Data
may come with weights of their own, of rows ([B] or [B, 1]) or of every target ([B, T]), and those
multiply. Where only rows can be told apart, one weighs as much as the heaviest of its targets.
"""

import tensorflow as tf


def of_targets(
    targets: tf.Tensor, class_labels: bool, weights: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """The targets as columns, and what each weighs.

    Args:
        targets: int [B, T]; [B] or [B, 1] for classes.
        class_labels: bool. Whether they are classes.
        weights: float [B], [B, 1] or [B, T]. Optional.
    Returns:
        (targets int32 [B, T], weights float32 [B, T]); T = 1 for classes.
    Raises:
        ValueError: if targets are floats, which would be cut off, or the weights do not fit them.
    """
    targets = tf.convert_to_tensor(targets)
    if targets.dtype.is_floating:
        received = f"{targets.dtype.name} of shape {targets.shape}"
        raise ValueError(f"Targets must be ids of an int type. Received: {received}.")
    targets = tf.cast(targets, tf.int32)
    if class_labels:
        targets = targets if targets.shape.rank == 2 else tf.reshape(targets, [-1, 1])
        real = tf.ones_like(targets, tf.float32)
    else:
        real = tf.cast(targets != 0, tf.float32)
    if weights is None:
        return targets, real
    weights = columns(weights)
    given, expected = weights.shape[1], targets.shape[1]
    if None not in (given, expected) and given not in (1, expected):
        raise ValueError(
            f"Weights must have the shape [batch] or [batch, {expected}], like the targets. "
            f"Received: {weights.shape}."
        )
    return targets, real * weights


def of_rows(targets: tf.Tensor, class_labels: bool, weights: tf.Tensor | None = None) -> tf.Tensor:
    """What each row weighs as a whole, float32 [B]; a row of padding as if it were real."""
    if weights is None:
        return tf.ones(tf.shape(targets)[:1])
    _, real = of_targets(targets, class_labels)
    _, weighted = of_targets(targets, class_labels, weights)
    is_padding = tf.reduce_all(real == 0, axis=1)
    of_padding = tf.reduce_max(columns(weights), axis=1)
    return tf.where(is_padding, of_padding, tf.reduce_max(weighted, axis=1))


def columns(weights: tf.Tensor) -> tf.Tensor:
    """Weights [B], [B, 1] or [B, T] as float32 [B, 1] or [B, T]."""
    weights = tf.cast(weights, tf.float32)
    if weights.shape.rank == 2:
        return weights
    if weights.shape.rank not in (None, 1):  # None: Keras traces once for several ranks
        raise ValueError(
            "Weights must have the shape [batch] or [batch, target length]. "
            f"Received: {weights.shape}."
        )
    shape = tf.shape(weights)
    return tf.reshape(weights, [shape[0], tf.reduce_prod(shape[1:])])
