"""Adaptive Computation Time while decoding: what is kept of positions that have halted.

A position attends, at each of its steps, to the states that earlier positions had at that step.

Under `halted_state="transform"` earlier positions have such states at every step, though they
halted sooner: they count as transformed on and on. A state is computed when it is first wanted,
which is when a later position goes deeper than all before it. So the cache also keeps the state in
which each column was left, and at how many steps it has been computed.

Under "copy" a halted state is what all deeper steps see, so its keys and values are written once,
for all of them, by `act_skipping.loop_over_running`. (Where convolutions look at neighbors besides,
halted positions are computed in the first way, for what a convolution makes of them does change.)
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.depth import act_step

_NOT_WRITTEN = -1


class HaltedCache(NamedTuple):
    """The cache where halted positions are computed on."""

    stores: tuple  # as in `Recurrence.start_cache`
    depth: tf.Tensor  # int32 [C]: steps computed so far; -1 where nothing is written
    left: dict  # "state": [B · C, D], the state after them; "inputs", before them, if injected
    ancestors: tf.Tensor  # int32 [C, B, L], of every column; () for one beam


def start_cache(layers: Any, stores: tuple, size: cache_lib.CacheSize) -> HaltedCache:
    """The cache for `extend_deepening`, of empty stores."""
    ancestors = ()
    if size.beams > 1:
        ancestors = cache_lib.empty([size.columns, size.batch, size.length], tf.int32)
    left = cache_lib.start(_left_widths(layers), size, dtype=layers.compute_dtype)
    return HaltedCache(stores, tf.fill([size.columns], _NOT_WRITTEN), left, ancestors)


def move_columns(
    layers: Any, cache: HaltedCache, size: cache_lib.CacheSize, order: tf.Tensor
) -> HaltedCache:
    """See `Depth.move_columns`; of a cache whose stores are moved."""
    more = tf.maximum(tf.shape(order)[1] - size.columns, 0)
    left = cache_lib.moved(cache.left, _left_widths(layers), size, order)
    depth = tf.pad(cache.depth, [[0, more]], constant_values=_NOT_WRITTEN)
    ancestors = cache.ancestors
    if size.beams > 1:
        ancestors = tf.pad(ancestors, [[0, more], [0, 0], [0, more // size.beams]])
    return HaltedCache(cache.stores, depth, left, ancestors)


def extend_deepening(
    layers: Any,
    state: tf.Tensor,
    cache: HaltedCache,
    window: cache_lib.Window,
    given: act_step.Given,
) -> tuple[tf.Tensor, HaltedCache]:
    """See `Depth.extend`: a step computes the columns of the pass and those never so deep before.

    Under "copy" it leaves halted positions as they are, where convolutions look on.
    """
    cache = _begin(layers, cache, state, window)
    all_widths = (*layers.block.cache_widths(), layers.timing.cache_widths())

    def body(columns, cache):
        step = columns.step
        active = tf.cast(tf.where(cache.depth == step)[:, 0], tf.int32)  # the pass comes last
        ancestors = None
        if window.size.beams > 1:
            ancestors = tf.transpose(tf.gather(cache.ancestors, active), [1, 0, 2])
        here = cache_lib.window(active, window.size, ancestors)
        caches = [
            cache_lib.LayerCache(part, step, cache_lib.Layout(widths, here))
            for part, widths in zip(cache.stores, all_widths, strict=True)
        ]
        left = _left(layers, cache, here)
        before, *first = (  # [B, A, D]
            tf.gather(left.read(name)[:, 0], active, axis=1) for name in _left_widths(layers)
        )
        columns = act_step.take(
            layers,
            columns._replace(state=before),
            given._replace(
                inputs=given.inputs._replace(attention_mask=here.attention_mask, cache=caches[:-1]),
                first=first[0] if first else None,
                signals=layers.timing.prepare(here.positions, given.max_steps),
                signal_cache=caches[-1],
                earlier=tf.shape(active)[0] - tf.shape(state)[1],
            ),
        ).loop
        left.write("state", columns.state)
        depth = tf.tensor_scatter_nd_update(
            cache.depth, active[:, tf.newaxis], tf.fill(tf.shape(active), step + 1)
        )
        stores = tuple(part.stores for part in caches)
        cache = HaltedCache(stores, depth, left.stores, cache.ancestors)
        return columns._replace(state=state), cache  # their states lie in the cache

    columns, cache = tf.while_loop(
        lambda columns, cache: layers.halting.may_step(
            columns.halting, given.max_steps, given.epsilon
        ),
        body,
        (act_step.start(layers, state), cache),
        maximum_iterations=given.max_steps,
    )
    return columns.output, cache


def _left_widths(layers):
    names = ("state", "inputs") if layers.injection is not None else ("state",)
    return dict.fromkeys(names, (1, layers.hidden_size))


def _left(layers, cache, window):
    return cache_lib.LayerCache(cache.left, 0, cache_lib.Layout(_left_widths(layers), window))


def _begin(layers, cache, state, window):
    """The cache with the columns of a pass, at no step yet."""
    left = _left(layers, cache, window)
    for name in _left_widths(layers):
        left.write(name, state)
    depth = tf.tensor_scatter_nd_update(
        cache.depth, window.columns[:, tf.newaxis], tf.zeros_like(window.columns)
    )
    ancestors = cache.ancestors
    if window.size.beams > 1:
        of_columns = tf.transpose(window.ancestors, [1, 0, 2])
        ancestors = cache_lib.write_rows(ancestors, window.columns, of_columns)
    return cache._replace(depth=depth, left=left.stores, ancestors=ancestors)
