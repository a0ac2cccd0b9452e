"""Exact attention by blocks, with memory linear in the sequence length.

    if use_blocks(queries, keys):
        mixed = attend(q, key, value, mask, dropout)

B is the number of examples, H of heads, T of queries and S of keys. Queries and keys have the width
d, and values have the width c.

The usual, dense form of attention stores the weights [B, H, T, S]. `attend` never stores them. It
divides queries and keys into blocks. A tile is the pair of a block of queries and a block of keys.
A loop computes the weights of one tile at a time. With the logits s_j of a tile, it updates three
values of each query: the largest logit m, the sum l, and the mixed values u (online softmax):

    m' = max(m, max_j s_j);   l' = l e^(m - m') + sum_j e^(s_j - m')
    u' = u e^(m - m') + sum_j e^(s_j - m') v_j                             (Rabe and Staats 2021)

After the last tile, the output is o = u / l. The forward pass keeps q, key, value, the output o and
the normalizers L = m + log l, [B, H, T, 1], for the gradient. The gradient computes the weights
p_ij = e^(s_ij - L_i) of each tile again, and samples the same dropout mask again:

    dv_j = sum_i p_ij do_i;   ds_ij = p_ij (do_i v_j - do_i o_i)           (Dao et al. 2022, app. B)
    dq_i = sum_j ds_ij k_j;   dk_j = sum_i ds_ij q_i

The equations omit dropout. The loop skips tiles that a causal mask hides completely. If a query may
not attend to any key, all S keys have the same weight, as in the dense form.

References: Rabe and Staats 2021, Self-attention Does Not Need O(n^2) Memory; Dao et al. 2022,
    FlashAttention.
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.attention import (
    attention_mask,
    attention_tiles_forward,
    attention_tiles_gradient,
)
from ut_keras.layers.attention.attention_mask import AttentionMask
from ut_keras.layers.attention.attention_tiles import Tiles, WeightsDropout, sum_dtype
from ut_keras.layers.basic import dropout as dropout_lib
from ut_keras.ops import custom_gradient, private_api, tensor_copies
from ut_keras.ops.product import product

# Blocks have at most this many positions, so that a tile of a few heads fits into a CPU's cache.
BLOCK_SIZE = 256
# A GPU starts dozens of kernels for each tile, so a few large tiles need fewer kernels.
BLOCK_SIZE_UNDER_XLA = 2048
# Attention uses blocks if the number of queries times the number of keys is at least this number.
_LEAST_PAIRS = {"causal": 768**2, "full": 1024**2}


def use_blocks(queries: Any, keys: Any, causal: bool = False, max_length: int = 0) -> Any:
    """Return whether attention is computed by blocks.

    The gradient of the blocks computes one matrix product more than the gradient of the dense form.
    In causal attention, blocks save up to half of the arithmetic. Therefore causal attention uses
    blocks at shorter lengths than other attention.

    Args:
        queries: int or int32 scalar T.
        keys: int or int32 scalar S.
        causal: bool. Whether attention skips tiles that a causal mask hides.
        max_length: int, the length of the longest expected sequences. 0 means that this length is
            unknown. The function reads `max_length` only if T or S is a tensor. If sequences of
            this length need no blocks, the result is False, and the graph contains only the dense
            form.

    Returns:
        bool if both lengths are ints, or if `max_length` decides. Otherwise, a bool scalar tensor.
    """
    least = _LEAST_PAIRS["causal" if causal else "full"]
    has_unknown_length = isinstance(queries, tf.Tensor) or isinstance(keys, tf.Tensor)
    if has_unknown_length:
        if 0 < max_length**2 < least:
            return False
        # The lengths are cast to int64, because the product of two lengths above 46340 exceeds the
        # range of int32.
        queries, keys = tf.cast(queries, tf.int64), tf.cast(keys, tf.int64)
    return queries * keys >= least


def prepare_mask(mask: AttentionMask, block_size: int | None = None, max_length: int = 0) -> Any:
    """Convert a mask to the form that attention needs in a loop over steps.

    Args:
        mask: `AttentionMask`.
        block_size: int. If it is not None, attention always uses blocks.
        max_length: int, as for `use_blocks`.

    Returns:
        bool tensor [B, 1, T, S] for the dense form, and an `AttentionMask` for blocks. If only the
        lengths at run time select the form, an `AttentionMask` with `dense_if_short`.
    """
    if block_size:
        return mask
    uses_blocks = use_blocks(mask.queries, mask.keys, mask.causal, max_length)
    if isinstance(uses_blocks, tf.Tensor):  # the lengths are known only at run time
        return mask.with_dense_if(~uses_blocks)
    return mask if uses_blocks else mask.dense()


def attend(
    q: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    mask: AttentionMask | tf.Tensor | None = None,
    dropout: WeightsDropout | None = None,
    block_size: int | None = None,
) -> tf.Tensor:
    """Compute attention by blocks.

    Args:
        q: float [B, H, T, d], the scaled queries.
        key: float [B, H, S, d].
        value: float [B, H, S, c].
        mask: `AttentionMask`, or bool tensor [B, H, T, S] whose axes may have size 1. True means
            that the query may attend to the key.
        dropout: `WeightsDropout`. None disables dropout.
        block_size: int, at least 1. Default: `BLOCK_SIZE`, or `BLOCK_SIZE_UNDER_XLA` under XLA.

    Returns:
        [B, H, T, c].
    """

    @custom_gradient.wrap
    def function(q, key, value):
        size = block_size or _block_size()
        tiles = Tiles(q, key, value, mask, dropout, size)
        output, normalizer = attention_tiles_forward.forward(tiles)

        def gradient(upstream):
            # The gradient divides its inputs into blocks again, in a new object. Therefore the
            # forward pass need not keep its blocks.
            copies = _copies_for_gradient(upstream, q, key, value, mask, dropout)
            copied_tiles = Tiles(*copies, size)
            return attention_tiles_gradient.gradients(copied_tiles, output, normalizer, upstream)

        return output, gradient

    return function(q, key, value)


def attend_by_length(
    q: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    mask: AttentionMask | tf.Tensor | None = None,
    dropout: WeightsDropout | None = None,
) -> tf.Tensor:
    """Compute attention densely or by blocks, depending on the lengths at run time.

    The function `use_blocks` selects the form.

    Arguments and returns: as for `attend`.
    """

    @custom_gradient.wrap
    def function(q, key, value):
        arguments = q, key, value, mask, dropout
        results = tf.switch_case(
            _selected_form(*arguments),
            [
                lambda: _Dense(*arguments).forward(),
                lambda: _forward_by_blocks(Tiles(*arguments, _block_size())),
            ],
        )
        results.output.set_shape([*q.shape[:3], value.shape[-1]])

        def gradient(upstream):
            gradients = tf.switch_case(
                _selected_form(*arguments),
                [
                    lambda: _Dense(*arguments).backward(results.weights, results.kept, upstream),
                    lambda: attention_tiles_gradient.gradients(
                        Tiles(*arguments, _block_size()),
                        results.output,
                        results.normalizer,
                        upstream,
                    ),
                ],
            )
            for x, x_gradient in zip((q, key, value), gradients, strict=True):
                x_gradient.set_shape(x.shape)
            return gradients

        return results.output, gradient

    return function(q, key, value)


def _selected_form(q, key, value, mask, dropout):
    """Return 0 if `attend_by_length` uses the dense form, and 1 if it uses blocks.

    In XLA, the lengths are constants, so XLA compiles only the branch that runs. The gradient calls
    this function again. In a loop, XLA would not treat an index from the forward pass as a
    constant.
    """
    causal = isinstance(mask, AttentionMask) and mask.causal
    return tf.cast(use_blocks(tf.shape(q)[2], tf.shape(key)[2], causal), tf.int32)


class _Results(NamedTuple):
    """The results of a forward pass, in the dense form or by blocks.

    The branches of `attend_by_length` must return the same number of tensors. Therefore a tensor
    that a form does not compute is empty.
    """

    output: tf.Tensor
    normalizer: tf.Tensor  # empty in the dense form
    weights: tf.Tensor  # empty by blocks
    # bool mask of the weights that dropout keeps. Empty by blocks, and without dropout.
    kept: tf.Tensor


def _forward_by_blocks(tiles):
    """Return the `_Results` of the form by blocks."""
    output, normalizer = attention_tiles_forward.forward(tiles)
    return _Results(output, normalizer, _empty(tf.float32), _empty(tf.bool))


def _block_size():
    return BLOCK_SIZE_UNDER_XLA if private_api.is_compiled_by_xla() else BLOCK_SIZE


def attend_densely(
    q: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    mask: AttentionMask | tf.Tensor | None = None,
    dropout: WeightsDropout | None = None,
) -> tf.Tensor:
    """Compute dense attention, and compute the weights again in the gradient.

    This form is for XLA. The forward pass keeps only q, key and value for the gradient. XLA
    combines the exponential function and dropout with other operations. Therefore the second
    computation moves fewer bytes than storing and reading the weights.

    Arguments and returns: as for `attend`.
    """

    @custom_gradient.wrap
    def function(q, key, value):
        output = _Dense(q, key, value, mask, dropout).forward().output

        def gradient(upstream):
            dense = _Dense(*_copies_for_gradient(upstream, q, key, value, mask, dropout))
            logits = dense.logits()
            # XLA would store the result of `tf.nn.softmax`. It does not store the result of
            # `tf.exp`, because each operation that reads this result computes it again.
            exps = tf.exp(logits - tf.reduce_max(logits, axis=-1, keepdims=True))
            weights = exps / tf.reduce_sum(exps, axis=-1, keepdims=True)
            return dense.backward(weights, dense.kept(weights), upstream)

        return output, gradient

    return function(q, key, value)


def _copies_for_gradient(
    upstream: tf.Tensor, q: Any, key: Any, value: Any, mask: Any, dropout: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """Under XLA, copy the inputs of a gradient that computes the weights again.

    - Queries, keys and values: `tensor_copies.copies_after` gives the reason for copies.
    - Mask: the gradients of several calls read the same mask. Without copies, XLA would combine
      their operations that read the mask. XLA would then keep the weights of all calls until it
      runs the combined operation.
    - Seed: without a copy, XLA could store the dropout mask of the forward pass and read it again.
    """
    if not private_api.is_compiled_by_xla():
        return q, key, value, mask, dropout
    q, key, value = tensor_copies.copies_after([upstream], [q, key, value])
    if isinstance(mask, tf.Tensor):
        [mask] = tensor_copies.copies_after([upstream], [mask])
    elif mask is not None:
        mask = _copied_mask(upstream, mask)
    if dropout is not None:
        [seed] = tensor_copies.copies_after([upstream], [dropout.seed])
        dropout = dropout._replace(seed=seed)
    return q, key, value, mask, dropout


def _copied_mask(upstream, mask):
    """Return an `AttentionMask` with copies of its tensors."""
    key_mask, segments = mask.key_mask, mask.segments
    if key_mask is not None:
        [key_mask] = tensor_copies.copies_after([upstream], [key_mask])
    if segments is not None:
        query, key = segments
        copies = tensor_copies.copies_after([upstream], [query] if query is key else [query, key])
        # If both are the same tensor, every query may attend to at least one key. Therefore the
        # copies must also be the same tensor. See `attention_mask.conditions_of`.
        segments = copies[0], copies[-1]
    return dataclasses.replace(mask, key_mask=key_mask, segments=segments)


class _Dense:
    """The dense form of attention, with its gradient."""

    def __init__(self, q, key, value, mask, dropout):
        self.q, self.key, self.value, self.dropout = q, key, value, dropout
        self.has_key = attention_mask.conditions_of(mask).has_key
        if isinstance(mask, AttentionMask):
            mask = mask.dense() if mask.dense_if_short is None else mask.dense_if_short
        self.mask = mask

    def forward(self):
        """Return the `_Results` of the dense form."""
        weights = tf.nn.softmax(self.logits())
        kept = self.kept(weights)
        output = product(self._dropped(weights, kept), self.value)
        return _Results(output, _empty(sum_dtype(self.q.dtype)), weights, kept)

    def logits(self):
        """Return the masked logits, float32 [B, H, T, S]."""
        logits = tf.cast(product(self.q, self.key, transpose=True), tf.float32)
        if self.mask is not None:
            logits = tf.where(self.mask, logits, attention_mask.MASKED_LOGIT)
        return logits

    def kept(self, weights):
        """Return the mask of the weights that dropout keeps. Empty without dropout."""
        if self.dropout is None:
            return _empty(tf.bool)
        is_known = weights.shape.num_elements() is not None
        sizes = weights.shape.as_list() if is_known else tf.unstack(tf.shape(weights))
        shape = [1 if axis in self.dropout.axes else size for axis, size in enumerate(sizes)]
        return dropout_lib.sample_kept(shape, self.dropout.seed, self.dropout.rate)

    def _dropped(self, weights, kept):
        weights = tf.cast(weights, self.q.dtype)
        return weights if self.dropout is None else weights * self._factors(kept)

    def _factors(self, kept):
        return dropout_lib.factors(kept, self.dropout.rate, self.q.dtype)

    def backward(self, weights, kept, upstream):
        """Return the gradients of q, key and value."""
        d_weights = product(upstream, self.value, transpose=True)
        if self.dropout is not None:
            d_weights *= self._factors(kept)
        d_weights = tf.cast(d_weights, weights.dtype)
        mean = tf.reduce_sum(d_weights * weights, axis=-1, keepdims=True)
        d_logits = tf.cast((d_weights - mean) * weights, self.q.dtype)
        q, has_key = self.q, self.has_key
        if has_key is not None:
            has_key = tf.cast(has_key, q.dtype)[..., tf.newaxis]
            q = q * has_key
        d_q = product(d_logits, self.key)
        return (
            d_q if has_key is None else d_q * has_key,
            product(d_logits, q, transpose_a=True),
            product(self._dropped(weights, kept), upstream, transpose_a=True),
        )


def _empty(dtype):
    return tf.zeros([0, 0, 0, 0], dtype)
