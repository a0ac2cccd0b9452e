"""The tiles of attention by blocks: their queries, keys, masks and logits.

`block_attention` has the equations, and explains the letters in the shapes. The loops over the
tiles are in `attention_tiles_forward` and `attention_tiles_gradient`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

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


class TileIndex(NamedTuple):
    """The numbers that identify a tile."""

    group: tf.Tensor  # int32 scalar, the index of the group of examples
    query: tf.Tensor  # int32 scalar i, the index of the block of queries
    key: tf.Tensor  # int32 scalar j, the index of the block of keys


class Tiles:
    """The inputs of an attention, divided into tiles.

    A tile has G examples, b queries and b' keys. G is B or 1. So the batch has B / G groups of
    examples. An array of n blocks per group has the shape [groups * n, G, H, b, width].

    In the code, `examples` is G, `queries.size` is b, and `keys.size` is b'.

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
            self.diagonal_mask = self._causal_mask(0, 0)  # all tiles with i = j have this mask
        self.has_key_blocks = None
        if self.has_key is not None and self.masks_tiles:
            self.has_key_blocks = self.split(self._per_query(self.has_key), self.queries)
        if self.segments is not None:
            query, key = (x[:, tf.newaxis, :, tf.newaxis] for x in self.segments)
            self.segment_blocks = self.split(query, self.queries), self.split(key, self.keys)
        if dropout is not None:
            # Each tile adds its number to a seed. The seeds from a generator are consecutive
            # numbers. The sum of such a seed and a tile's number could be the seed of a later call.
            # Therefore each call first samples another seed from the generator's seed.
            self.seed = tf.random.stateless_uniform([2], dropout.seed, None, None, tf.int32)
        if self.mask_tensor is not None:
            padding = [[0, blocks.padded - blocks.length] for blocks in (self.queries, self.keys)]
            self.padded_mask_tensor = tf.pad(self.mask_tensor, [[0, 0], [0, 0], *padding])

    @property
    def masks_tiles(self) -> bool:
        """Whether the masks of tiles depend on both queries and keys."""
        return self.causal or self.segments is not None or self.mask_tensor is not None

    @property
    def scale(self) -> float:
        """The factor by which dropout multiplies the weights that it keeps."""
        return 1.0 if self.dropout is None else dropout_lib.scale(self.dropout.rate)

    # Blocks.

    def _per_query(self, x):
        """Broadcast [B or 1, H or 1, T or 1] to [B, H or 1, T, 1]."""
        shape = [self.batch, tf.shape(x)[1], self.queries.length]
        return tf.broadcast_to(x, shape)[..., tf.newaxis]

    def query_blocks(self, normalizer: tf.Tensor | None = None) -> tf.Tensor:
        """Return blocks of queries with additional columns. See `key_blocks`.

        Args:
            normalizer: [B, H, T, 1], numbers that the product of queries and keys subtracts.
                Optional.
        """
        q, ones = self.q, tf.ones_like(self.q[..., :1])
        columns = []
        if self.has_key is not None:
            has_key = tf.cast(self.has_key, self.dtype)[..., tf.newaxis]
            q = q * has_key
            columns += [ones * has_key] if self.key_mask is not None else []
        columns += [ones] if self.keys.may_pad else []
        columns += [-normalizer] if normalizer is not None else []
        return self.split(tf.concat([q, *columns], axis=-1) if columns else q, self.queries)

    def key_blocks(self, subtracts_normalizer: bool = False) -> tf.Tensor:
        """Return blocks of keys with additional columns.

        The matrix product multiplies these columns with the additional columns of the queries. In
        this way, it adds the masks of keys and of padding to the logits, and subtracts the
        normalizers. The additional columns cost less than separate operations on the logits.

        Args:
            subtracts_normalizer: bool. Whether the query blocks contain the normalizers.
        """
        key = _pad(self.key, self.keys)
        ones = tf.ones_like(key[..., :1])
        # In float16, `MASKED_LOGIT` would be infinite, and its product with 0 would be NaN. The sum
        # of a mask and a logit must also be finite, because the softmax of a tile of -inf is NaN.
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

    def split(self, x: tf.Tensor, blocks: Blocks) -> tf.Tensor:
        """Divide [B, H or 1, T, width] into blocks [groups * n, G, H or 1, b, width]."""
        return self._divide(_pad(x, blocks), blocks)

    def _divide(self, x, blocks):
        """Divide a padded tensor into blocks. See `split`."""
        heads, width = _shape(x)[1], x.shape[-1]
        x = tf.reshape(x, [self.groups, self.examples * heads, blocks.count, blocks.size * width])
        x = tf.transpose(x, [0, 2, 1, 3])
        return tf.reshape(x, [self.groups * blocks.count, self.examples, heads, blocks.size, width])

    def join(self, x: tf.Tensor, blocks: Blocks, width: int) -> tf.Tensor:
        """Join blocks to [B, H, T, width]."""
        merged = self.examples * self.heads
        x = tf.reshape(x, [self.groups, blocks.count, merged, blocks.size * width])
        x = tf.reshape(
            tf.transpose(x, [0, 2, 1, 3]), [self.batch, self.heads, blocks.padded, width]
        )
        return x[:, :, : blocks.length] if blocks.may_pad else x

    def array(self, count: Any, dtype: tf.DType, blocks: Blocks, width: int) -> tf.TensorArray:
        """Return an empty `TensorArray` for `count` blocks [G, H, b, width]."""
        sizes = (self.examples, self.heads, blocks.size, width)
        shape = [n if isinstance(n, int) else None for n in sizes]
        return tf.TensorArray(dtype, count, element_shape=shape, clear_after_read=False)

    # Tiles.

    def logits(
        self, q_block: tf.Tensor, key_block: tf.Tensor, index: TileIndex, needs_causal_mask: bool
    ) -> tf.Tensor:
        """Return the masked logits of a tile.

        Args:
            q_block, key_block: the blocks of queries and keys, with additional columns.
            index: `TileIndex`.
            needs_causal_mask: bool. It must be True if attention is causal and a key of the tile
                is after one of its queries.
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
            mask = self._causal_mask(i, j)
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

    def _causal_mask(self, i, j):
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

    def drop(self, weights: tf.Tensor, index: TileIndex) -> tf.Tensor:
        """Replace the weights of a tile that dropout drops by 0.

        The other weights stay unchanged. The caller multiplies its result by `scale`.
        """
        if self.dropout is None:
            return weights
        shared = self.dropout.axes
        sizes = (self.examples, self.heads, self.queries.size, self.keys.size)
        shape = [1 if axis in shared else size for axis, size in enumerate(sizes)]
        group, i, j = (
            0 if axis in shared else number for axis, number in zip((0, 2, 3), index, strict=True)
        )
        number = (group * self.queries.count + i) * self.keys.count + j
        keep = dropout_lib.sample_kept(shape, self.seed + tf.stack([0, number]), self.dropout.rate)
        if private_api.is_compiled_by_xla():
            # If this were a product, XLA would store the exponentials of the logits in float32.
            return tf.where(keep, weights, tf.zeros([], weights.dtype))
        return weights * tf.cast(keep, weights.dtype)  # on CPUs, faster than `tf.where`


def loop(start: Any, end: Any, body: Callable[[tf.Tensor, Any], Any], state: Any) -> Any:
    """Return `state` after `state = body(n, state)` for n = start, ..., end - 1."""

    def step(number, state):
        new = body(number, state)
        for after, before in zip(new, state, strict=True):
            if isinstance(before, tf.Tensor):
                after.set_shape(before.shape)  # `tf.while_loop` requires equal static shapes
        return number + 1, new

    start = tf.convert_to_tensor(start)
    # Parallel iterations would need the memory of several tiles.
    return tf.while_loop(
        lambda number, _: number < end, step, (start, state), parallel_iterations=1
    )[1]


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
