"""What LiteRT needs put otherwise: operations that TensorFlow has and it has not.

with litert.tracing():                  what is traced within it
    ...
if litert.is_traced(): ...              is for LiteRT
"""

import contextlib
import contextvars
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

_TRACED = contextvars.ContextVar("litert", default=False)


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Within it, what is traced is for LiteRT."""
    before = _TRACED.set(True)
    try:
        yield
    finally:
        _TRACED.reset(before)


def is_traced() -> bool:
    """bool. Whether what is traced now is for LiteRT."""
    return _TRACED.get()


def zeros(shape: Sequence[Any], dtype: tf.DType | str) -> tf.Tensor:
    """Zeros that are made when they are needed; LiteRT's converter would store constant ones.

    It works out whatever goes by no input, but for what is drawn at random.
    """
    nothing = 0 * tf.random.uniform([1] * len(shape))
    return tf.broadcast_to(tf.cast(nothing, dtype), shape)


def lookup(table: Any, ids: tf.Tensor) -> tf.Tensor:
    """`tf.gather` of the rows of a table [V, D]; LiteRT's own, which reads weights of 8 bits.

    A gather would need the table once more, for its weights have one scale for all rows.
    """
    if not is_traced():
        return tf.gather(table, ids)
    rows = _lookup(tf.convert_to_tensor(table), tf.reshape(ids, [-1]))
    return tf.reshape(rows, tf.concat([tf.shape(ids), [table.shape[1]]], axis=0))


# The name by which LiteRT's converter knows what it has an operation for.
@tf.function(experimental_implements="embedding_matmul", autograph=False)
def _lookup(table, ids):
    return tf.gather(table, ids)
