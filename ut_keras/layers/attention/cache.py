"""Decoding caches, which store the values of earlier positions.

A cache has columns. With K beams, column c belongs to position c // K of beam c % K. When the
search reorders beams, it does not copy their columns. Instead, the search stores the ancestors of
each beam: for every earlier position, the beam from which this beam descends. A beam attends only
to the columns of its ancestors. Therefore one matrix product of queries and keys serves all beams
of an example.

The search makes a cache longer with `gather_columns`. If no layer depends on the order of the
columns, `decoding.prefix` prunes the columns that are not an ancestor of any beam.

    stores        {"key": [N · B · G · C, W], "value": …} for each layer, for N steps
    `Window`      the columns that a forward pass computes, and the columns they may attend to
    `Layout`      the rows of these columns in the stores of a layer
    `LayerCache`  the stores of one layer at one step, with methods for its sublayers
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.basic.signature import Stores, Widths
from ut_keras.ops import litert, private_api


class CacheSize(NamedTuple):
    """The capacity of a cache."""

    batch: tf.Tensor  # int32 scalar B
    beams: int  # K
    length: tf.Tensor  # int32 scalar L
    num_steps: int | None = None  # has the meaning of `StepInputs.num_steps`
    exit_threshold: float | None = None  # has the meaning of `StepInputs.exit_threshold`

    @property
    def columns(self) -> tf.Tensor:
        """Number of columns, int32 scalar C."""
        return self.beams * self.length


class Window(NamedTuple):
    """The Q columns that a forward pass computes, in ascending order."""

    columns: tf.Tensor  # int32 [Q]
    positions: tf.Tensor  # int32 [Q]
    size: CacheSize
    # int32 [B, Q, L]: for each column, the beam of its ancestor at every position. None if K = 1.
    ancestors: tf.Tensor | None
    # bool, broadcastable to [B, H, Q, C]. True means that the query may attend to the column.
    attention_mask: tf.Tensor | None
    covers_all: bool = False  # whether the window has all columns of the cache in their order
    in_order: bool = True  # whether the columns of the cache are in the order of their positions

    def single(self, index: int) -> "Window":
        """Return the window of one column, without an attention mask.

        Args:
            index: int32 scalar in [0, Q), index of the column in this window.
        """
        # XLA does not know the size of a slice from a tensor `index` to `index + 1`.
        column, position = self.columns[index, tf.newaxis], self.positions[index, tf.newaxis]
        ancestors = None if self.ancestors is None else self.ancestors[:, index, tf.newaxis]
        return Window(column, position, self.size, ancestors, None)


def window(columns: tf.Tensor, size: CacheSize, ancestors: Any = None) -> Window:
    """Return the `Window` of some columns.

    Args:
        columns: int32 [Q].
        size: `CacheSize`, with K beams.
        ancestors: int32 [B, Q, L], required if K > 1. For each column, the beam of its ancestor at
            every position. At the column's own position, the ancestor is the column's own beam.
            Values at later positions have no effect.
    """
    if size.beams == 1:
        mask = tf.range(size.columns)[tf.newaxis] <= columns[:, tf.newaxis]  # [Q, C]
        return Window(columns, columns, size, None, mask[tf.newaxis, tf.newaxis])
    count, positions = columns.shape[0] or tf.shape(columns)[0], columns // size.beams
    past = tf.range(size.length)[tf.newaxis] <= positions[:, tf.newaxis]  # [Q, L]
    mask = ancestors[..., tf.newaxis] == tf.range(size.beams)  # [B, Q, L, K]
    mask &= past[tf.newaxis, :, :, tf.newaxis]
    mask = tf.reshape(mask, [size.batch, 1, count, size.columns])
    return Window(columns, positions, size, ancestors, mask)


def start(
    widths: Widths, size: CacheSize, num_steps: int = 1, dtype: tf.DType | str = tf.float32
) -> dict[str, tf.Tensor]:
    """Return empty stores for one layer and N steps.

    Args:
        widths: dict from the name of a store to (G, W). For each column, the store has G groups
            (heads) of width W.
        size: `CacheSize`.
        num_steps: int N.
        dtype: dtype of the stores.

    Returns:
        dict from name to tensor [N · B · G · C, W].
    """
    return {
        name: writable_zeros([num_steps * size.batch * groups * size.columns, width], dtype)
        for name, (groups, width) in widths.items()
    }


def gather_columns(
    stores: Stores, widths: Widths, size: CacheSize, order: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Return new stores of a layer, with columns copied in a given order.

    Args:
        stores: dict from name to tensor [N · B · G · C, W].
        widths: as in `start`.
        size: `CacheSize` of `stores`.
        order: int32 [B, C']. New column c is a copy of column order[:, c].

    Returns:
        dict from name to tensor [N · B · G · C', W].
    """
    result = {}
    for name, (groups, _) in widths.items():
        store = stores[name]
        rows = tf.shape(store)[0] // tf.maximum(size.columns, 1)  # N · B · G
        first = tf.reshape(tf.range(rows) * size.columns, [-1, size.batch, groups, 1])
        indices = first + order[tf.newaxis, :, tf.newaxis]
        result[name] = tf.gather(store, tf.reshape(indices, [-1]))
    return result


class ActiveColumns(NamedTuple):
    """The R columns of a window that a step still computes.

    Each example may have different active columns. The states of the active columns have the shape
    [1, R, D] instead of [B, Q, D].
    """

    index: tf.Tensor  # int32 [R, 2]: the example, and the index of the column in the window
    grid: tf.Tensor  # int32 [2]: the sizes B and Q

    def compact(self) -> "ActiveColumns":
        """Return the same columns on the narrowest grid.

        The grid is [B, largest number of columns in an example]. In each example, the columns get
        the indices 0, 1, …. In `index`, the columns of an example must be consecutive.
        """
        example = self.index[:, 0]
        counts = tf.math.unsorted_segment_sum(tf.ones_like(example), example, self.grid[0])
        before = tf.gather(tf.cumsum(counts, exclusive=True), example)
        column = tf.range(tf.size(example)) - before
        return ActiveColumns(
            tf.stack([example, column], axis=1), tf.stack([self.grid[0], tf.reduce_max(counts)])
        )

    def scatter(self, x: tf.Tensor) -> tf.Tensor:
        """Write values [1, R, D] into zeros [B, Q, D]."""
        shape = tf.concat([self.grid, [x.shape[-1]]], axis=0)
        dense = tf.cond(
            self._is_full(),
            lambda: tf.reshape(x, shape),
            lambda: tf.scatter_nd(self.index, x[0], shape),
        )
        dense.set_shape([None, None, x.shape[-1]])
        return dense

    def gather(self, x: tf.Tensor) -> tf.Tensor:
        """Return the values [1, R, ...] of these columns from [B, Q, ...]."""
        shape = tf.concat([[1, -1], tf.shape(x)[2:]], axis=0)
        rows = tf.cond(
            self._is_full(),
            lambda: tf.reshape(x, shape),
            lambda: tf.gather_nd(x, self.index)[tf.newaxis],
        )
        rows.set_shape([1, None, *x.shape[2:]])
        return rows

    def _is_full(self):
        """Return whether all columns are active.

        If so, `scatter` and `gather` only reshape. In the first step, usually all columns are
        active.
        """
        return tf.shape(self.index)[0] == self.grid[0] * self.grid[1]


class Layout:
    """The rows of a window's columns in the stores of one layer.

    A layout is the same at all steps. The caller creates it once, before the loop over steps.

    Args:
        widths: as in `start`.
        window: `Window`.
        active: `ActiveColumns`, if the step computes only some columns. Optional.
    """

    def __init__(self, widths: Widths, window: Window, active: ActiveColumns | None = None) -> None:
        size = window.size
        self.window = window
        self.active = active
        self.row_indices, self.shapes, self.rows_per_step = {}, {}, {}
        for name, (groups, width) in widths.items():
            self.row_indices[name] = self._row_indices(groups)
            self.shapes[name] = tf.stack([size.batch, groups, size.columns, width])
            self.rows_per_step[name] = size.batch * groups * size.columns

    def _row_indices(self, groups):
        """Return the row of each state and group at the first step.

        Returns:
            int32 [B · Q · G], or [R · G] with `ActiveColumns`.
        """
        size, columns = self.window.size, self.window.columns
        if self.active is None:
            batch = tf.range(size.batch)[:, tf.newaxis, tf.newaxis]
            columns = columns[tf.newaxis, :, tf.newaxis]
        else:
            batch = self.active.index[:, :1]
            columns = tf.gather(columns, self.active.index[:, 1:])
        rows = (batch * groups + tf.range(groups)) * size.columns + columns
        return tf.reshape(rows, [-1])


class LayerCache:
    """The stores of one layer at one step.

    The sublayers read and write this object during a step. After the step, the attribute `stores`
    contains the updated tensors.

    Args:
        stores: dict from name to tensor [N · B · G · C, W].
        step: int32 scalar.
        layout: `Layout`.
    """

    def __init__(self, stores: Stores, step: Any, layout: Layout) -> None:
        self.stores = dict(stores)
        self.step = step
        self.layout = layout

    @property
    def window(self) -> Window:
        """The `Window` of the layout."""
        return self.layout.window

    def write(self, name: str, values: tf.Tensor, deeper: bool = False) -> None:
        """Write values of the window's columns.

        Args:
            name: str, the name of the store.
            values: float tensor [B, Q, G · W], or [1, R, G · W] with `ActiveColumns`.
            deeper: bool. Whether to write the same values also at all deeper steps.
        """
        store, rows_per_step = self.stores[name], self.layout.rows_per_step[name]
        rows = self.layout.row_indices[name]
        values = tf.reshape(values, [-1, store.shape[-1]])
        if deeper and private_api.is_compiled_by_xla():
            rows, values = self._at_all_steps(store, name, rows, values)
        elif deeper:
            steps = tf.range(self.step, tf.shape(store)[0] // tf.maximum(rows_per_step, 1))
            rows = tf.reshape(steps[:, tf.newaxis] * rows_per_step + rows, [-1])
            values = tf.tile(values, [tf.size(steps), 1])
        else:
            rows += self.step * rows_per_step
        self.stores[name] = write_in_place(store, rows, values)

    def _at_all_steps(self, store, name, rows, values):
        """Return rows and values for a write at this step and all deeper steps, for XLA.

        XLA needs to know the number of rows. So the write includes all N steps, and the values of
        earlier steps are the stored values.
        """
        rows_per_step = self.layout.rows_per_step[name]
        # This number is a tensor if the batch size is unknown when the search is traced.
        num_steps = tf.shape(store)[0] // tf.maximum(rows_per_step, 1)
        steps = tf.range(num_steps)[:, tf.newaxis]  # [N, 1]
        rows = steps * rows_per_step + rows  # [N, rows of a step]
        is_written = (steps >= self.step)[..., tf.newaxis]
        values = tf.where(is_written, tf.cast(values, store.dtype), tf.gather(store, rows))
        return tf.reshape(rows, [-1]), tf.reshape(values, [-1, store.shape[-1]])

    def read(self, name: str) -> tf.Tensor:
        """Return all columns of a store at this step, [B, G, C, W].

        Columns that have not been written contain arbitrary finite numbers.
        """
        store, rows_per_step = self.stores[name], self.layout.rows_per_step[name]
        # A slice of the first axis is not a copy.
        rows = tf.slice(store, [self.step * rows_per_step, 0], [rows_per_step, store.shape[-1]])
        return tf.reshape(rows, self.layout.shapes[name])

    def read_previous(self, name: str, count: int) -> tf.Tensor:
        """Return the stored values of the `count` positions before each column.

        Returns:
            Tensor [B, Q, count, W], in ascending order of positions. Negative positions have the
            value 0.
        """
        window = self.window
        kept = self.read(name)[:, 0]  # [B, C, W]
        back = window.positions[:, tf.newaxis] - tf.range(count, 0, -1)  # [Q, count]
        columns = tf.tile(tf.maximum(back, 0)[tf.newaxis], [window.size.batch, 1, 1])
        if window.ancestors is not None:
            beams = tf.gather(window.ancestors, columns, batch_dims=2)
            columns = columns * window.size.beams + beams
        found = tf.gather(kept, columns, batch_dims=1)
        return tf.where((back >= 0)[tf.newaxis, :, :, tf.newaxis], found, 0)


def layouts(
    all_widths: Iterable[Widths], window: Window, active: ActiveColumns | None = None
) -> list[Layout]:
    """Return one `Layout` for each layer.

    Args:
        all_widths: the widths of each layer, as in `start`.
        window, active: as for `Layout`.
    """
    return [Layout(widths, window, active) for widths in all_widths]


def layer_caches(
    all_stores: Iterable[Stores], step: Any, layouts: Iterable[Layout]
) -> list[LayerCache]:
    """Return one `LayerCache` for each layer.

    Args:
        all_stores: the stores of each layer, as in `start`.
        step: int32 scalar.
        layouts: the result of `layouts`.
    """
    pairs = zip(all_stores, layouts, strict=True)
    return [LayerCache(stores, step, layout) for stores, layout in pairs]


def writable_zeros(shape: Sequence[Any], dtype: tf.DType | str) -> tf.Tensor:
    """Return a tensor of zeros that `write_in_place` may change.

    Args:
        shape: ints or int32 scalars.
        dtype: dtype.
    """
    if litert.is_traced():
        return litert.zeros(shape, dtype)
    # `tf.zeros` may return a constant that other operations share.
    zeros = tf.raw_ops.Empty(shape=tf.stack(shape), dtype=dtype, init=True)
    zeros.set_shape([size if isinstance(size, int) else None for size in shape])
    return zeros


def write_in_place(x: tf.Tensor, indices: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Write rows of a tensor in place, and return the tensor.

    A functional update in a loop would copy the complete tensor, because the loop also reads the
    tensor. The in-place update is safe here, because no operation uses a row before
    `write_in_place` writes the row. The update has no gradient.

    Args:
        x: tensor from `writable_zeros`.
        indices: int32 [n], the rows to write.
        values: tensor [n, ...].
    """
    values = tf.cast(values, x.dtype)
    # LiteRT and XLA have no in-place operation. XLA makes a functional update in place.
    if litert.is_traced() or private_api.is_compiled_by_xla():
        updated = tf.tensor_scatter_nd_update(x, indices[:, tf.newaxis], values)
    else:
        updated = tf.raw_ops.InplaceUpdate(x=x, i=indices, v=values)
    updated.set_shape(x.shape)
    return updated
