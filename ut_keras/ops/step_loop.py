"""A loop over recurrence steps, which is unrolled in XLA programs for a GPU."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ut_keras.ops import devices, own_layers, private_api

# Loops with more steps are not unrolled, because the time of compiling grows with the number of
# unrolled steps. A step with a condition takes more than twice as long to compile as another step.
MAX_UNROLLED_STEPS = 12
MAX_UNROLLED_CONDITIONS = 8


def run(
    layer: keras.layers.Layer,
    should_continue: Callable[[Any], tf.Tensor],
    take_step: Callable[[Any], Any],
    first: Any,
    max_steps: int,
    takes_all_steps: bool = False,
) -> Any:
    """Take steps while `should_continue` is True, and return the last state.

    Usually the loop is a `tf.while_loop`. If XLA compiles it for a GPU, the loop is unrolled: the
    program contains the steps one after another. An unrolled loop is faster for two reasons:

    - The gradient of a `tf.while_loop` needs the intermediate values of all steps. XLA fills an
      array for these values with zeros, and copies the values of each step into the array and out
      of it. An unrolled loop has no such array.
    - XLA casts each weight once, and not in each step.

    If the number of steps is not known, each unrolled step is a `tf.cond`. XLA cannot compile the
    gradient of a `tf.cond` that contains a `tf.while_loop`. A layer of a user may contain a
    `tf.while_loop`. Therefore `run` does not unroll a loop with an unknown number of steps if
    `layer` is a layer of a user, or contains one.

    Args:
        layer: the layer that takes the steps.
        should_continue: function from a state to a bool scalar.
        take_step: function from a state to the next state, which has the same structure and shapes.
        first: nest of tensors, the state before the first step.
        max_steps: int, the largest number of steps.
        takes_all_steps: bool. Whether `should_continue` is known to be True in all `max_steps`
            steps.

    Returns:
        Nest like `first`.
    """
    if not _is_unrolled(layer, first, max_steps, takes_all_steps):
        (last,) = tf.while_loop(
            should_continue,
            lambda state: (take_step(state),),
            (first,),
            maximum_iterations=max_steps,
        )
        return last
    state = first
    for _ in range(max_steps):
        if takes_all_steps:
            state = take_step(state)
        else:
            state = _take_step_if(should_continue(state), take_step, state)
    return state


def empty_array(max_size: int) -> tf.TensorArray:
    """Return an empty float32 array for values that the steps of a loop write.

    The values are for inspection. Without XLA, the array grows with every written entry. XLA cannot
    enlarge an array, and would ignore all writes to an array of size 0. Therefore, under XLA, the
    array has its largest size from the start.

    Args:
        max_size: int, the largest possible number of entries.
    """
    if private_api.is_compiled_by_xla():
        return tf.TensorArray(tf.float32, max_size, clear_after_read=False)
    return tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)


def stack_array(array: tf.TensorArray, size: Any) -> tf.Tensor:
    """Return the entries of an array of `empty_array` as one tensor.

    Args:
        array: the array, after the last step.
        size: int, or int32 scalar: the number of entries that were written.
    """
    return array.stack()[:size] if private_api.is_compiled_by_xla() else array.stack()


def is_unrolled(num_steps: Any) -> bool:
    """Return whether `run` unrolls a loop that takes all of its steps.

    Args:
        num_steps: int, or int32 scalar.
    """
    return (
        private_api.is_compiled_by_xla()
        and devices.has_gpu()
        and isinstance(num_steps, int)
        and num_steps <= MAX_UNROLLED_STEPS
    )


def _is_unrolled(layer, first, max_steps, takes_all_steps):
    if takes_all_steps or not is_unrolled(max_steps):
        return is_unrolled(max_steps)
    return (
        max_steps <= MAX_UNROLLED_CONDITIONS
        and own_layers.are_all(layer)
        and all(_has_known_shape(leaf) for leaf in tf.nest.flatten(first, expand_composites=True))
    )


def _has_known_shape(leaf):
    """Return whether XLA knows the shape of a result of a `tf.cond`."""
    if isinstance(leaf, tf.TensorArray):
        return leaf.element_shape.is_fully_defined()
    return tf.convert_to_tensor(leaf).shape.is_fully_defined()


def _take_step_if(condition, take_step, state):
    """Return the state after one more step if `condition`, and otherwise `state`."""
    return tf.cond(condition, lambda: take_step(state), lambda: state)
