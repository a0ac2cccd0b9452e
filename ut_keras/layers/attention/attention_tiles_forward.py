"""The forward pass of attention by blocks.

`block_attention` has the equations, and explains the letters in the shapes.

A row of tiles has all tiles with the same block of queries. The outer loop goes over the rows. The
inner loop goes over the tiles of a row, and updates the softmax of the queries.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from ut_keras.layers.attention.attention_tiles import TileIndex, Tiles, loop
from ut_keras.ops import private_api
from ut_keras.ops.product import product

_SMALLEST = -3e38  # the initial value of the largest logit, before the first tile


class _Blocks(NamedTuple):
    """The blocks that the tiles read."""

    query: tf.Tensor  # with additional columns, see `Tiles.query_blocks`
    key: tf.Tensor  # with additional columns, see `Tiles.key_blocks`
    value: tf.Tensor


class _Softmax(NamedTuple):
    """The state of the online softmax for a block of queries."""

    largest: tf.Tensor  # m, [G, H, b, 1], the largest logit of the tiles so far
    total: tf.Tensor  # l, [G, H, b, 1], the sum of the exponentials e^(logit - m)
    mixed: tf.Tensor  # u, [G, H, b, c], the sum of the values times the exponentials after dropout


def forward(tiles: Tiles) -> tuple[tf.Tensor, tf.Tensor]:
    """Return (output [B, H, T, c], normalizers L [B, H, T, 1])."""
    blocks = _Blocks(tiles.query_blocks(), tiles.key_blocks(), tiles.split(tiles.value, tiles.keys))
    width = tiles.value.shape[-1]
    rows = tiles.groups * tiles.queries.count
    arrays = (
        tiles.array(rows, tiles.dtype, tiles.queries, width),
        tiles.array(rows, tiles.sum_dtype, tiles.queries, 1),
    )
    write_row = functools.partial(_write_row, tiles, blocks)
    outputs, normalizers = loop(0, rows, write_row, arrays)
    return (
        tiles.join(outputs.stack(), tiles.queries, width),
        tiles.join(normalizers.stack(), tiles.queries, 1),
    )


def _write_row(tiles, blocks, row, arrays):
    """Write the output and the normalizers of a block of queries to `TensorArray`s."""
    outputs, normalizers = arrays
    softmax = _softmax_of_row(tiles, blocks, row)
    output = tf.cast(softmax.mixed / softmax.total * tiles.scale, tiles.dtype)
    normalizer = softmax.largest + tf.math.log(softmax.total)
    return outputs.write(row, output), normalizers.write(row, normalizer)


def _softmax_of_row(tiles, blocks, row):
    """Return the `_Softmax` of a block of queries over all keys."""
    group, i = row // tiles.queries.count, row % tiles.queries.count
    shape = [tiles.examples, tiles.heads, tiles.queries.size]
    zeros = tf.zeros([*shape, 1], tiles.sum_dtype)
    mixed = tf.zeros([*shape, tiles.value.shape[-1]], tiles.sum_dtype)
    softmax = _Softmax(zeros + _SMALLEST, zeros, mixed)
    add_tile = functools.partial(_add_tile, tiles, blocks, group, i)
    if not tiles.causal:
        add_unmasked = functools.partial(add_tile, needs_causal_mask=False)
        return loop(0, tiles.keys.count, add_unmasked, softmax)
    softmax = loop(0, i, functools.partial(add_tile, needs_causal_mask=False), softmax)
    end = tf.where(_needs_all_keys(tiles, group, i), tiles.keys.count, i + 1)
    return loop(i, end, functools.partial(add_tile, needs_causal_mask=True), softmax)


def _add_tile(tiles, blocks, group, i, j, softmax, needs_causal_mask):
    """Return the `_Softmax` of the query block i with one more block of keys, j.

    Args:
        group: int32 scalar, the index of the group of examples.
        needs_causal_mask: bool, as in `Tiles.logits`.
    """
    index, column = TileIndex(group, i, j), group * tiles.keys.count + j
    q_block = blocks.query[group * tiles.queries.count + i]
    logits = tiles.logits(q_block, blocks.key[column], index, needs_causal_mask)
    tile_largest = tf.reduce_max(logits, axis=-1, keepdims=True)
    largest = tf.maximum(softmax.largest, tile_largest)
    factor = tf.exp(softmax.largest - largest)
    if private_api.is_compiled_by_xla():
        # XLA would store the result of `tf.nn.softmax` in memory. In XLA's program for an H200, one
        # kernel computes these exponentials, their sum and the weights after dropout.
        weights = tf.exp(logits - largest)
        tile_total = tf.reduce_sum(weights, axis=-1, keepdims=True)
        tile_factor = tf.ones_like(tile_total)
    else:
        # TensorFlow's softmax takes less time than an exponential function and a sum. The softmax
        # divides the exponentials e^(logit - tile_largest) by their sum. The largest exponential is
        # 1, so the largest weight is 1 / sum. The division by this weight restores the sum.
        weights = tf.nn.softmax(logits)
        tile_factor = tf.exp(tile_largest - largest)
        tile_factor /= tf.reduce_max(weights, axis=-1, keepdims=True)
        tile_total = tile_factor
    kept = tf.cast(tiles.drop(weights, index), tiles.dtype)
    mixed = product(kept, blocks.value[column])
    mixed = softmax.mixed * factor + tf.cast(mixed, tiles.sum_dtype) * tile_factor
    return _Softmax(largest, softmax.total * factor + tile_total, mixed)


def _needs_all_keys(tiles, group, i):
    """Return whether a block of queries needs all keys in causal attention.

    It needs all keys if one of its queries may not attend to any key. Such a query has the same
    weight for all keys.
    """
    if tiles.has_key_blocks is None:
        return False
    return ~tf.reduce_all(tiles.has_key_blocks[group * tiles.queries.count + i])
