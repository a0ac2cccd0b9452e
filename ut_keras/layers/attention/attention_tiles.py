"""The tiles of attention by blocks, and the loops over these tiles.

See `block_attention` for the equations.
"""

from typing import NamedTuple

import tensorflow as tf

from ut_keras.layers.attention import attention_mask
from ut_keras.layers.attention.attention_mask import MASKED_LOGIT, AttentionMask
from ut_keras.layers.attention.blocks import Blocks, static
from ut_keras.layers.basic import dropout as dropout_lib
from ut_keras.ops import private_api
from ut_keras.ops.product import product

# A tile contains all examples of a batch, unless such a tile would have more weights than this
# number. In this case, a tile contains a single example.
_MAX_TILE = 2**21
_MAX_TILE_UNDER_XLA = 2**27  # large tiles need fewer kernels on a GPU
_SMALLEST = -3e38  # the initial value of the largest logit, before the first tile


class WeightsDropout(NamedTuple):
    """The settings of the dropout of attention weights."""

    rate: float
    seed: tf.Tensor  # int32 or int64 [2]
    # Axes of [B, H, T, S] along which all weights share one dropout decision.
    shared_axes: tuple[int, ...] = ()

    @property
    def axes(self) -> set[int]:
        """The shared axes as non-negative numbers."""
        return {axis % 4 for axis in self.shared_axes}


class _TileIndex(NamedTuple):
    """The numbers that identify a tile."""

    group: tf.Tensor  # int32 scalar, the index of the group of examples
    query: tf.Tensor  # int32 scalar i, the index of the block of queries
    key: tf.Tensor  # int32 scalar j, the index of the block of keys


class _Softmax(NamedTuple):
    """The state of the online softmax for a block of queries."""

    largest: tf.Tensor  # [G, H, b, 1]
    total: tf.Tensor  # [G, H, b, 1]
    mixed: tf.Tensor  # [G, H, b, c]


class _GradientBlocks(NamedTuple):
    """The blocks that the gradient of every tile reads."""

    query: tf.Tensor  # with additional columns, see `Tiles._query_blocks`
    key: tf.Tensor  # with additional columns, see `Tiles._key_blocks`
    upstream: tf.Tensor  # if `mean` is None, its last column is the negative mean
    value: tf.Tensor  # if `mean` is None, its last column is 1
    # The dot product of upstream and output, for each query. If it is None, the product of
    # `upstream` and `value` already subtracts it.
    mean: tf.Tensor | None
    # The normalizer L of each query. If it is None, the product of `query` and `key` already
    # subtracts it.
    normalizer: tf.Tensor | None


class Tiles:
    """An attention that is divided into tiles.

    A tile has G examples, b queries and b' keys. G is B or 1, and there are B / G groups of
    examples. Arrays of blocks have the shape [groups * blocks, G, H, b, width].

    Arguments: as for `block_attention.attend`.
    """

    def __init__(
        self,
        q: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        mask: AttentionMask | tf.Tensor | None,
        dropout: WeightsDropout | None,
        block_size: int,
    ) -> None:
        self.q, self.key, self.value, self.dropout = q, key, value, dropout
        self.dtype = q.dtype
        self.sum_dtype = sum_dtype(q.dtype)
        self.batch, self.heads, length, _ = _shape(q)
        self.queries = Blocks.of(length, block_size)
        self.keys = Blocks.of(_shape(key)[2], block_size)
        largest_tile = _MAX_TILE_UNDER_XLA if private_api.is_compiled_by_xla() else _MAX_TILE
        most = largest_tile // (self.heads * self.queries.size * self.keys.size)
        self.examples = static(tf.where(self.batch <= most, self.batch, 1))
        # An empty batch also has one group, because TensorFlow cannot stack an empty array.
        self.groups = static(tf.maximum(self.batch // tf.maximum(self.examples, 1), 1))
        conditions = attention_mask.conditions_of(mask)
        self.causal, self.key_mask, self.segments, self.mask_tensor, self.has_key = conditions
        if self.mask_tensor is not None and self.mask_tensor.shape[3] in (1, None):
            shape = [*_shape(self.mask_tensor)[:2], self.queries.length, self.keys.length]
            self.mask_tensor = tf.broadcast_to(self.mask_tensor, shape)
        if self.causal:
            self.diagonal_mask = self._causal(0, 0)  # all tiles with i = j have this mask
        self.has_key_blocks = None
        if self.has_key is not None and self.masks_tiles:
            self.has_key_blocks = self._split(self._per_query(self.has_key), self.queries)
        if self.segments is not None:
            query, key = (x[:, tf.newaxis, :, tf.newaxis] for x in self.segments)
            self.segment_blocks = self._split(query, self.queries), self._split(key, self.keys)
        if dropout is not None:
            # Each tile adds its number to a seed. The seeds of a generator are consecutive. If a
            # tile added its number to the seed of the generator, the sum could be equal to the seed
            # of a later call. Therefore each call samples a new seed from the generator's seed.
            self.seed = tf.random.stateless_uniform([2], dropout.seed, None, None, tf.int32)
        if self.mask_tensor is not None:
            padding = [[0, blocks.padded - blocks.length] for blocks in (self.queries, self.keys)]
            self.padded_mask_tensor = tf.pad(self.mask_tensor, [[0, 0], [0, 0], *padding])

    @property
    def masks_tiles(self) -> bool:
        """Whether the masks of tiles depend on both queries and keys."""
        return self.causal or self.segments is not None or self.mask_tensor is not None

    @property
    def subtracts_in_product(self) -> bool:
        """Whether the dtype is precise enough to subtract normalizers in the matrix product."""
        return self.dtype == self.sum_dtype

    # Blocks.

    def _per_query(self, x):
        """Broadcast [B or 1, H or 1, T or 1] to [B, H or 1, T, 1]."""
        shape = [self.batch, tf.shape(x)[1], self.queries.length]
        return tf.broadcast_to(x, shape)[..., tf.newaxis]

    def _query_blocks(self, normalizer=None):
        """Return blocks of queries with additional columns. See `_key_blocks`."""
        q, ones = self.q, tf.ones_like(self.q[..., :1])
        columns = []
        if self.has_key is not None:
            has_key = tf.cast(self.has_key, self.dtype)[..., tf.newaxis]
            q = q * has_key
            columns += [ones * has_key] if self.key_mask is not None else []
        columns += [ones] if self.keys.may_pad else []
        columns += [-normalizer] if normalizer is not None else []
        return self._split(tf.concat([q, *columns], axis=-1) if columns else q, self.queries)

    def _key_blocks(self, subtracts_normalizer=False):
        """Return blocks of keys with additional columns.

        The matrix product multiplies these columns with the additional columns of the queries. The
        product adds the masks of keys and of padding to the logits, and subtracts the normalizers.
        The additional columns cost less than separate operations on the logits.
        """
        key = _pad(self.key, self.keys)
        ones = tf.ones_like(key[..., :1])
        # In float16, `MASKED_LOGIT` would be infinite, and its product with 0 is not a number. The
        # sum with a logit must be finite too: the softmax of a tile of -inf is not a number.
        masked = max(MASKED_LOGIT, float(self.dtype.min) / 2)
        columns = []
        if self.key_mask is not None:
            bias = tf.where(self.key_mask, 0.0, masked)[..., tf.newaxis]
            columns.append(ones * tf.cast(_pad(bias, self.keys), self.dtype))
        if self.keys.may_pad:
            is_padding = tf.range(self.keys.padded) >= self.keys.length
            bias = tf.where(is_padding, masked, 0.0)[:, tf.newaxis]
            columns.append(ones * tf.cast(bias, self.dtype))
        columns += [ones] if subtracts_normalizer else []
        return self._divide(tf.concat([key, *columns], axis=-1) if columns else key, self.keys)

    def _split(self, x, blocks):
        """Divide [B, H or 1, T, width] into blocks [groups * n, G, H or 1, b, width]."""
        return self._divide(_pad(x, blocks), blocks)

    def _divide(self, x, blocks):
        """Divide a padded tensor into blocks. See `_split`."""
        heads, width = _shape(x)[1], x.shape[-1]
        x = tf.reshape(x, [self.groups, self.examples * heads, blocks.count, blocks.size * width])
        x = tf.transpose(x, [0, 2, 1, 3])
        return tf.reshape(x, [self.groups * blocks.count, self.examples, heads, blocks.size, width])

    def _join(self, x, blocks, width):
        """Join blocks to [B, H, T, width]."""
        merged = self.examples * self.heads
        x = tf.reshape(x, [self.groups, blocks.count, merged, blocks.size * width])
        x = tf.reshape(
            tf.transpose(x, [0, 2, 1, 3]), [self.batch, self.heads, blocks.padded, width]
        )
        return x[:, :, : blocks.length] if blocks.may_pad else x

    # Tiles.

    def _logits(self, q_block, key_block, index, needs_causal_mask):
        """Return the masked logits of a tile.

        Args:
            q_block, key_block: the blocks of queries and keys, with additional columns.
            index: `_TileIndex`.
            needs_causal_mask: bool. False: attention is not causal, or all keys of the tile are
                before all its queries.
        """
        logits = tf.cast(product(q_block, key_block, transpose=True), self.sum_dtype)
        mask = self._mask(index, needs_causal_mask)
        return logits if mask is None else tf.where(mask, logits, MASKED_LOGIT)

    def _mask(self, index, needs_causal_mask):
        """Return the mask of a tile, broadcastable to [G, H, b, b'], or None."""
        group, i, j = index
        mask = None
        if needs_causal_mask and self.has_key_blocks is None:
            mask = self.diagonal_mask
        elif needs_causal_mask:
            mask = self._causal(i, j)
        if self.segments is not None:
            query = self.segment_blocks[0][group * self.queries.count + i]
            key = self.segment_blocks[1][group * self.keys.count + j]
            same = query == tf.linalg.matrix_transpose(key)
            mask = same if mask is None else same & mask
        if self.mask_tensor is not None:
            mask = self._mask_slice(group, i, j)
        if mask is not None and self.has_key_blocks is not None:
            has_key = self.has_key_blocks[group * self.queries.count + i]
            mask |= ~has_key
        return mask

    def _causal(self, i, j):
        """Return the causal mask of a tile, bool [b, b']."""
        query, key = (
            number * blocks.size + tf.range(blocks.size)
            for number, blocks in ((i, self.queries), (j, self.keys))
        )
        return query[:, tf.newaxis] >= key

    def _mask_slice(self, group, i, j):
        """Return a tile of the mask tensor."""
        shape = _shape(self.mask_tensor)
        examples = tf.minimum(shape[0], self.examples)  # the batch size of the tensor may be 1
        start = tf.where(shape[0] == self.batch, group * self.examples, 0)
        begin = [start, 0, i * self.queries.size, j * self.keys.size]
        size = [examples, shape[1], self.queries.size, self.keys.size]
        return tf.slice(self.padded_mask_tensor, begin, size)

    def _kept_mask(self, index):
        """Return a bool mask of the weights of a tile that dropout keeps. None without dropout."""
        if self.dropout is None:
            return None
        shared = self.dropout.axes
        sizes = (self.examples, self.heads, self.queries.size, self.keys.size)
        shape = [1 if axis in shared else size for axis, size in enumerate(sizes)]
        group, i, j = (
            0 if axis in shared else number for axis, number in zip((0, 2, 3), index, strict=True)
        )
        number = (group * self.queries.count + i) * self.keys.count + j
        return dropout_lib.sample_kept(shape, self.seed + tf.stack([0, number]), self.dropout.rate)

    # The forward pass: a loop over rows, each of which is a block of queries.

    def forward(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return (output [B, H, T, c], normalizers L [B, H, T, 1])."""
        q_blocks, key_blocks = self._query_blocks(), self._key_blocks()
        value_blocks = self._split(self.value, self.keys)
        width = self.value.shape[-1]
        rows = self.groups * self.queries.count

        def write_row(row, outputs, normalizers):
            output, normalizer = self._attend_row(row, q_blocks[row], key_blocks, value_blocks)
            return outputs.write(row, output), normalizers.write(row, normalizer)

        arrays = (
            self._array(rows, self.dtype, self.queries, width),
            self._array(rows, self.sum_dtype, self.queries, 1),
        )
        outputs, normalizers = _loop(0, rows, lambda row, x: write_row(row, *x), arrays)
        return (
            self._join(outputs.stack(), self.queries, width),
            self._join(normalizers.stack(), self.queries, 1),
        )

    def _attend_row(self, row, q_block, key_blocks, value_blocks):
        """Return the output and the normalizers of a block of queries."""
        group, i = row // self.queries.count, row % self.queries.count

        def add_tile(j, softmax, needs_causal_mask):
            column, index = group * self.keys.count + j, _TileIndex(group, i, j)
            blocks = q_block, key_blocks[column], value_blocks[column]
            return self._add_tile(softmax, *blocks, index, needs_causal_mask)

        shape = [self.examples, self.heads, self.queries.size]
        zeros = tf.zeros([*shape, 1], self.sum_dtype)
        mixed = tf.zeros([*shape, self.value.shape[-1]], self.sum_dtype)
        softmax = _Softmax(zeros + _SMALLEST, zeros, mixed)
        end = i if self.causal else self.keys.count
        softmax = _loop(0, end, lambda j, x: add_tile(j, x, False), softmax)
        if self.causal:
            end = tf.where(self._attends_to_all(group, i), self.keys.count, i + 1)
            softmax = _loop(i, end, lambda j, x: add_tile(j, x, True), softmax)
        mixed = softmax.mixed / softmax.total * self._scale
        normalizer = softmax.largest + tf.math.log(softmax.total)
        return tf.cast(mixed, self.dtype), normalizer

    def _add_tile(self, softmax, q_block, key_block, value_block, index, needs_causal_mask):
        """Return the `_Softmax` with one more block of keys. The arguments are as in `_logits`."""
        logits = self._logits(q_block, key_block, index, needs_causal_mask)
        tile_largest = tf.reduce_max(logits, axis=-1, keepdims=True)
        largest = tf.maximum(softmax.largest, tile_largest)
        factor = tf.exp(softmax.largest - largest)
        if private_api.is_compiled_by_xla():
            # XLA would store the result of `tf.nn.softmax`. In XLA's program for an H200, a single
            # kernel computes these exponentials, their sum and the weights after dropout.
            weights = tf.exp(logits - largest)
            tile_total = tf.reduce_sum(weights, axis=-1, keepdims=True)
            tile_factor = tf.ones_like(tile_total)
        else:
            # TensorFlow's softmax takes less time than an exponential function and a sum. It
            # divides the exponentials of the tile by their sum. The largest weight is the
            # reciprocal of this sum. Therefore the factor of the tile is divided by the largest
            # weight.
            weights = tf.nn.softmax(logits)
            tile_factor = tf.exp(tile_largest - largest)
            tile_factor /= tf.reduce_max(weights, axis=-1, keepdims=True)
            tile_total = tile_factor
        kept = _zero_dropped(weights, self._kept_mask(index))
        mixed = product(tf.cast(kept, self.dtype), value_block)
        mixed = softmax.mixed * factor + tf.cast(mixed, self.sum_dtype) * tile_factor
        return _Softmax(largest, softmax.total * factor + tile_total, mixed)

    # The gradient: a loop over columns, each of which is a block of keys.

    def backward(
        self, output: tf.Tensor, normalizer: tf.Tensor, upstream: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the gradients of q, key and value."""
        blocks = self._gradient_blocks(output, normalizer, upstream)
        key_width, value_width = self.key.shape[-1], self.value.shape[-1]
        rows = self.groups * self.queries.count
        columns = self.groups * self.keys.count

        def write_column(column, q_gradients, key_gradients, value_gradients):
            q_gradients, key_gradient, value_gradient = self._column_gradients(
                column, blocks, q_gradients
            )
            return (
                q_gradients,
                key_gradients.write(column, tf.cast(key_gradient, self.dtype)),
                value_gradients.write(column, tf.cast(value_gradient, self.dtype)),
            )

        shape = [rows, self.examples, self.heads, self.queries.size, key_width]
        arrays = (
            self._array(rows, self.sum_dtype, self.queries, key_width).unstack(
                tf.zeros(shape, self.sum_dtype)
            ),
            self._array(columns, self.dtype, self.keys, key_width),
            self._array(columns, self.dtype, self.keys, value_width),
        )
        d_q, d_key, d_value = _loop(0, columns, lambda c, x: write_column(c, *x), arrays)
        d_q = tf.cast(self._join(d_q.stack(), self.queries, key_width), self.dtype)
        if self.has_key is not None:
            d_q *= tf.cast(self.has_key, self.dtype)[..., tf.newaxis]
        return (
            d_q,
            self._join(d_key.stack(), self.keys, key_width),
            self._join(d_value.stack(), self.keys, value_width),
        )

    def _gradient_blocks(self, output, normalizer, upstream):
        """Return the `_GradientBlocks` for the arguments of `backward`."""
        normalizer = tf.identity(normalizer)
        normalizer.set_shape([None, None, None, 1])  # its size is unknown after a `tf.cond`
        subtracts_mean_in_product = self.subtracts_in_product and self.dropout is None
        mean = tf.reduce_sum(
            tf.cast(upstream, self.sum_dtype) * tf.cast(output, self.sum_dtype),
            axis=-1,
            keepdims=True,
        )
        upstream *= tf.constant(self._scale, self.dtype)
        value = self.value
        if subtracts_mean_in_product:
            upstream = tf.concat([upstream, -mean], axis=-1)
            value = tf.concat([value, tf.ones_like(value[..., :1])], axis=-1)
        return _GradientBlocks(
            query=self._query_blocks(normalizer if self.subtracts_in_product else None),
            key=self._key_blocks(self.subtracts_in_product),
            upstream=self._split(upstream, self.queries),
            value=self._split(value, self.keys),
            mean=None if subtracts_mean_in_product else self._split(mean, self.queries),
            normalizer=None if self.subtracts_in_product else self._split(normalizer, self.queries),
        )

    def _column_gradients(self, column, blocks, q_gradients):
        """Return the gradients of a block of keys and of its values.

        Args:
            column: int32 scalar, the index of the block of keys.
            blocks: `_GradientBlocks`.
            q_gradients: TensorArray with the gradients of all blocks of queries.

        Returns:
            (`q_gradients` with the terms of these keys, gradient of the keys, gradient of the
            values).
        """
        group, j = column // self.keys.count, column % self.keys.count
        key_block, value_block = blocks.key[column], blocks.value[column]
        key_width, value_width = self.key.shape[-1], self.value.shape[-1]
        key_columns = key_block[..., :key_width]  # without the additional columns

        def add_tile(i, gradients, needs_causal_mask):
            q_gradients, key_gradient, value_gradient = gradients
            row, index = group * self.queries.count + i, _TileIndex(group, i, j)
            q_block, upstream = blocks.query[row], blocks.upstream[row]
            logits = self._logits(q_block, key_block, index, needs_causal_mask)
            d_weights = tf.cast(product(upstream, value_block, transpose=True), self.sum_dtype)
            d_logits, kept = self._logit_gradients(logits, d_weights, blocks, index)
            q_gradient = tf.cast(product(d_logits, key_columns), self.sum_dtype)
            q_gradients = q_gradients.write(row, q_gradients.read(row) + q_gradient)
            key_gradient += tf.cast(
                product(d_logits, q_block[..., :key_width], transpose_a=True), self.sum_dtype
            )
            value_gradient += tf.cast(
                product(kept, upstream[..., :value_width], transpose_a=True), self.sum_dtype
            )
            return q_gradients, key_gradient, value_gradient

        shape = [self.examples, self.heads, self.keys.size]
        gradients = (
            q_gradients,
            tf.zeros([*shape, key_width], self.sum_dtype),
            tf.zeros([*shape, value_width], self.sum_dtype),
        )
        if self.causal:
            first = tf.minimum(j, self._first_that_attends_to_all(group))
            gradients = _loop(first, j + 1, lambda i, x: add_tile(i, x, True), gradients)
        start = j + 1 if self.causal else 0
        return _loop(start, self.queries.count, lambda i, x: add_tile(i, x, False), gradients)

    def _logit_gradients(self, logits, d_weights, blocks, index):
        """Return the gradient of the logits of a tile, and its weights after dropout.

        `d_weights` is the gradient of the weights after dropout. If `blocks.mean` is None, the mean
        is already subtracted from it.
        """
        row = index.group * self.queries.count + index.query
        if blocks.normalizer is not None:
            logits -= blocks.normalizer[row]
        weights, keep = tf.exp(logits), self._kept_mask(index)
        kept = _zero_dropped(weights, keep)
        d_logits = kept * d_weights
        if blocks.mean is not None:
            d_logits -= weights * blocks.mean[row]
        return tf.cast(d_logits, self.dtype), tf.cast(kept, self.dtype)

    @property
    def _scale(self):
        """The factor by which dropout multiplies the weights that it keeps."""
        return 1.0 if self.dropout is None else dropout_lib.scale(self.dropout.rate)

    def _attends_to_all(self, group, i):
        """Return whether a block of queries attends to all keys, although attention is causal.

        This is the case if a query of the block may not attend to any key. Such a query has the
        same weight for all keys.
        """
        if self.has_key_blocks is None:
            return False
        has_key = self.has_key_blocks[group * self.queries.count + i]
        return ~tf.reduce_all(has_key)

    def _first_that_attends_to_all(self, group):
        """Return the index of the first block of queries that attends to all keys.

        If there is no such block, return the number of blocks of queries.
        """
        if self.has_key_blocks is None:
            return self.queries.count
        has_key = tf.reduce_all(self.has_key_blocks, axis=[1, 2, 3, 4])
        has_key = tf.reshape(has_key, [self.groups, self.queries.count])
        numbers = tf.where(has_key, self.queries.count, tf.range(self.queries.count))
        return tf.gather(tf.reduce_min(numbers, axis=1), group)

    def _array(self, size, dtype, blocks, width):
        sizes = (self.examples, self.heads, blocks.size, width)
        shape = [n if isinstance(n, int) else None for n in sizes]
        return tf.TensorArray(dtype, size, element_shape=shape, clear_after_read=False)


def _loop(start, end, body, state):
    """Return `state` after `state = body(n, state)` for n = start, ..., end - 1."""

    def step(number, state):
        new = body(number, state)
        for after, before in zip(new, state, strict=True):
            if isinstance(before, tf.Tensor):
                after.set_shape(before.shape)
        return number + 1, new

    start = tf.convert_to_tensor(start)
    # The loop runs one iteration at a time, because parallel iterations would need the memory of
    # several tiles.
    return tf.while_loop(
        lambda number, _: number < end, step, (start, state), parallel_iterations=1
    )[1]


def _zero_dropped(weights, keep):
    """Return weights with 0 where the mask `keep` is False. None keeps all weights."""
    if keep is None:
        return weights
    if private_api.is_compiled_by_xla():
        return tf.where(keep, weights, tf.zeros([], weights.dtype))
    return weights * tf.cast(keep, weights.dtype)  # on a CPU, a product is faster than `tf.where`


def _pad(x, blocks):
    """Pad [B, H, T, width] to complete blocks with zeros."""
    if not blocks.may_pad:
        return x
    return tf.pad(x, [[0, 0], [0, 0], [0, blocks.padded - blocks.length], [0, 0]])


def _shape(x):
    """Return the sizes of a tensor: ints if known, and int32 scalars if unknown."""
    sizes = tf.shape(x)
    return [sizes[axis] if size is None else size for axis, size in enumerate(x.shape)]


def sum_dtype(dtype: tf.DType) -> tf.DType:
    """Return the dtype of logits and of sums over tiles."""
    return tf.float64 if dtype == tf.float64 else tf.float32
