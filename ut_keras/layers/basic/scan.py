"""A recurrence along positions, of which there may be none."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def scan(take_step: Callable[[Any, Any], Any], elements: Any, start: Any) -> Any:
    """`tf.scan`, which fails in a graph where there is nothing to go over.

    Args:
        take_step: function (state, elements of one position) -> state.
        elements: nest of tensors [S, ...]; so is what is returned, the states behind each position.
        start: the state before the first.
    """

    def no_states():
        return tf.nest.map_structure(lambda x: tf.zeros_like(x)[tf.newaxis][:0], start)

    first = tf.nest.flatten(elements)[0]
    if first.shape[0]:
        return tf.scan(take_step, elements, start)
    num_positions = tf.shape(first)[0]
    return tf.cond(num_positions > 0, lambda: tf.scan(take_step, elements, start), no_states)


def last_state(states: Any, start: Any) -> Any:
    """The state behind the last position, which is `start` where there are no positions."""
    if tf.nest.flatten(states)[0].shape[0]:
        return tf.nest.map_structure(lambda x: x[-1], states)
    return tf.nest.map_structure(
        lambda x, before: tf.concat([before[tf.newaxis], x], axis=0)[-1], states, start
    )
