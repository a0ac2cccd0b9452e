"""The gradient of attention by blocks.

`block_attention` has the equations, and explains the letters in the shapes.

A column of tiles has all tiles with the same block of keys. The outer loop goes over the columns.
The inner loop goes over the tiles of a column, and adds their terms to the gradients.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from ut_keras.layers.attention.attention_tiles import TileIndex, Tiles, loop
from ut_keras.ops.product import product


class _Blocks(NamedTuple):
    """The blocks that the gradient of every tile reads."""

    query: tf.Tensor  # with additional columns, see `Tiles.query_blocks`
    key: tf.Tensor  # with additional columns, see `Tiles.key_blocks`
    upstream: tf.Tensor  # if `mean` is None, its last column is the negative mean
    value: tf.Tensor  # if `mean` is None, its last column is 1
    # do_i o_i for each query: the mean of the gradients of the weights, weighted by the weights.
    # None: the product of `upstream` and `value` subtracts it.
    mean: tf.Tensor | None
    # The normalizer L_i of each query. None: the product of `query` and `key` subtracts it.
    normalizer: tf.Tensor | None


class _Gradients(NamedTuple):
    """The gradients to which the tiles of a column add their terms."""

    query: tf.TensorArray  # the gradients of all blocks of queries
    key: tf.Tensor  # [G, H, b', d], the gradient of the block of keys
    value: tf.Tensor  # [G, H, b', c], the gradient of the block of values


def gradients(
    tiles: Tiles, output: tf.Tensor, normalizer: tf.Tensor, upstream: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the gradients of q, key and value.

    Args:
        tiles: `Tiles` of the arguments of the forward pass.
        output, normalizer: the results of the forward pass.
        upstream: [B, H, T, c], the gradient of the output.
    """
    blocks = _blocks(tiles, output, normalizer, upstream)
    key_width, value_width = tiles.key.shape[-1], tiles.value.shape[-1]
    rows = tiles.groups * tiles.queries.count
    columns = tiles.groups * tiles.keys.count
    shape = [rows, tiles.examples, tiles.heads, tiles.queries.size, key_width]
    arrays = (
        tiles.array(rows, tiles.sum_dtype, tiles.queries, key_width).unstack(
            tf.zeros(shape, tiles.sum_dtype)
        ),
        tiles.array(columns, tiles.dtype, tiles.keys, key_width),
        tiles.array(columns, tiles.dtype, tiles.keys, value_width),
    )
    write_column = functools.partial(_write_column, tiles, blocks)
    d_q, d_key, d_value = loop(0, columns, write_column, arrays)
    d_q = tf.cast(tiles.join(d_q.stack(), tiles.queries, key_width), tiles.dtype)
    if tiles.has_key is not None:
        d_q *= tf.cast(tiles.has_key, tiles.dtype)[..., tf.newaxis]
    return (
        d_q,
        tiles.join(d_key.stack(), tiles.keys, key_width),
        tiles.join(d_value.stack(), tiles.keys, value_width),
    )


def _blocks(tiles, output, normalizer, upstream):
    """Return the `_Blocks` for the arguments of `gradients`."""
    normalizer = tf.identity(normalizer)
    normalizer.set_shape([None, None, None, 1])  # its size is unknown after a `tf.cond`
    # A matrix product subtracts normalizers only if the dtype is as precise as the sums.
    normalizer_in_product = tiles.dtype == tiles.sum_dtype
    mean_in_product = normalizer_in_product and tiles.dropout is None
    mean = tf.reduce_sum(
        tf.cast(upstream, tiles.sum_dtype) * tf.cast(output, tiles.sum_dtype),
        axis=-1,
        keepdims=True,
    )
    upstream *= tf.constant(tiles.scale, tiles.dtype)
    value = tiles.value
    if mean_in_product:
        upstream = tf.concat([upstream, -mean], axis=-1)
        value = tf.concat([value, tf.ones_like(value[..., :1])], axis=-1)
    return _Blocks(
        query=tiles.query_blocks(normalizer if normalizer_in_product else None),
        key=tiles.key_blocks(normalizer_in_product),
        upstream=tiles.split(upstream, tiles.queries),
        value=tiles.split(value, tiles.keys),
        mean=None if mean_in_product else tiles.split(mean, tiles.queries),
        normalizer=None if normalizer_in_product else tiles.split(normalizer, tiles.queries),
    )


def _write_column(tiles, blocks, column, arrays):
    """Write the gradients of a block of keys and of its values to `TensorArray`s.

    The function also adds the terms of these keys to the gradients of all queries.

    Args:
        arrays: three `TensorArray`s with the gradients of the blocks of queries, keys and values.
    """
    d_q, d_key, d_value = arrays
    of_column = _gradients_of_column(tiles, blocks, column, d_q)
    return (
        of_column.query,
        d_key.write(column, tf.cast(of_column.key, tiles.dtype)),
        d_value.write(column, tf.cast(of_column.value, tiles.dtype)),
    )


def _gradients_of_column(tiles, blocks, column, d_q):
    """Return the `_Gradients` after all tiles of a column.

    Args:
        d_q: `TensorArray` with the gradients of all blocks of queries, without the terms of this
            column.
    """
    group, j = column // tiles.keys.count, column % tiles.keys.count
    shape = [tiles.examples, tiles.heads, tiles.keys.size]
    of_column = _Gradients(
        d_q,
        tf.zeros([*shape, tiles.key.shape[-1]], tiles.sum_dtype),
        tf.zeros([*shape, tiles.value.shape[-1]], tiles.sum_dtype),
    )
    add_tile = functools.partial(_add_tile, tiles, blocks, group, j)
    start = 0
    if tiles.causal:
        first, start = tf.minimum(j, _first_that_needs_all_keys(tiles, group)), j + 1
        add_masked = functools.partial(add_tile, needs_causal_mask=True)
        of_column = loop(first, start, add_masked, of_column)
    add_unmasked = functools.partial(add_tile, needs_causal_mask=False)
    return loop(start, tiles.queries.count, add_unmasked, of_column)


def _add_tile(tiles, blocks, group, j, i, of_column, needs_causal_mask):
    """Return the `_Gradients` of the key block j with the terms of the query block i.

    Args:
        group: int32 scalar, the index of the group of examples.
        needs_causal_mask: bool, as in `Tiles.logits`.
    """
    index = TileIndex(group, i, j)
    row, column = group * tiles.queries.count + i, group * tiles.keys.count + j
    q_block, key_block, upstream = blocks.query[row], blocks.key[column], blocks.upstream[row]
    logits = tiles.logits(q_block, key_block, index, needs_causal_mask)
    d_weights = tf.cast(product(upstream, blocks.value[column], transpose=True), tiles.sum_dtype)
    d_logits, kept = _logit_gradients(tiles, blocks, logits, d_weights, index)
    # These gradients do not read the additional columns.
    key_width, value_width = tiles.key.shape[-1], tiles.value.shape[-1]
    d_q = product(d_logits, key_block[..., :key_width])
    d_key = product(d_logits, q_block[..., :key_width], transpose_a=True)
    d_value = product(kept, upstream[..., :value_width], transpose_a=True)
    d_q = of_column.query.read(row) + tf.cast(d_q, tiles.sum_dtype)
    return _Gradients(
        of_column.query.write(row, d_q),
        of_column.key + tf.cast(d_key, tiles.sum_dtype),
        of_column.value + tf.cast(d_value, tiles.sum_dtype),
    )


def _logit_gradients(tiles, blocks, logits, d_weights, index):
    """Return the gradient of a tile's logits, and the tile's weights after dropout.

    Args:
        d_weights: the gradient of the weights after dropout. If `blocks.mean` is None, the mean is
            already subtracted.
    """
    row = index.group * tiles.queries.count + index.query
    if blocks.normalizer is not None:
        logits -= blocks.normalizer[row]
    weights = tf.exp(logits)
    kept = tiles.drop(weights, index)
    d_logits = kept * d_weights
    if blocks.mean is not None:
        d_logits -= weights * blocks.mean[row]
    return tf.cast(d_logits, tiles.dtype), tf.cast(kept, tiles.dtype)


def _first_that_needs_all_keys(tiles, group):
    """Return the index of the first block of queries that needs all keys.

    A block needs all keys if one of its queries may not attend to any key. If there is no such
    block, return the number of blocks of queries.
    """
    if tiles.has_key_blocks is None:
        return tiles.queries.count
    has_key = tf.reduce_all(tiles.has_key_blocks, axis=[1, 2, 3, 4])
    has_key = tf.reshape(has_key, [tiles.groups, tiles.queries.count])
    numbers = tf.where(has_key, tiles.queries.count, tf.range(tiles.queries.count))
    return tf.gather(tf.reduce_min(numbers, axis=1), group)
