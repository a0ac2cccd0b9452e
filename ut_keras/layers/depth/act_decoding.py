"""Adaptive Computation Time with a decoding cache that contains halted positions.

At step n, a position attends to the states that earlier positions have at step n. An earlier
position may have halted before step n, so the cache must define the state of this position at step
n. The definition depends on `halted_state`:

- `halted_state="transform"`: the block transforms a halted position further at every step.
  `extend_lazily` computes the state of a position at step n only when a later position reaches step
  n for the first time. In the cache, a position is a column. With beam search, the cache has one
  column per position and beam. The cache stores the last computed state of each column, and the
  number of steps computed so far (`LazyDepthCache`).
- `halted_state="copy"`: a halted position keeps its state, so its keys and values are the same at
  all deeper steps. `act_skipping.loop_over_running_positions` writes these keys and values for all
  deeper steps when the position halts. Convolutions and SRUs are an exception. They mix neighboring
  positions, so their output at a halted position still changes. If the block or the timing layer
  contains a convolution or an SRU, the model uses the lazy cache instead.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.depth import act_step

_NOT_WRITTEN = -1


class LazyDepthCache(NamedTuple):
    """A decoding cache that computes deeper steps of a column only when needed."""

    stores: tuple  # the result of `Depth.start_cache`
    depth: tf.Tensor  # int32 [C], the number of computed steps of each column, or -1 if it is empty
    # dict of stores [B · C, D]. The store "state" contains the last computed state of each column.
    # With an input injection, the store "inputs" contains the input of the recurrence.
    last_states: dict
    ancestors: tf.Tensor  # int32 [C, B, L], the ancestors of each column, or () with one beam


def start_cache(act_layer: Any, stores: tuple, size: cache_lib.CacheSize) -> LazyDepthCache:
    """Return the cache with which `extend_lazily` starts. `stores` must be empty."""
    ancestors = ()
    if size.beams > 1:
        ancestors = cache_lib.writable_zeros([size.columns, size.batch, size.length], tf.int32)
    last_states = cache_lib.start(_state_widths(act_layer), size, dtype=act_layer.compute_dtype)
    return LazyDepthCache(stores, tf.fill([size.columns], _NOT_WRITTEN), last_states, ancestors)


def move_columns(
    act_layer: Any, cache: LazyDepthCache, size: cache_lib.CacheSize, order: tf.Tensor
) -> LazyDepthCache:
    """Return a cache with columns copied from `cache`. See `Depth.move_columns`.

    The caller must move the columns of `cache.stores` first.
    """
    num_new = tf.maximum(tf.shape(order)[1] - size.columns, 0)
    last_states = cache_lib.gather_columns(cache.last_states, _state_widths(act_layer), size, order)
    depth = tf.pad(cache.depth, [[0, num_new]], constant_values=_NOT_WRITTEN)
    ancestors = cache.ancestors
    if size.beams > 1:
        ancestors = tf.pad(ancestors, [[0, num_new], [0, 0], [0, num_new // size.beams]])
    return LazyDepthCache(cache.stores, depth, last_states, ancestors)


def extend_lazily(
    act_layer: Any,
    state: tf.Tensor,
    cache: LazyDepthCache,
    window: cache_lib.Window,
    context: act_step.StepContext,
) -> tuple[tf.Tensor, LazyDepthCache]:
    """Compute new columns, and the deeper steps of older columns.

    New columns attend to these deeper steps of older columns.

    In iteration n of the loop, the columns that have taken exactly n steps take one more step.
    These are the columns of the window, and the older columns that were never computed at step n.
    With `halted_state="copy"`, a halted column keeps its state, but the loop still writes its keys
    and values to the cache.

    Args and returns: as `Depth.extend`.
    """
    cache = add_window(act_layer, cache, state, window, context.recurrence_input)

    def body(loop_state, cache):
        # The columns of the window have the highest indices, so they are the last active columns.
        active = tf.cast(tf.where(cache.depth == loop_state.step)[:, 0], tf.int32)
        num_earlier = tf.shape(active)[0] - tf.shape(state)[1]
        loop_state, cache = _apply_step_to_columns(
            act_layer, active, loop_state, cache, window.size, context, num_earlier
        )
        # The cache stores the new states. The loop state contains the initial state instead,
        # because the shape of a loop variable must not change.
        return loop_state._replace(state=state), cache

    loop_state, cache = tf.while_loop(
        lambda loop_state, cache: act_step.should_continue(act_layer, loop_state, context),
        body,
        (act_step.start(act_layer, state), cache),
        maximum_iterations=context.max_steps,
    )
    return loop_state.output, cache


def _apply_step_to_columns(act_layer, columns, loop_state, cache, size, context, num_earlier):
    """Apply one step to columns int32 [A].

    The first `num_earlier` of the columns have halted.
    """
    before, context, caches, last_states = inputs_of_columns(
        act_layer, cache, columns, loop_state.step, size, context
    )
    context = context._replace(num_earlier=num_earlier)
    loop_state = loop_state._replace(state=before)
    loop_state = act_step.apply_step(act_layer, loop_state, context).loop_state
    last_states.write("state", loop_state.state)
    depth = tf.tensor_scatter_nd_update(
        cache.depth, columns[:, tf.newaxis], tf.fill(tf.shape(columns), loop_state.step)
    )
    stores = tuple(part.stores for part in caches)
    return loop_state, LazyDepthCache(stores, depth, last_states.stores, cache.ancestors)


class ColumnInputs(NamedTuple):
    """The inputs of a step of some columns, and the caches to which the step writes."""

    before: tf.Tensor  # [B, A, D], the states before the step
    context: act_step.StepContext
    caches: list[cache_lib.LayerCache]  # as in `caches_of`
    last_states: cache_lib.LayerCache  # as in `state_cache`


def inputs_of_columns(
    act_layer: Any,
    cache: LazyDepthCache,
    columns: tf.Tensor,
    step: tf.Tensor,
    size: cache_lib.CacheSize,
    context: act_step.StepContext,
) -> ColumnInputs:
    """Return the `ColumnInputs` of one step of some columns.

    Args:
        cache: the cache that contains the columns.
        columns: int32 [A], the indices of the columns, in ascending order.
        step: int32 scalar, the number of steps that the columns have taken.
        context: `StepContext` of the new columns.
    """
    window = _window_of(cache, columns, size)
    caches = caches_of(act_layer, cache.stores, step, window)
    last_states = state_cache(act_layer, cache, window)
    before, recurrence_input = _states_of(act_layer, last_states, columns)
    inputs = context.inputs._replace(attention_mask=window.attention_mask, cache=caches[:-1])
    context = context._replace(
        inputs=inputs,
        recurrence_input=recurrence_input,
        signals=act_layer.timing.prepare(window.positions, context.max_steps),
        signal_cache=caches[-1],
    )
    return ColumnInputs(before, context, caches, last_states)


def _window_of(cache, columns, size):
    """Return the `Window` of columns int32 [A].

    The columns attend to their ancestors in the cache.
    """
    ancestors = None
    if size.beams > 1:
        ancestors = tf.transpose(tf.gather(cache.ancestors, columns), [1, 0, 2])
    return cache_lib.window(columns, size, ancestors)


def caches_of(
    act_layer: Any, stores: tuple, step: tf.Tensor, window: cache_lib.Window
) -> list[cache_lib.LayerCache]:
    """Return the `LayerCache` of each layer of the block, and of the signals."""
    all_widths = (*act_layer.block.cache_widths(), act_layer.timing.cache_widths())
    return cache_lib.layer_caches(stores, step, cache_lib.layouts(all_widths, window))


def _state_widths(act_layer):
    names = ("state", "inputs") if act_layer.injection is not None else ("state",)
    return dict.fromkeys(names, (1, act_layer.hidden_size))


def state_cache(
    act_layer: Any, cache: LazyDepthCache, window: cache_lib.Window
) -> cache_lib.LayerCache:
    """Return a `LayerCache` that reads and writes the last states of a window."""
    layout = cache_lib.Layout(_state_widths(act_layer), window)
    return cache_lib.LayerCache(cache.last_states, 0, layout)


def _states_of(act_layer, last_states, columns):
    """Return the last states of columns int32 [A], and their inputs of the recurrence.

    Returns:
        (float tensor [B, A, D], float tensor [B, A, D], or None without an input injection).
    """
    before, *inputs = (
        tf.gather(last_states.read(name)[:, 0], columns, axis=1)
        for name in _state_widths(act_layer)
    )
    return before, inputs[0] if inputs else None


def add_window(
    act_layer: Any,
    cache: LazyDepthCache,
    state: tf.Tensor,
    window: cache_lib.Window,
    recurrence_input: tf.Tensor | None,
) -> LazyDepthCache:
    """Add the columns of a window to the cache, at depth 0."""
    last_states = state_cache(act_layer, cache, window)
    first = {"state": state, "inputs": recurrence_input}
    for name in _state_widths(act_layer):
        last_states.write(name, first[name])
    depth = tf.tensor_scatter_nd_update(
        cache.depth, window.columns[:, tf.newaxis], tf.zeros_like(window.columns)
    )
    ancestors = cache.ancestors
    if window.size.beams > 1:
        by_column = tf.transpose(window.ancestors, [1, 0, 2])
        ancestors = cache_lib.write_in_place(ancestors, window.columns, by_column)
    return cache._replace(depth=depth, last_states=last_states.stores, ancestors=ancestors)
