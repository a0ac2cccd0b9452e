"""Recurrences over positions that also support empty sequences."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_keras.ops import private_api


def scan(take_step: Callable[[Any, Any], Any], elements: Any, start: Any) -> Any:
    """Run `tf.scan`, and support empty sequences.

    `tf.scan` itself fails for an empty sequence in a graph.

    Args:
        take_step: function (state, elements of one position) -> state.
        elements: nest of tensors [S, ...].
        start: the state before the first position.

    Returns:
        Nest of tensors [S, ...]: the state after each position.
    """

    def no_states():
        return tf.nest.map_structure(lambda x: tf.zeros_like(x)[tf.newaxis][:0], start)

    first = tf.nest.flatten(elements)[0]
    if first.shape[0]:
        return tf.scan(take_step, elements, start)
    num_positions = tf.shape(first)[0]
    if private_api.is_compiled_by_xla():
        # If the branches of `tf.cond` have different sizes, XLA does not know the size of the
        # result. Later operations then fail, or give wrong results as `tf.cumsum` does. So this
        # form has no `tf.cond`: it computes one more position and removes the state.
        longer = tf.nest.map_structure(
            lambda x: tf.pad(x, [[0, 1], *[[0, 0]] * (x.shape.rank - 1)]), elements
        )
        states = tf.scan(take_step, longer, start)
        return tf.nest.map_structure(lambda x: x[:num_positions], states)
    return tf.cond(num_positions > 0, lambda: tf.scan(take_step, elements, start), no_states)


def last_state(states: Any, start: Any) -> Any:
    """Return the state after the last position, or `start` for an empty sequence.

    Args:
        states: nest of tensors [S, ...] from `scan`.
        start: the state before the first position.
    """
    if tf.nest.flatten(states)[0].shape[0]:
        return tf.nest.map_structure(lambda x: x[-1], states)
    return tf.nest.map_structure(
        lambda x, before: tf.concat([before[tf.newaxis], x], axis=0)[-1], states, start
    )
