"""A loop over recurrence steps. XLA programs for a GPU contain the steps one after another."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_keras.ops import devices, private_api

# With more steps, XLA compiles a `tf.while_loop`. The time of compiling grows with the number of
# steps that are written out. It is more than twice as long for a step with a condition.
MOST_WRITTEN_OUT = 12
MOST_CONDITIONS = 8


def run(
    should_continue: Callable[[Any], tf.Tensor],
    take_step: Callable[[Any], Any],
    first: Any,
    max_steps: int,
    takes_all_steps: bool = False,
) -> Any:
    """Take steps while `should_continue` is True, at most `max_steps`; return the last state.

    If XLA compiles the loop for a GPU, the steps are written out one after another. If the number
    of steps is not known, each step is one `tf.cond`. The gradient of a `tf.while_loop` needs the
    intermediate values of all steps. XLA first fills a store for these values with zeros, and then
    copies the values of each step into it and out of it. Without a loop, there is no such store. In
    addition, XLA casts a weight once, and not in each step.

    If each step is a `tf.cond`, the gradient of the steps must contain no loop, such as a
    `tf.while_loop` in a user's own layer. XLA cannot compile the gradient of such a condition.
    It can if `recompute` computes the steps again.

    Args:
        should_continue: function from a state to a bool scalar.
        take_step: function from a state to the next state, which has the same structure and shapes.
        first: nest of tensors, the state before the first step.
        max_steps: int.
        takes_all_steps: bool. Whether `should_continue` is known to be True in all `max_steps`
            steps.

    Returns:
        Nest like `first`.
    """
    if not _is_written_out(first, max_steps, takes_all_steps):
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


def _is_written_out(first, max_steps, takes_all_steps):
    if not (private_api.is_compiled_by_xla() and devices.has_gpu()):
        return False
    most = MOST_WRITTEN_OUT if takes_all_steps else MOST_CONDITIONS
    if not isinstance(max_steps, int) or max_steps > most:
        return False
    # XLA must know the shapes of all results of a `tf.cond`.
    return takes_all_steps or all(
        tf.convert_to_tensor(leaf).shape.is_fully_defined()
        for leaf in tf.nest.flatten(first, expand_composites=True)
        if not isinstance(leaf, tf.TensorArray)
    )


def _take_step_if(condition, take_step, state):
    """Return the state after one more step if `condition` is True, and otherwise `state`."""
    return tf.cond(condition, lambda: take_step(state), lambda: state)
