"""Adaptive Computation Time with a decoding cache of static shapes, for XLA.

`act_decoding` and `act_skipping` compute only the columns that need a step. Their number varies, so
XLA cannot compile these loops. The functions in this module give the same results:

- New columns. Every step computes all new columns, until all of them have halted.
- Earlier columns with the lazy cache. Before step n + 1 of the new columns, some earlier columns
  may have taken only n steps. An inner loop computes step n + 1 of these columns, `CHUNK` columns
  at a time.

The earlier columns that need a step come directly before the new columns, because a column has
never taken more steps than an earlier column. When the columns of a token have taken n steps, every
earlier column has taken at least n steps.
"""

from typing import Any

import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.depth import act_decoding, act_step

# The number of earlier columns that the inner loop computes at a time. With fewer columns, the loop
# has more iterations. With more columns, it repeats more of them to fill the last chunk.
CHUNK = 16


def extend(
    act_layer: Any,
    state: tf.Tensor,
    cache: Any,
    window: cache_lib.Window,
    context: act_step.StepContext,
) -> tuple[tf.Tensor, Any]:
    """Compute new columns. The arguments and results are those of `Depth.extend`."""
    if act_layer.halted_positions_are_constant:
        return _extend_constant(act_layer, state, cache, window, context)
    return _extend_lazily(act_layer, state, cache, window, context)


def _extend_constant(act_layer, state, cache, window, context):
    """Compute new columns if a halted column has equal keys and values at all steps."""

    def apply_step(loop_state, stores):
        return _step_of_window(act_layer, loop_state, stores, window, context)

    loop_state, stores = _loop(
        act_layer, apply_step, context, act_step.start(act_layer, state), cache
    )
    caches = act_decoding.caches_of(act_layer, stores, loop_state.step, window)
    act_layer.block.write_cache(loop_state.state, caches[:-1])
    return loop_state.output, tuple(part.stores for part in caches)


def _extend_lazily(act_layer, state, cache, window, context):
    """Compute new columns, and the deeper steps of earlier columns: `LazyDepthCache`."""
    cache = act_decoding.add_window(act_layer, cache, state, window, context.recurrence_input)
    depth_before = cache.depth
    column_numbers, first = tf.range(window.size.columns), window.columns[0]

    def apply_step(loop_state, cache):
        # The first earlier column that has not taken the step, or `first` if there is none.
        is_deeper = (depth_before > loop_state.step) & (column_numbers < first)
        start = tf.math.count_nonzero(is_deeper, dtype=tf.int32)
        cache = _step_of_earlier(act_layer, start, first, loop_state.step, cache, window, context)
        loop_state, stores = _step_of_window(act_layer, loop_state, cache.stores, window, context)
        return loop_state, cache._replace(stores=stores)

    loop_state, cache = _loop(
        act_layer, apply_step, context, act_step.start(act_layer, state), cache
    )
    last_states = act_decoding.state_cache(act_layer, cache, window)
    last_states.write("state", loop_state.state)
    is_written = column_numbers <= window.columns[-1]
    depth = tf.where(is_written, tf.maximum(depth_before, loop_state.step), depth_before)
    return loop_state.output, cache._replace(depth=depth, last_states=last_states.stores)


def _loop(act_layer, apply_step, context, loop_state, cache):
    """Call `apply_step` until all new columns have halted."""
    return tf.while_loop(
        lambda loop_state, cache: act_step.should_continue(act_layer, loop_state, context),
        apply_step,
        (loop_state, cache),
        maximum_iterations=context.max_steps,
    )


def _step_of_window(act_layer, loop_state, stores, window, context):
    """Apply one step to the new columns."""
    caches = act_decoding.caches_of(act_layer, stores, loop_state.step, window)
    inputs = context.inputs._replace(cache=caches[:-1])
    context = context._replace(inputs=inputs, signal_cache=caches[-1])
    loop_state = act_step.apply_step(act_layer, loop_state, context).loop_state
    return loop_state, tuple(part.stores for part in caches)


def _step_of_earlier(act_layer, start, end, step, cache, window, context):
    """Apply one step to the earlier columns `start` .. `end` - 1.

    The loop computes `CHUNK` columns at a time.
    """

    def body(start, stores, last_states):
        # The last chunk is filled with copies of the last earlier column.
        columns = tf.minimum(start + tf.range(CHUNK), end - 1)
        before = cache._replace(stores=stores, last_states=last_states)
        after = _step_of_columns(act_layer, columns, step, before, window.size, context)
        return start + CHUNK, *after

    _, stores, last_states = tf.while_loop(
        lambda start, *_: start < end, body, (start, cache.stores, cache.last_states)
    )
    return cache._replace(stores=stores, last_states=last_states)


def _step_of_columns(act_layer, columns, step, cache, size, context):
    """Apply one step to columns that have halted.

    Args:
        columns: int32 [A], in ascending order. All of them have taken `step` steps.

    Returns:
        (stores, last_states), as in `LazyDepthCache`.
    """
    before, context, caches, last_states = act_decoding.inputs_of_columns(
        act_layer, cache, columns, step, size, context
    )
    running = tf.zeros(tf.shape(before)[:2], tf.bool) if context.copy_halted else None
    _, block_output = act_step.apply_block(act_layer, before, step, running, context)
    last_states.write("state", block_output.output)
    return tuple(part.stores for part in caches), last_states.stores
