"""The weights of targets in the loss and in the metrics.

If the data contain no weights, the weight of every token is 1 and the weight of padding is 0. The
weight of every class label is 1, because 0 is a class. The data may contain weights of examples
([B] or [B, 1]) or of targets ([B, T]). In this case, the module multiplies the default weights by
the weights in the data. Metrics of entire sequences use the largest weight among the targets of a
sequence.
"""

import numbers
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from ut_keras.ops import int32


def targets_and_weights(
    targets: tf.Tensor, class_labels: bool, weights: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the targets as a matrix, and the weight of each target.

    Args:
        targets: int [B, T]. For classes, int [B] or [B, 1].
        class_labels: bool. Whether the targets are classes.
        weights: float [B], [B, 1] or [B, T]. Optional.

    Returns:
        (targets int32 [B, T], weights float32 [B, T]), where T = 1 for classes. A negative weight
        becomes NaN, so the loss is NaN. An error is not possible on every device, because a graph
        computes the weights.

    Raises:
        ValueError: if the targets do not have an int dtype. A cast would truncate floats. Also if
            the shape of the weights does not match the targets.
    """
    targets = tf.convert_to_tensor(targets)
    if not targets.dtype.is_integer:
        received = f"{targets.dtype.name} of shape {targets.shape}"
        hint = ""
        if targets.shape.rank == (2 if class_labels else 3) and targets.shape[-1] != 1:
            hint = " For one-hot targets, use np.argmax(targets, axis=-1)."
        elif class_labels:
            hint = (
                ' If the targets are class ids, convert them: targets.astype("int32"). '
                "Models of ut_keras do not predict real numbers."
            )
        raise ValueError(f"Targets must be ids of an int type. Received: {received}.{hint}")
    targets = int32.cast(targets)
    if class_labels:
        targets = targets if targets.shape.rank == 2 else tf.reshape(targets, [-1, 1])
        real = tf.ones_like(targets, tf.float32)
    else:
        if targets.shape.rank is None:  # Keras traces once for several ranks
            targets = tf.ensure_shape(targets, [None, None])
        real = tf.cast(targets != 0, tf.float32)
    if weights is None:
        return targets, real
    weights = as_matrix(weights)
    given, expected = weights.shape[1], targets.shape[1]
    if None not in (given, expected) and given not in (1, expected):
        raise ValueError(
            f"Weights must have the shape [batch] or [batch, {expected}], like the targets. "
            f"Received: {weights.shape}."
        )
    weights = real * weights
    return targets, tf.where(weights < 0, np.nan, weights)


def sequence_weights(
    targets: tf.Tensor, class_labels: bool, weights: tf.Tensor | None = None
) -> tf.Tensor:
    """Return the weight of each sequence, float32 [B].

    The weight is the largest weight among the targets of the sequence. A sequence that consists
    only of padding has the weight that its targets would have if they were real.
    """
    if weights is None:
        return tf.ones(tf.shape(targets)[:1])
    _, real = targets_and_weights(targets, class_labels)
    _, weighted = targets_and_weights(targets, class_labels, weights)
    is_padding = tf.reduce_all(real == 0, axis=1)
    padding_weights = tf.reduce_max(as_matrix(weights), axis=1)
    return tf.where(is_padding, padding_weights, tf.reduce_max(weighted, axis=1))


def as_matrix(weights: tf.Tensor) -> tf.Tensor:
    """Convert weights [B], [B, 1] or [B, T] to float32 [B, 1] or [B, T]."""
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


def check(name: str, weights: np.ndarray, batch_size: int | None = None) -> None:
    """Check that all weights are finite numbers of at least 0.

    The loss is divided by the sum of the weights. Therefore weights of -1 would give the same loss
    as weights of 1.

    Args:
        name: str, for the error.
        weights: array.
        batch_size: int, the number of examples, or None if it is unknown.

    Raises:
        ValueError: if a weight is not a real number, or is negative, NaN or too large for float32;
            or if the number of weights is not `batch_size`. TensorFlow would use a single weight
            for all examples without an error.
    """
    _check_numbers(name, weights)
    if batch_size is not None and weights.shape[:1] != (batch_size,):
        hint = "" if weights.ndim else " If the dataset yields single examples, batch them."
        raise ValueError(
            f"{name} must have a weight for each of the {batch_size} examples. "
            f"Received: an array of shape {weights.shape}.{hint}"
        )
    with np.errstate(over="ignore"):
        weights = weights.astype(np.float32)  # the loss uses this dtype
    wrong = weights[~((weights >= 0) & np.isfinite(weights))]
    if wrong.size:
        raise ValueError(
            f"{name} must be finite and at least 0, because the default loss is divided by the sum "
            f"of the weights. Received: {wrong[0]}. For negative weights, compile the model "
            "with keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)."
        )


def _check_numbers(name, weights):
    """Raise `ValueError` for an array of objects, texts, dates or complex numbers."""
    if weights.dtype.kind in "cmMOSU":
        kinds = sorted({type(value).__name__ for value in weights.ravel().tolist()})
        raise ValueError(
            f"{name} must contain real numbers of a numeric dtype. Received: "
            f"{' and '.join(kinds)}, dtype {weights.dtype}. Convert an array with "
            'astype("float32").'
        )


def of_each_id(class_weight: Mapping[int, float], vocab_size: int) -> np.ndarray:
    """Return the weight of each id, float32 [V]. The default weight is 1.

    Args:
        class_weight: dict from an id to its weight, as for Keras' `fit`.
        vocab_size: int, V.

    Raises:
        ValueError: if `class_weight` is not a dict, if an id is not an int in [0, V), or if a
            weight is not a number.
    """
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must be a dict from an id to its weight, such as {3: 2.0}. "
            f"Received: {type(class_weight).__name__}."
        )
    others = [number for number in class_weight if not isinstance(number, numbers.Integral)]
    if others:
        raise ValueError(f"class_weight must have ints as keys. Received: {others[0]!r}.")
    wrong = [number for number in class_weight if not 0 <= number < vocab_size]
    if wrong:
        raise ValueError(f"class_weight must have ids in [0, {vocab_size}). Received: {wrong[0]}.")
    values = np.array(list(class_weight.values()))
    _check_numbers("class_weight", values)
    table = np.ones(vocab_size, np.float32)
    table[list(class_weight)] = values
    return table
