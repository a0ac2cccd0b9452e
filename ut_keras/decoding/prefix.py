"""A decode cache that grows with the output, one block of positions at a time.

Attention reads all columns of the cache, so the cache should have few columns: the columns of the
positions written so far, and some free columns. When the cache is full, its columns are copied to a
larger cache. With several beams, a column is copied only if a current beam descends from it; the
other columns are pruned. Most beams soon have a common ancestor. So a search with four beams needs
about one and a half columns per position instead of four.

In two cases, no column is pruned, and the columns have the order of `layers.attention.cache`:

- A layer depends on the order of the columns, such as a convolution or relative positions.
- XLA compiles the search, or all shapes must be static.
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.decoding import beam_search
from ut_keras.decoding.decoded_model import CacheOwner
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic.signature import PLAIN, StepInputs
from ut_keras.ops import private_api

COLUMNS, POSITIONS = 32, 8  # minimum number of columns and of positions in a block
# A block after n positions has at least n / BLOCK_PART positions. The work of all copies is then
# linear in the length of the output. Larger blocks have more free columns, which attention reads.
BLOCK_PART = 16


class Prefix(NamedTuple):
    """The cache of all positions before the next one."""

    cache: tuple  # the cache of the decoder, with C columns
    columns: tf.Tensor  # int32 scalar C
    used: tf.Tensor  # int32 scalar: number of written columns, the maximum over the examples
    visible: Any  # bool [B, K, C], whether a beam descends from a column; () without pruning


@dataclasses.dataclass(eq=False)
class PrefixCache:
    """Allocates columns for the next positions and computes their attention masks."""

    decoder: CacheOwner
    batch_size: Any  # int32 scalar B
    beams: int  # K
    prompt_length: Any  # number of positions before the first generated token: int32 scalar or int
    # int32 scalar, the maximum number of generated tokens. The cache has its full size from the
    # start if this is a Python int, or if XLA compiles the search. In both cases, there must be no
    # prompt.
    max_length: Any
    # The num_steps and exit_threshold of `inputs` set the depth of a forward pass.
    inputs: StepInputs = PLAIN

    def __post_init__(self) -> None:
        self.depth = (self.inputs.num_steps, self.inputs.exit_threshold)
        has_full_size = isinstance(self.max_length, int) or private_api.is_compiled_by_xla()
        self.grows = not has_full_size
        self.prunes_dead_beams = (
            self.grows and self.beams > 1 and not self.decoder.cache_order_matters
        )

    def start(self) -> Prefix:
        """Return the empty `Prefix`, with columns for the prompt and for one block."""
        columns = self.beams * self._block(0)
        columns += self.prompt_length * (1 if self.prunes_dead_beams else self.beams)
        visible = ()
        if self.prunes_dead_beams:
            visible = tf.zeros([self.batch_size, self.beams, columns], tf.bool)
        cache = self.decoder.start_cache(self._size(columns))
        return Prefix(cache, tf.convert_to_tensor(columns), tf.constant(0), visible)

    def prompt_window(self, prefix: Prefix) -> tuple[cache_lib.Window, Prefix]:
        """Return the `Window` of a prompt's positions, and the `Prefix` after the prompt."""
        size, positions = self._size(prefix.columns), tf.range(self.prompt_length)
        written = prefix._replace(
            used=self.prompt_length * (1 if self.prunes_dead_beams else self.beams)
        )
        if not self.prunes_dead_beams:
            ancestors = tf.zeros([self.batch_size, self.prompt_length, size.length], tf.int32)
            return cache_lib.window(positions * self.beams, size, ancestors), written
        visible = tf.broadcast_to(
            tf.range(size.columns) < self.prompt_length, tf.shape(prefix.visible)
        )
        return cache_lib.window(positions, size), written._replace(visible=visible)

    def next_window(
        self, prefix: Prefix, query: beam_search.Query
    ) -> tuple[cache_lib.Window, Prefix]:
        """Return the `Window` of all beams' next position, and the `Prefix` after it."""
        if self.prunes_dead_beams:
            parents = query.ancestors[:, :, tf.maximum(query.position - 1, 0)]
            prefix = prefix._replace(visible=tf.gather(prefix.visible, parents, batch_dims=1))
        if self.grows:
            prefix = tf.cond(
                prefix.used + self.beams > prefix.columns,
                lambda: self._grow(prefix, query.position),
                lambda: prefix,
            )
        size, beams = self._size(prefix.columns), tf.range(self.beams)
        columns = prefix.used + beams
        prefix = prefix._replace(used=prefix.used + self.beams)
        if self.prunes_dead_beams:
            is_new = tf.range(size.columns) == columns[:, tf.newaxis]  # [K, C]
            prefix = prefix._replace(visible=prefix.visible | is_new)
            positions = tf.fill([self.beams], self.prompt_length + query.position)
            mask = prefix.visible[:, tf.newaxis]
            window = cache_lib.Window(columns, positions, size, None, mask, in_order=False)
            return window, prefix
        ancestors = None
        if self.beams > 1:
            ancestors = tf.pad(query.ancestors, [[0, 0], [0, 0], [self.prompt_length, 0]])
            is_position = tf.range(size.length) == self.prompt_length + query.position
            ancestors = tf.where(is_position, beams[:, tf.newaxis], ancestors[:, :, : size.length])
        return cache_lib.window(columns, size, ancestors), prefix

    def _grow(self, prefix, position):
        """Return the `Prefix` with free columns for another block, without pruned columns."""
        if self.prunes_dead_beams:
            alive = tf.reduce_any(prefix.visible, axis=1)  # [B, C]
            used = tf.reduce_max(tf.math.count_nonzero(alive, axis=1, dtype=tf.int32))
            order = tf.argsort(tf.cast(~alive, tf.int32), stable=True)[:, :used]
        else:
            used = prefix.used
            order = tf.broadcast_to(tf.range(used), [self.batch_size, used])
        padding = [[0, 0], [0, self.beams * self._block(position)]]
        visible = prefix.visible
        if self.prunes_dead_beams:
            visible = tf.gather(
                visible, tf.tile(order[:, tf.newaxis], [1, self.beams, 1]), batch_dims=2
            )
            visible = tf.pad(visible, [[0, 0], *padding])
        order = tf.pad(order, padding)
        cache = self.decoder.move_columns(prefix.cache, self._size(prefix.columns), order)
        return Prefix(cache, tf.shape(order)[1], used, visible)

    def _block(self, position):
        """Return the number of positions of the next block."""
        if not self.grows:
            return self.max_length
        smallest = max(COLUMNS // self.beams, POSITIONS)
        length = tf.maximum(smallest, (self.prompt_length + position) // BLOCK_PART)
        return tf.minimum(length, self.max_length - position)

    def _size(self, columns):
        """Return the `CacheSize` for a number of columns.

        With pruning, a column may serve several beams. The size is then the size for a single beam.
        """
        if not self.grows:
            return cache_lib.CacheSize(self.batch_size, self.beams, self.max_length, *self.depth)
        beams = 1 if self.prunes_dead_beams else self.beams
        return cache_lib.CacheSize(self.batch_size, beams, columns // beams, *self.depth)
