"""Adaptive Computation Time at inference: a step computes only the positions still running.

Under `halted_state="copy"` a halted position does not change any more, and others see it as it is.
So the loop carries the running positions alone, in a row: each step gathers them, computes, writes
their keys and values among the others, and lets go of those that halt. With a mean ponder time of
p, the cost of N steps is that of p.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers import cache as cache_lib
from ut_keras.layers import halting as halting_lib
from ut_keras.layers.stack_output import StackOutput
from ut_keras.layers.timing_signal import StepSignals


class StepLayers(NamedTuple):
    """What a step is made of."""

    block: Any  # `TransformerBlock`
    timing: Any  # `StepTimingSignal`
    halting: Any  # `halting.Rule`
    injection: Any  # `InputInjection`, or None
    hidden_size: int  # D
    dtype: str  # of what is computed


class RunningState(NamedTuple):
    """What the loop carries. R positions are still running, out of a grid [B, Q]."""

    step: tf.Tensor  # int32 scalar n
    index: tf.Tensor  # int32 [R, 2]: example, place
    state: tf.Tensor  # [1, R, D]
    halting_probability: tf.Tensor  # float32 [1, R]; as in `ACTState`, the next four too
    remainders: tf.Tensor  # float32 [1, R]
    n_updates: tf.Tensor  # float32 [1, R]
    ponder_cost: tf.Tensor  # float32 [1, R]
    output: tf.Tensor  # [1, R, D]
    results: tuple  # `Results`
    stores: tuple  # of a cache, one dict per layer


class Results(NamedTuple):
    """What has come out, of the whole grid: P = B · Q places."""

    output: tf.Tensor  # [P, D]
    pondered: tf.Tensor  # float32 [P, 3]: ponder time, remainder and ponder cost


def run(
    layers: StepLayers,
    state: tf.Tensor,
    signals: StepSignals,
    attention_mask: tf.Tensor | None,
    padding_mask: tf.Tensor | None,
    memory: Any,
) -> StackOutput:
    """A call of `AdaptiveComputationTime`.

    Args:
        layers: `StepLayers`.
        state, attention_mask, padding_mask, memory: as in its call.
        signals: `StepSignals`.
    Returns:
        `StackOutput`.
    """
    shape = tf.shape(state)
    size = cache_lib.CacheSize(shape[0], 1, shape[1])
    stores = tuple(
        cache_lib.start(widths, size, dtype=layers.dtype) for widths in layers.block.cache_widths()
    )
    window = cache_lib.whole_window(size, attention_mask)
    starting = padding_mask if layers.halting.mask_padding else None
    results, _ = loop_over_running(
        layers, state, signals, memory, stores, window, lambda step: 0, padding_mask, starting
    )
    output = tf.reshape(results.output, shape)
    output.set_shape(state.shape)
    pondered = tf.reshape(results.pondered, [shape[0], shape[1], 3])
    pondered.set_shape([*state.shape[:2], 3])
    ponder_times, remainders, ponder_cost = tf.unstack(pondered, axis=-1)
    return StackOutput(output, ponder_times, remainders, None, None, ponder_cost)


def loop_over_running(
    layers: StepLayers,
    state: tf.Tensor,
    signals: StepSignals,
    memory: Any,
    stores: tuple,
    window: cache_lib.Window,
    store_of_step: Callable[[Any], Any],
    padding_mask: tf.Tensor | None = None,
    starting: tf.Tensor | None = None,
) -> tuple[Results, tuple]:
    """The loop.

    Args:
        layers, memory, padding_mask: as in `run`.
        state: float tensor [B, Q, D].
        signals: `StepSignals` of the Q places.
        stores: of a cache, one dict per layer.
        window: `Window` of the Q places.
        store_of_step: function from a step to the entry of the stores that is its own.
        starting: bool [B, Q]. Who takes a first step; None: all.
    Returns:
        (`Results`, stores).
    """
    shape = tf.shape(state)
    grid, size = shape[:2], state.shape[-1]
    if starting is None:
        starting = tf.ones(grid, tf.bool)

    def caches_at(step, loop):
        rows, entry = cache_lib.Rows(loop.index, grid), store_of_step(step)
        return [
            cache_lib.LayerCache(part, entry, cache_lib.Layout(widths, window, rows))
            for part, widths in zip(loop.stores, layers.block.cache_widths(), strict=True)
        ]

    def body(loop):
        caches = caches_at(loop.step, loop)
        rows = caches[0].layout.rows
        x = loop.state
        if layers.injection is not None:
            x = layers.injection(x, tf.gather_nd(state, rows.index)[tf.newaxis])
        x = layers.timing(x, loop.step, signals, rows.index[:, 1])
        transformed = layers.block.forward(
            x,
            window.attention_mask,
            None if padding_mask is None else rows.collect(padding_mask),
            memory,
            caches=caches,
            training=False,
        )
        halted = layers.halting.halt(halting_lib.Step(loop.state, x, transformed.output), loop)
        new = loop._replace(
            state=transformed.output,
            halting_probability=halted.halting_probability,
            remainders=halted.remainders,
            n_updates=halted.n_updates,
            ponder_cost=halted.ponder_cost,
            output=layers.halting.mix(transformed.output, loop.output, halted.update_weights),
            stores=tuple(cache.stores for cache in caches),
        )
        goes_on = halted.halting_probability[0] < 1.0
        done = _select(new, ~goes_on)
        seen = done
        if window.whole:  # by those alone that run on in the same example; else by later symbols
            seen = _select(done, _with_company(done, loop.index, goes_on, grid))
        caches = caches_at(loop.step + 1, seen._replace(stores=new.stores))
        layers.block.remember(seen.state, caches)
        return (
            _select(new, goes_on)._replace(
                step=loop.step + 1,
                results=_write(loop.results, done, grid),
                stores=tuple(cache.stores for cache in caches),
            ),
        )

    index = tf.cast(tf.where(starting), tf.int32)
    first = tf.gather_nd(state, index)[tf.newaxis]
    zeros = tf.zeros([1, tf.shape(index)[0]])
    num_places = shape[0] * shape[1]
    start = RunningState(
        step=tf.constant(0),
        index=index,
        state=first,
        halting_probability=zeros,
        remainders=zeros,
        n_updates=zeros,
        ponder_cost=zeros,
        output=tf.zeros_like(first),
        results=Results(
            cache_lib.empty([num_places, size], state.dtype),
            cache_lib.empty([num_places, 3], tf.float32),
        ),
        stores=stores,
    )
    (last,) = tf.while_loop(
        layers.halting.may_step,
        body,
        (start,),
        shape_invariants=(_shapes(start),),
        maximum_iterations=layers.halting.max_steps,
    )
    return _write(last.results, last, grid), last.stores


def _select(loop, mask):
    """The rows where `mask` [R] is True."""
    names = ("state", "halting_probability", "remainders", "n_updates", "ponder_cost", "output")
    all_of_them = (loop.index, *(getattr(loop, name) for name in names))

    def select():
        index = tf.where(mask)[:, 0]
        first, *others = all_of_them
        return (tf.gather(first, index), *(tf.gather(x, index, axis=1) for x in others))

    selected = tf.cond(tf.reduce_all(mask), lambda: all_of_them, select)
    return loop._replace(index=selected[0], **dict(zip(names, selected[1:], strict=True)))


def _with_company(done, index, goes_on, grid):
    """bool, for each row of `done`: whether a position of its example goes on."""
    running = tf.math.unsorted_segment_sum(tf.cast(goes_on, tf.int32), index[:, 0], grid[0])
    return tf.gather(running, done.index[:, 0]) > 0


def _write(results, loop, grid):
    """The results of the rows of `loop`, in their places."""
    places = loop.index[:, 0] * grid[1] + loop.index[:, 1]
    pondered = tf.stack([loop.n_updates[0], loop.remainders[0], loop.ponder_cost[0]], axis=-1)
    return Results(
        cache_lib.write_rows(results.output, places, loop.output[0]),
        cache_lib.write_rows(results.pondered, places, pondered),
    )


def _shapes(start):
    """What of the shapes stays as it is: not the number of rows."""
    shapes = tf.nest.map_structure(lambda x: x.shape, start)
    per_row = ("halting_probability", "remainders", "n_updates", "ponder_cost")
    rows = tf.TensorShape([1, None])
    states = tf.TensorShape([1, None, start.state.shape[-1]])
    return shapes._replace(
        index=tf.TensorShape([None, 2]),
        state=states,
        output=states,
        **dict.fromkeys(per_row, rows),
    )
