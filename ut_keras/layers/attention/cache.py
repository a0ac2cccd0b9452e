"""What a decoder remembers of positions that are written, so that none is computed twice.

A cache has columns: with K beams, column c belongs to position c // K of beam c % K. Beams are
never copied when the search reorders them. Each beam knows its ancestors instead, the beam that it
descends from at every earlier position, and attends to their columns only. So all beams of an
example share one product of queries and keys. A cache grows by `moved`, and where no layer looks at
the place of a column, `decoding.prefix` leaves out those that no beam descends from.

    stores        {"key": [N · B · H · C, K / H], "value": …} for each layer; N recurrence steps
    `Window`      which columns a pass computes, and what they may see
    `Layout`      where these columns lie in the stores of a layer
    `LayerCache`  the stores of one layer at one step, as the layers inside it use them
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.basic.signature import Stores, Widths
from ut_keras.ops import litert


class CacheSize(NamedTuple):
    """How much a cache can hold."""

    batch: tf.Tensor  # int32 scalar B
    beams: int  # K
    length: tf.Tensor  # int32 scalar L
    num_steps: int | None = None  # these two as of `StepInputs`
    exit_threshold: float | None = None

    @property
    def columns(self) -> tf.Tensor:
        """int32 scalar C."""
        return self.beams * self.length


class Window(NamedTuple):
    """The columns that one pass computes, Q of them in ascending order."""

    columns: tf.Tensor  # int32 [Q]
    positions: tf.Tensor  # int32 [Q]
    size: CacheSize
    ancestors: tf.Tensor | None  # int32 [B, Q, L]: beam at each position; None for K = 1
    attention_mask: tf.Tensor | None  # bool, broadcastable to [B, H, Q, C], True = may attend
    covers_all: bool = False  # whether these are all columns there are, in a row
    in_order: bool = True  # whether columns of the cache lie in the order of their positions

    def single(self, index: int) -> "Window":
        """The window of the column at one place in [0, Q) alone; without an attention mask."""
        here = slice(index, index + 1)
        ancestors = None if self.ancestors is None else self.ancestors[:, here]
        return Window(self.columns[here], self.positions[here], self.size, ancestors, None)


def window(columns: tf.Tensor, size: CacheSize, ancestors: Any = None) -> Window:
    """Makes a `Window`.

    Args:
        columns: int32 [Q].
        size: `CacheSize`, with K beams.
        ancestors: int32 [B, Q, L], where K > 1: of each of the columns, its own beam at its own
            position included. What stands at later positions does not matter.
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
    """Empty stores of N steps, [N · B · G · C, W] by name.

    Args:
        widths: dict from the name of a store to (groups G, width W) of what it keeps of a column.
    """
    return {
        name: writable_zeros([num_steps * size.batch * groups * size.columns, width], dtype)
        for name, (groups, width) in widths.items()
    }


def gather_columns(
    stores: Stores, widths: Widths, size: CacheSize, order: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The stores of a layer with other columns, [N · B · G · C', W] by name.

    Args:
        size: `CacheSize` as it was.
        order: int32 [B, C']. Which of the columns each of the new ones repeats.
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
    """Some of the places of a [B, Q] grid, in a row: what is still computed."""

    index: tf.Tensor  # int32 [R, 2]: example, place
    grid: tf.Tensor  # int32 [2]: B, Q

    def compact(self) -> "ActiveColumns":
        """The same rows on the narrowest grid, [B, most of an example]: places are counted anew.

        The rows of an example must follow each other.
        """
        example = self.index[:, 0]
        counts = tf.math.unsorted_segment_sum(tf.ones_like(example), example, self.grid[0])
        before = tf.gather(tf.cumsum(counts, exclusive=True), example)
        place = tf.range(tf.size(example)) - before
        return ActiveColumns(
            tf.stack([example, place], axis=1), tf.stack([self.grid[0], tf.reduce_max(counts)])
        )

    def scatter(self, x: tf.Tensor) -> tf.Tensor:
        """[1, R, D] -> [B, Q, D], 0 elsewhere."""
        shape = tf.concat([self.grid, [x.shape[-1]]], axis=0)
        dense = tf.cond(
            self._is_full(),
            lambda: tf.reshape(x, shape),
            lambda: tf.scatter_nd(self.index, x[0], shape),
        )
        dense.set_shape([None, None, x.shape[-1]])
        return dense

    def gather(self, x: tf.Tensor) -> tf.Tensor:
        """[B, Q, ...] -> [1, R, ...]."""
        shape = tf.concat([[1, -1], tf.shape(x)[2:]], axis=0)
        rows = tf.cond(
            self._is_full(),
            lambda: tf.reshape(x, shape),
            lambda: tf.gather_nd(x, self.index)[tf.newaxis],
        )
        rows.set_shape([1, None, *x.shape[2:]])
        return rows

    def _is_full(self):
        """At the first step they most often are; nothing needs to be moved then."""
        return tf.shape(self.index)[0] == self.grid[0] * self.grid[1]


class Layout:
    """Where the columns of a window lie in the stores of one layer.

    It is the same at all steps: made outside of their loop, it costs a step nothing.

    Args:
        widths: as in `start`.
        active: `ActiveColumns`, where only some columns are computed, each example others. Then
            states are [1, R, D] instead of [B, Q, D].
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
        """The row of each state and group, at the first step: int32 [B · Q · G] or [R · G]."""
        size, columns = self.window.size, self.window.columns
        if self.active is None:
            batch = tf.range(size.batch)[:, tf.newaxis, tf.newaxis]
            columns = columns[tf.newaxis, :, tf.newaxis]
        else:
            batch = self.active.index[:, :1]
            columns = tf.gather(columns, self.active.index[:, 1:])
        place = (batch * groups + tf.range(groups)) * size.columns + columns
        return tf.reshape(place, [-1])


class LayerCache:
    """The stores of one layer at one step, while a pass is traced.

    Layers read and write it as they go; afterwards `stores` holds the result.

    Args:
        stores: dict from name to tensor [N · B · G · C, W].
        step: int32 scalar.
    """

    def __init__(self, stores: Stores, step: Any, layout: Layout) -> None:
        self.stores = dict(stores)
        self.step = step
        self.layout = layout

    @property
    def window(self) -> Window:
        """`Window`."""
        return self.layout.window

    def write(self, name: str, values: tf.Tensor, deeper: bool = False) -> None:
        """Keeps `values` [B, Q, G · W] of the columns of the window, or [1, R, G · W] of the rows.

        If `deeper`, they are those of all deeper steps too.
        """
        store, rows_per_step = self.stores[name], self.layout.rows_per_step[name]
        place = self.layout.row_indices[name]
        values = tf.reshape(values, [-1, store.shape[-1]])
        if deeper:
            steps = tf.range(self.step, tf.shape(store)[0] // tf.maximum(rows_per_step, 1))
            place = tf.reshape(steps[:, tf.newaxis] * rows_per_step + place, [-1])
            values = tf.tile(values, [tf.size(steps), 1])
        else:
            place += self.step * rows_per_step
        self.stores[name] = write_in_place(store, place, values)

    def read(self, name: str) -> tf.Tensor:
        """All columns, [B, G, C, W]; those that are not written yet hold any finite numbers."""
        store, rows_per_step = self.stores[name], self.layout.rows_per_step[name]
        # Of the first axis: that is no copy.
        here = tf.slice(store, [self.step * rows_per_step, 0], [rows_per_step, store.shape[-1]])
        return tf.reshape(here, self.layout.shapes[name])

    def read_previous(self, name: str, count: int) -> tf.Tensor:
        """[B, Q, count, W]: what is kept of so many positions before each column, the nearest last.

        It is 0 before the first.
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


def writable_zeros(shape: Sequence[Any], dtype: tf.DType | str) -> tf.Tensor:
    """Zeros that may be written in place."""
    if litert.is_traced():
        return litert.zeros(shape, dtype)
    # Not tf.zeros: what is written in place must be nobody's constant.
    made = tf.raw_ops.Empty(shape=tf.stack(shape), dtype=dtype, init=True)
    made.set_shape([part if isinstance(part, int) else None for part in shape])
    return made


def write_in_place(x: tf.Tensor, indices: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """`x`, from `empty`, with `values` in the places [n] of its first axis.

    In place: a functional update inside a loop copies the whole tensor whenever it is read too. No
    reader can be surprised: what is written was not to be seen before. It has no gradient.
    """
    values = tf.cast(values, x.dtype)
    if litert.is_traced():
        updated = tf.tensor_scatter_nd_update(x, indices[:, tf.newaxis], values)
    else:
        updated = tf.raw_ops.InplaceUpdate(x=x, i=indices, v=values)
    updated.set_shape(x.shape)
    return updated
