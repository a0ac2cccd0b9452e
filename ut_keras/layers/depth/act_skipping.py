"""Adaptive Computation Time at inference that skips halted positions and examples.

- Positions. With `halted_state="copy"`, a halted position keeps its state, and other positions
  attend to this state at all deeper steps. Therefore the loop state contains only the R running
  positions, in one tensor [1, R, D]. When a position halts, the loop writes its keys and values to
  the cache for all deeper steps. Then the loop removes the position from the tensor.
- Examples. If all positions of an example halt together, the loop removes the complete example.

In both cases, the loop takes as many steps as the slowest position. But its cost is about the cost
of applying p steps to all positions. Here, p is the average number of steps of a position.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.attention import attention
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.depth import act_step
from ut_keras.layers.halting.halting import HaltingState


def forward_running_positions(
    act_layer: Any, state: tf.Tensor, context: act_step.StepContext
) -> tuple[HaltingState, tf.Tensor]:
    """Run the forward pass over complete sequences. Compute only running positions.

    Args:
        state: float tensor [B, S, D].

    Returns:
        (`HaltingState` [B, S], output [B, S, D]).
    """
    shape = tf.shape(state)
    size = cache_lib.CacheSize(shape[0], 1, shape[1])
    stores = tuple(
        cache_lib.start(widths, size, dtype=act_layer.compute_dtype)
        for widths in act_layer.block.cache_widths()
    )
    columns = tf.range(size.length)
    attention_mask = context.inputs.attention_mask
    window = cache_lib.Window(columns, columns, size, None, attention_mask, covers_all=True)
    start_mask = context.inputs.padding_mask if act_layer.halting.mask_padding else None
    halting, output, _ = loop_over_running_positions(
        act_layer, state, context, stores, window, has_store_per_step=False, start_mask=start_mask
    )
    return halting, output


def loop_over_running_positions(
    act_layer: Any,
    state: tf.Tensor,
    context: act_step.StepContext,
    stores: tuple,
    window: cache_lib.Window,
    has_store_per_step: bool,
    start_mask: tf.Tensor | None = None,
) -> tuple[HaltingState, tf.Tensor, tuple]:
    """Apply steps to the running positions until all positions have halted.

    Args:
        context: `StepContext`, with signals for the Q positions of the window.
        state: float tensor [B, Q, D].
        stores: tuple of cache stores, one dict per layer.
        window: `Window` of the Q positions.
        has_store_per_step: bool. False: all steps share the stores of step 0. This is possible if
            no later call reads the stores.
        start_mask: bool [B, Q], True at the positions that take the first step. None: all positions
            take the first step.

    Returns:
        (`HaltingState` [B, Q], output [B, Q, D], stores).
    """
    # Every step computes only running positions, so it need not copy states of halted positions.
    shape, context = tf.shape(state), context._replace(copy_halted=False)
    grid = shape[:2]
    loop = _SkippingLoop(act_layer, context, window, has_store_per_step, grid)
    if start_mask is None:
        start_mask = tf.ones(grid, tf.bool)
    else:
        stores = loop.write_idle(state, start_mask, stores)
    # int32 [R, 2], the pair (example, position) of each running position
    index = tf.cast(tf.where(start_mask), tf.int32)
    loop_state = act_step.start(act_layer, tf.gather_nd(state, index)[tf.newaxis])  # [1, R, D]
    results = _empty_results(shape, state)
    index, loop_state, results, stores = tf.while_loop(
        lambda index, loop_state, results, stores: act_step.should_continue(
            act_layer, loop_state, context
        ),
        loop.take_step,
        (index, loop_state, results, stores),
        shape_invariants=(
            _shape_invariants(index, 0),
            _shape_invariants(loop_state, 1),
            _shape_invariants(results),
            _shape_invariants(stores),
        ),
        maximum_iterations=context.max_steps,
    )
    # A position that still runs at the end of the loop has its result in `loop_state`.
    results = _write_results(results, index, loop_state, grid)
    return (*_split_results(results, shape, grid, state.shape), stores)


class _SkippingLoop(NamedTuple):
    """The values that are the same in every step of the loop over running positions."""

    act_layer: Any
    context: act_step.StepContext
    window: cache_lib.Window
    has_store_per_step: bool  # whether each step has its own entries in the stores
    grid: tf.Tensor  # int32 [2], (B, Q)

    def take_step(self, index, loop_state, results, stores):
        """Apply one step to the running positions, and remove those that halt.

        Args:
            index: int32 [R, 2], the pair (example, position) of each running position.
            loop_state: `ACTLoopState` of the running positions.
            results: the results of the positions that have halted.
            stores: as in `loop_over_running_positions`.

        Returns:
            The same values after the step.
        """
        caches = self._caches(loop_state.step, index, stores)
        context = _context_of_running(self.context, index, caches)
        new = act_step.apply_step(self.act_layer, loop_state, context).loop_state
        is_running = new.halting.running[0]
        halted_index, halted = _select_positions(~is_running, index, new)
        attended_index, attended = halted_index, halted
        # In decoding (`covers_all` is False), later tokens attend to every halted position.
        # Therefore the loop writes all halted positions to the cache. Without decoding, only
        # running positions of the same example attend to a halted position.
        if self.window.covers_all:
            has_running = _has_running_position(is_running, index, halted_index, self.grid)
            attended_index, attended = _select_positions(has_running, halted_index, halted)
        stores = tuple(cache.stores for cache in caches)
        stores = self._write_states(new.step, attended_index, attended.state, stores)
        results = _write_results(results, halted_index, halted, self.grid)
        return (*_select_positions(is_running, index, new), results, stores)

    def write_idle(self, state, start_mask, stores):
        """Write the positions that take no step.

        Other positions may attend to them.
        """
        idle = tf.cast(tf.where(~start_mask), tf.int32)
        return self._write_states(0, idle, tf.gather_nd(state, idle)[tf.newaxis], stores)

    def _write_states(self, step, index, state, stores):
        """Write the keys and values of states [1, R, D] for this and all deeper steps."""
        caches = self._caches(step, index, stores)
        self.act_layer.block.write_cache(state, caches)
        return tuple(cache.stores for cache in caches)

    def _caches(self, step, index, stores):
        """Return the caches of all layers at a step, for the positions at `index`."""
        active = cache_lib.ActiveColumns(index, self.grid)
        layouts = cache_lib.layouts(self.act_layer.block.cache_widths(), self.window, active)
        store_index = step if self.has_store_per_step else 0
        return cache_lib.layer_caches(stores, store_index, layouts)


def forward_running_examples(
    act_layer: Any, start: act_step.ACTLoopState, context: act_step.StepContext
) -> act_step.ACTLoopState:
    """Apply steps to the running examples until all examples have halted.

    All positions of an example must halt together.

    Args:
        start: `ACTLoopState` of the B examples.
        context: `StepContext` of an encoder.

    Returns:
        `ACTLoopState`. Its fields `halting` and `output` are valid for all B examples. Its other
        fields are not valid.
    """
    num_examples = tf.shape(start.state)[0]
    context = _context_of_all_examples(context, num_examples)

    def body(examples, loop_state, results):
        running_context = _context_of_examples(context, examples)
        loop_state = act_step.apply_step(act_layer, loop_state, running_context).loop_state
        results = tf.nest.map_structure(
            lambda result, update: tf.tensor_scatter_nd_update(
                result, examples[:, tf.newaxis], update
            ),
            results,
            (loop_state.halting, loop_state.output),
        )
        running = tf.where(loop_state.halting.running)[:, 0]
        kept = tf.nest.map_structure(lambda x: tf.gather(x, running), loop_state[1:])
        loop_state = act_step.ACTLoopState(loop_state.step, *kept)
        return tf.gather(examples, running), loop_state, results

    first, results = (tf.range(num_examples), start), (start.halting, start.output)
    _, last, (halting, output) = tf.while_loop(
        lambda examples, loop_state, results: act_step.should_continue(
            act_layer, loop_state, context
        ),
        body,
        (*first, results),
        shape_invariants=(*_shape_invariants(first, 0), _shape_invariants(results)),
        maximum_iterations=context.max_steps,
    )
    return last._replace(halting=halting, output=output)


def _context_of_all_examples(context, num_examples):
    """Return the `StepContext` in which all tensors of examples have batch size B."""

    def repeated(x):
        return None if x is None else _repeat_batch(x, num_examples)

    inputs = context.inputs
    inputs = inputs._replace(
        attention_mask=repeated(attention.dense_mask(inputs.attention_mask)),
        padding_mask=repeated(inputs.padding_mask),
    )
    return context._replace(inputs=inputs, recurrence_input=repeated(context.recurrence_input))


def _context_of_examples(context, examples):
    """Return the `StepContext` of the examples with the indices `examples`, int32 [R]."""

    def gathered(x):
        return None if x is None else tf.gather(x, examples)

    inputs = context.inputs
    inputs = inputs._replace(
        attention_mask=gathered(inputs.attention_mask),
        padding_mask=gathered(inputs.padding_mask),
    )
    return context._replace(inputs=inputs, recurrence_input=gathered(context.recurrence_input))


def _context_of_running(context, index, caches):
    """Return the `StepContext` of the running positions.

    Args:
        context: the `StepContext` of all positions.
        index: int32 [R, 2], the pair (example, position) of each running position.
        caches: the caches of all layers, for the running positions.
    """
    active, padding_mask = caches[0].layout.active, context.inputs.padding_mask
    running_mask = None if padding_mask is None else active.gather(padding_mask)
    recurrence_input = None
    if context.recurrence_input is not None:
        recurrence_input = tf.gather_nd(context.recurrence_input, index)[tf.newaxis]
    inputs = context.inputs._replace(padding_mask=running_mask, cache=caches)
    return context._replace(
        inputs=inputs, recurrence_input=recurrence_input, signal_index=index[:, 1]
    )


def _select_positions(mask, index, loop_state):
    """Return (index, `ACTLoopState`) of the positions where `mask` [R] is True."""
    everything = (index, loop_state[1:])

    def selected():
        kept = tf.where(mask)[:, 0]
        fields = tf.nest.map_structure(lambda x: tf.gather(x, kept, axis=1), loop_state[1:])
        return tf.gather(index, kept), fields

    index, fields = tf.cond(tf.reduce_all(mask), lambda: everything, selected)
    return index, act_step.ACTLoopState(loop_state.step, *fields)


def _has_running_position(is_running, index, halted_index, grid):
    """Return whether the example of each halted position still has a running position.

    Deeper steps attend to a halted position only if its example has a running position.

    Args:
        is_running: bool [R], whether each position at `index` continues.
        index, halted_index: int32 [R, 2] and [H, 2], pairs (example, position).
        grid: int32 [2], (B, Q).

    Returns:
        bool [H].
    """
    is_running = tf.cast(is_running, tf.int32)
    num_running = tf.math.unsorted_segment_sum(is_running, index[:, 0], grid[0])
    return tf.gather(num_running, halted_index[:, 0]) > 0


def _empty_results(shape, state):
    """Return the results of all B · Q positions before the first step.

    Args:
        shape: int32 [3], (B, Q, D).
        state: float tensor [B, Q, D].

    Returns:
        (the fields of `HaltingState` as columns of a float32 tensor, the output [B · Q, D]).
    """
    num_positions = shape[0] * shape[1]
    return (
        cache_lib.writable_zeros([num_positions, len(HaltingState._fields)], tf.float32),
        cache_lib.writable_zeros([num_positions, state.shape[-1]], state.dtype),
    )


def _split_results(results, shape, grid, static_shape):
    """Return (`HaltingState` [B, Q], output [B, Q, D]) of all positions."""
    halting, output = results
    output = tf.reshape(output, shape)
    output.set_shape(static_shape)
    halting = tf.reshape(halting, [*tf.unstack(grid), len(HaltingState._fields)])
    halting.set_shape([*static_shape[:2], len(HaltingState._fields)])
    return HaltingState(*tf.unstack(halting, axis=-1)), output


def _write_results(results, index, loop_state, grid):
    """Write the results of the positions at `index` into the results of all positions."""
    flat_index = index[:, 0] * grid[1] + index[:, 1]
    halting, output = results
    new_halting = tf.stack([field[0] for field in loop_state.halting], axis=-1)
    return (
        cache_lib.write_in_place(halting, flat_index, new_halting),
        cache_lib.write_in_place(output, flat_index, loop_state.output[0]),
    )


def _shape_invariants(nest, changing_axis=None):
    """Return the shape invariants of the tensors in a nest, for a `tf.while_loop`.

    Args:
        nest: nest of tensors.
        changing_axis: int, the axis whose size changes from step to step. Its size is unknown in
            the result. None: no size changes.
    """

    def shape(x):
        sizes = tf.TensorShape(x.shape)
        if changing_axis is None or sizes.rank <= changing_axis:
            return sizes
        return tf.TensorShape([*sizes[:changing_axis], None, *sizes[changing_axis + 1 :]])

    return tf.nest.map_structure(shape, nest)


def _repeat_batch(x, num_examples):
    """Broadcast the batch axis: [1, ...] or [B, ...] -> [B, ...]."""
    return tf.broadcast_to(x, (num_examples, *tf.unstack(tf.shape(x))[1:]))
