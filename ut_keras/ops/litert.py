"""Alternatives to operations that LiteRT and ONNX do not support.

Usage:

    with litert.tracing():        # functions traced in this context are converted to LiteRT
        ...
    if litert.is_traced():        # True while TensorFlow traces these functions
        ...

This is a context variable instead of an argument. An argument would have to pass through the `call`
of every layer, and a user's layer between two layers of ut_keras would not pass it on.
"""

import contextlib
import contextvars
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from ut_keras.ops import gather

_TRACED = contextvars.ContextVar("litert", default=False)


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Declare that the functions traced in this context are converted to LiteRT."""
    before = _TRACED.set(True)
    try:
        yield
    finally:
        _TRACED.reset(before)


def is_traced() -> bool:
    """Return whether the function that is traced now is converted to LiteRT."""
    return _TRACED.get()


def zeros(shape: Sequence[Any], dtype: tf.DType | str) -> tf.Tensor:
    """Return zeros that the model computes at run time.

    Constant zeros would be stored in the `.tflite` file. LiteRT's converter replaces every
    operation by a constant unless the operation depends on an input or is random. Therefore the
    model computes these zeros from a random number.
    """
    zero = 0 * tf.random.uniform([1] * len(shape))
    return tf.broadcast_to(tf.cast(zero, dtype), shape)


def drop_last_axis(x: tf.Tensor) -> tf.Tensor:
    """Return a tensor [..., 1] without its last axis.

    ONNX's converter does not always know the rank of a tensor inside a loop. It rejects a slice of
    such a tensor, but it accepts a reshape.
    """
    return tf.reshape(x, tf.shape(x)[:-1]) if is_traced() else x[..., 0]


def log_sigmoid(x: tf.Tensor) -> tf.Tensor:
    """Return log(sigmoid(x)), in a form that is finite in a LiteRT file.

    TensorFlow computes log(sigmoid(x)) as -softplus(-x). LiteRT's converter writes softplus as
    log(1 + exp(x)), which overflows for x > 88.7.
    """
    if not is_traced():
        return tf.math.log_sigmoid(x)
    return tf.minimum(x, 0.0) - tf.math.log(1.0 + tf.exp(-tf.abs(x)))  # ONNX has no log1p


def lookup(table: Any, ids: tf.Tensor) -> tf.Tensor:
    """Return rows of a table [V, D], like `gather.rows`.

    In a LiteRT model, the function becomes LiteRT's operation for embeddings, which reads 8-bit
    weights with a scale per row. LiteRT's gather supports only a single scale for all rows. If the
    model used a gather, the file would contain a second copy of the table with a single scale.

    Args:
        table: float [V, D].
        ids: int32 [...]. ONNX reads the id -1 as the last row. So in a model for LiteRT or ONNX, a
            negative id becomes V, for which these runtimes raise an error.

    Returns:
        float [..., D].
    """
    if not is_traced():
        return gather.rows(tf.convert_to_tensor(table), ids)
    ids = tf.where(ids < 0, table.shape[0], ids)
    rows = _lookup(tf.convert_to_tensor(table), tf.reshape(ids, [-1]))
    return tf.reshape(rows, tf.concat([tf.shape(ids), [table.shape[1]]], axis=0))


# LiteRT's converter replaces a function of this name by its own operation.
@tf.function(experimental_implements="embedding_matmul", autograph=False)
def _lookup(table, ids):
    return tf.gather(table, ids)
