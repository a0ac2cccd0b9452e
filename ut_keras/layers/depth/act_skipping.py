"""Adaptive Computation Time at inference: a step computes only what is still running.

Under `halted_state="copy"` a halted position does not change any more, and others see it as it is.
So the loop carries the running positions alone, in a row: each step gathers them, computes, writes
their keys and values among the others, and lets go of those that halt.

Where all positions of an example halt together, nothing of one that has halted is seen by others.
So whole examples leave the loop.

Either way, with a mean ponder time of p, the cost of N steps is that of p.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.depth import act_step
from ut_keras.layers.halting.halting import Halting


def run_positions(
    layers: Any, state: tf.Tensor, given: act_step.Given
) -> tuple[Halting, tf.Tensor]:
    """A pass over whole sequences.

    Args:
        state: float tensor [B, S, D].
    Returns:
        (`Halting` [B, S], output [B, S, D]).
    """
    shape = tf.shape(state)
    size = cache_lib.CacheSize(shape[0], 1, shape[1])
    stores = tuple(
        cache_lib.start(widths, size, dtype=layers.compute_dtype)
        for widths in layers.block.cache_widths()
    )
    places = tf.range(size.length)
    window = cache_lib.Window(places, places, size, None, given.inputs.attention_mask, whole=True)
    starting = given.inputs.padding_mask if layers.halting.mask_padding else None
    return loop_over_running(layers, state, given, stores, window, lambda step: 0, starting)[:2]


def loop_over_running(
    layers: Any,
    state: tf.Tensor,
    given: act_step.Given,
    stores: tuple,
    window: cache_lib.Window,
    store_of_step: Callable[[Any], Any],
    starting: tf.Tensor | None = None,
) -> tuple[Halting, tf.Tensor, tuple]:
    """The loop.

    Args:
        given: `Given`; the signals are of the Q places.
        state: float tensor [B, Q, D].
        stores: of a cache, one dict per layer.
        window: `Window` of the Q places.
        store_of_step: function from a step to the entry of the stores that is its own.
        starting: bool [B, Q]. Who takes a first step; None: all.
    Returns:
        (`Halting` [B, Q], output [B, Q, D], stores).
    """
    shape, given = tf.shape(state), given._replace(copies=False)  # who has halted is not there
    grid, all_widths = shape[:2], layers.block.cache_widths()

    def caches_at(step, index, stores):
        rows, entry = cache_lib.Rows(index, grid), store_of_step(step)
        return [
            cache_lib.LayerCache(part, entry, cache_lib.Layout(widths, window, rows))
            for part, widths in zip(stores, all_widths, strict=True)
        ]

    def given_to(index, caches):
        rows, padding_mask = caches[0].layout.rows, given.inputs.padding_mask
        real = None if padding_mask is None else rows.collect(padding_mask)
        first = None if given.first is None else tf.gather_nd(given.first, index)[tf.newaxis]
        inputs = given.inputs._replace(padding_mask=real, cache=caches)
        return given._replace(inputs=inputs, first=first, places=index[:, 1])

    def body(index, rows, results, stores):
        caches = caches_at(rows.step, index, stores)
        new = act_step.take(layers, rows, given_to(index, caches)).loop
        goes_on = new.halting.running[0]
        done_at, done = _select(~goes_on, index, new)
        seen_at, seen = done_at, done
        if window.whole:  # by those alone that run on in the same example; else by later symbols
            going = tf.math.unsorted_segment_sum(tf.cast(goes_on, tf.int32), index[:, 0], grid[0])
            seen_at, seen = _select(tf.gather(going, done_at[:, 0]) > 0, done_at, done)
        caches = caches_at(new.step, seen_at, [cache.stores for cache in caches])
        layers.block.remember(seen.state, caches)
        results = _write(results, done_at, done, grid)
        stores = tuple(cache.stores for cache in caches)
        return (*_select(goes_on, index, new), results, stores)

    if starting is None:
        starting = tf.ones(grid, tf.bool)
    else:  # who takes no step may be looked at all the same
        idle = tf.cast(tf.where(~starting), tf.int32)
        caches = caches_at(0, idle, stores)
        layers.block.remember(tf.gather_nd(state, idle)[tf.newaxis], caches)
        stores = tuple(cache.stores for cache in caches)
    index = tf.cast(tf.where(starting), tf.int32)  # [R, 2], example and place of who still runs
    rows = act_step.start(layers, tf.gather_nd(state, index)[tf.newaxis])  # [1, R]
    num_places = shape[0] * shape[1]
    results = (  # of the whole grid
        cache_lib.empty([num_places, len(Halting._fields)], tf.float32),
        cache_lib.empty([num_places, state.shape[-1]], state.dtype),
    )
    index, rows, results, stores = tf.while_loop(
        lambda index, rows, results, stores: layers.halting.may_step(
            rows.halting, given.max_steps, given.epsilon
        ),
        body,
        (index, rows, results, stores),
        shape_invariants=(_shapes(index, 0), _shapes(rows, 1), _shapes(results), _shapes(stores)),
        maximum_iterations=given.max_steps,
    )
    halting, output = _write(results, index, rows, grid)
    output = tf.reshape(output, shape)
    output.set_shape(state.shape)
    halting = tf.reshape(halting, [*tf.unstack(grid), len(Halting._fields)])
    halting.set_shape([*state.shape[:2], len(Halting._fields)])
    return Halting(*tf.unstack(halting, axis=-1)), output, stores


def run_examples(
    layers: Any, start: act_step.Pondering, given: act_step.Given
) -> act_step.Pondering:
    """The loop where all positions of an example halt together, and leave it together.

    Args:
        start: `Pondering` of the B examples.
        given: `Given`, of an encoder.
    Returns:
        `Pondering`, of which `halting` and `output` count.
    """
    num_examples = tf.shape(start.state)[0]
    of_rows = (given.first, given.inputs.attention_mask, given.inputs.padding_mask)
    whole = [x if x is None else _of_all(x, num_examples) for x in of_rows]

    def body(rows, loop, results):
        first, may_attend, real = (x if x is None else tf.gather(x, rows) for x in whole)
        inputs = given.inputs._replace(attention_mask=may_attend, padding_mask=real)
        loop = act_step.take(layers, loop, given._replace(inputs=inputs, first=first)).loop
        results = tf.nest.map_structure(
            lambda all_of_them, some: tf.tensor_scatter_nd_update(
                all_of_them, rows[:, tf.newaxis], some
            ),
            results,
            (loop.halting, loop.output),
        )
        running = tf.where(loop.halting.running)[:, 0]
        kept = tf.nest.map_structure(lambda x: tf.gather(x, running), loop[1:])
        return tf.gather(rows, running), act_step.Pondering(loop.step, *kept), results

    first, results = (tf.range(num_examples), start), (start.halting, start.output)
    _, last, (halting, output) = tf.while_loop(
        lambda rows, loop, results: layers.halting.may_step(
            loop.halting, given.max_steps, given.epsilon
        ),
        body,
        (*first, results),
        shape_invariants=(*_shapes(first, 0), _shapes(results)),
        maximum_iterations=given.max_steps,
    )
    return last._replace(halting=halting, output=output)


def _select(mask, index, rows):
    """(index, `Pondering`) of the rows where `mask` [R] is True."""
    everything = (index, rows[1:])

    def some():
        kept = tf.where(mask)[:, 0]
        of_rows = tf.nest.map_structure(lambda x: tf.gather(x, kept, axis=1), rows[1:])
        return tf.gather(index, kept), of_rows

    index, of_rows = tf.cond(tf.reduce_all(mask), lambda: everything, some)
    return index, act_step.Pondering(rows.step, *of_rows)


def _write(results, index, rows, grid):
    """The results with those of some rows, in their places."""
    places = index[:, 0] * grid[1] + index[:, 1]
    halting, output = results
    return (
        cache_lib.write_rows(halting, places, tf.stack([x[0] for x in rows.halting], axis=-1)),
        cache_lib.write_rows(output, places, rows.output[0]),
    )


def _shapes(nest, free=None):
    """The shapes of a nest; where they have the axis `free`, it may be of any length."""

    def shape(x):
        sizes = tf.TensorShape(x.shape)
        if free is None or sizes.rank <= free:
            return sizes
        return tf.TensorShape([*sizes[:free], None, *sizes[free + 1 :]])

    return tf.nest.map_structure(shape, nest)


def _of_all(x, num_examples):
    """[B, ...] of what may be the same for all, [1, ...]."""
    return tf.broadcast_to(x, (num_examples, *tf.unstack(tf.shape(x))[1:]))
