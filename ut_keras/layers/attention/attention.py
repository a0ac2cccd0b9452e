"""Multi-head scaled dot-product attention, and attention masks.

In every attention mask, True means that the query may attend to the key.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError, TransformerHParams
from ut_keras.layers.attention import block_attention, float_masks
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.attention.attention_mask import MASKED_LOGIT, AttentionMask
from ut_keras.layers.basic import dense, from_hparams, renamed
from ut_keras.layers.basic import dropout as dropout_lib
from ut_keras.layers.basic.layer import check_least
from ut_keras.layers.basic.signature import Shape, Widths
from ut_keras.ops import devices, litert, private_api
from ut_keras.ops import product as product_lib
from ut_keras.ops import seed as seed_lib


class KeyValue(NamedTuple):
    """Projected keys and values, split into heads."""

    key: tf.Tensor  # [B, H, S, K / H]
    value: tf.Tensor  # [B, H, S, V / H]


class Positions(NamedTuple):
    """Positions of queries and keys, for calls where these positions differ."""

    query: tf.Tensor  # int32 [T]
    key: tf.Tensor  # int32 [S]

    @property
    def distances(self) -> tf.Tensor:
        """Key position minus query position, int32 [T, S]."""
        return self.key - self.query[:, tf.newaxis]


class AttentionOutput(NamedTuple):
    """Output and weights of an attention layer."""

    output: tf.Tensor  # [B, T, D]
    # [B, H, T, S] float32, before dropout. None if `return_weights` is False.
    weights: tf.Tensor | None


def check_mask(attention_mask: AttentionMask | tf.Tensor | None) -> None:
    """Check that an attention mask has rank 4.

    Keras layers use masks [B, T, S]. If B = H, TensorFlow would broadcast a mask [B, T, S] to
    [1, H, T, S]. The mask would then apply to heads instead of examples.

    Raises:
        ValueError: if the mask does not have rank 4.
    """
    if attention_mask is not None and len(attention_mask.shape) != 4:
        raise ValueError(
            "attention_mask must be [batch, heads, length, length], where batch and heads may be "
            f"1. Received: {attention_mask.shape}. "
            "Pass a mask [batch, length, length], as Keras uses it, as mask[:, None]."
        )


def check_key_value(key_value: Any) -> None:
    """Check that keys and values are projected.

    Raises:
        ValueError: if they are not a `KeyValue`, as in a call of Keras' own layer.
    """
    if key_value is not None and not isinstance(key_value, KeyValue):
        raise ValueError(
            "key_value must be a KeyValue, or None for self-attention. Received: "
            f"{type(key_value).__name__}. To attend to a sequence y, call layer.build(x.shape) and "
            "then layer(x, layer.project_key_value(y))."
        )


def padding_attention_mask(padding_mask: tf.Tensor) -> tf.Tensor:
    """Return a mask, bool [B, 1, 1, S], that hides padding.

    Args:
        padding_mask: bool [B, S], True at real tokens.
    """
    return padding_mask[:, tf.newaxis, tf.newaxis, :]


def causal_attention_mask(length: tf.Tensor) -> tf.Tensor:
    """Return a mask, bool [1, 1, T, T], that hides all later positions.

    Args:
        length: int32 scalar T.
    """
    position = tf.range(length)
    return (position[:, tf.newaxis] >= position[tf.newaxis, :])[tf.newaxis, tf.newaxis]


def segment_attention_mask(query_segments: tf.Tensor, key_segments: tf.Tensor) -> tf.Tensor:
    """Return a mask, bool [B, 1, T, S], that hides all other segments.

    With this mask, packed examples do not attend to each other.

    Args:
        query_segments: int [B, T], the segment of each query.
        key_segments: int [B, S], the segment of each key.

    References: T2T `common_attention.attention_bias_same_segment`.
    """
    return (query_segments[:, :, tf.newaxis] == key_segments[:, tf.newaxis, :])[:, tf.newaxis]


@keras.saving.register_keras_serializable(package="ut_keras")
class MultiHeadAttention(renamed.RenamedAttributes, dense.WithKernels):
    """Multi-head scaled dot-product attention.

        Attention(Q, K, V) = softmax(Q K^T / sqrt(d)) V      (Vaswani et al. 2017, eq. 1)

    The method `project_key_value` computes keys and values. All steps of a recurrence in depth
    share the same weights. Therefore a recurrence projects the encoder's output only once, and
    attends to the projections at every step.

        attention = MultiHeadAttention(num_heads=2, hidden_size=8)
        result = attention(x)                               # self-attention: x is [B, T, 8]
        memory = attention.project_key_value(encoder_output)
        result = attention(x, memory)                       # attention to the encoder's output
        result.output, result.weights                       # [B, T, 8], [B, 2, T, S]

    Args:
        num_heads: int H.
        hidden_size: int D, width of the output.
        key_channels: int. Width of the queries and of the keys, summed over heads. Default: D.
        value_channels: int. Width of the values, summed over heads. Default: D.
        dropout_rate: float. Probability with which training drops an attention weight.
        dropout_broadcast_dims: ints. Axes of [B, H, T, S] that share their dropout decisions.
        hard_attention_k: int. If positive, the layer keeps only the largest weights. See `harden`.
        block_size: int, at least 1. If a call does not return the weights, it computes blocks of
            `block_size` positions. See `block_attention`. By default, the lengths of the sequences
            determine whether the call uses blocks.
        max_length: int, the length of the longest expected sequences. 0 means that this length is
            unknown. See `block_attention.use_blocks`.
        kernel_initializer: Keras initializer.

    Call arguments:
        query: float tensor [B, T, D].
        key_value: `KeyValue` from `project_key_value`. Default: self-attention, with keys and
            values from `query`.
        attention_mask: `AttentionMask`, or bool tensor [B, H, T, S], where B and H may be 1. True
            means that the query may attend to the key. Optional.
        cache: `LayerCache`. Self-attention writes the keys and values of its queries to the cache,
            and attends to the columns of the cache. Optional.
        mask: bool [B, T], True at real positions. Self-attention attends only to real positions.
            The default is the mask that `Masking` or `Embedding(mask_zero=True)` has attached to
            `query`.
        query_mask: another name of `mask`. Keras uses this name if the call has two tensors.
        return_weights: bool. If False, the layer may compute the output by blocks, without a tensor
            of all weights. The memory of blocks is linear in the length. See `block_attention`.

    Returns:
        `AttentionOutput` with output [B, T, D] and weights [B, H, T, S], float32. The weights are
        None if `return_weights` is False.

    Raises:
        ValueError: in these cases.

            - key_channels or value_channels is not divisible by num_heads.
            - block_size < 1.
            - `attention_mask` does not have rank 4.
            - block_size is set, but the layer cannot compute attention by blocks. This is the case
              if hard_attention_k is set, or if `has_block_form` returns False.

    References: T2T `common_attention.multihead_attention`, `dot_product_attention`.
    """

    renamed_attributes = {"places_matter": "cache_order_matters", "place": "encode_positions"}

    supports_masking = True
    # Whether the output depends on the positions of queries and keys, in addition to their values.
    # If True, the layer needs `Positions` when it attends to a cache.
    cache_order_matters = False
    # Whether the output of a query does not depend on the other queries.
    queries_are_independent = True

    def __init__(
        self,
        num_heads: int,
        hidden_size: int,
        key_channels: int | None = None,
        value_channels: int | None = None,
        dropout_rate: float = 0.0,
        dropout_broadcast_dims: Sequence[int] = (),
        hard_attention_k: int = 0,
        block_size: int | None = None,
        max_length: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.hidden_size = hidden_size
        self.key_channels = key_channels or hidden_size
        self.value_channels = value_channels or hidden_size
        check_heads(self)
        self.dropout_rate = dropout_rate
        self.dropout_broadcast_dims = tuple(dropout_broadcast_dims)
        self.hard_attention_k = hard_attention_k
        if block_size is not None:
            check_least("block_size", block_size, 1)
            if hard_attention_k or not self.has_block_form():
                raise ValueError(
                    f"block_size must be None for {type(self).__name__} with "
                    f"hard_attention_k={hard_attention_k}, because it does not compute attention "
                    f"by `block_attention`. Received: {block_size}."
                )
        self.block_size = block_size
        self.max_length = max_length

    def build(self, query_shape: Shape) -> None:
        size = query_shape[-1]
        self.query_projection = self._projection(self.query_width(), "q", size)
        self.key_projection = self._projection(self.key_channels, "k", size)
        self.value_projection = self._projection(self.value_channels, "v", size)
        self.output_projection = self._projection(
            self.hidden_size, "output_transform", self.value_channels
        )
        self.weights_dropout = dropout_lib.sublayer(self, self._shared_axes())

    def query_width(self) -> int:
        """Return the width of the projected queries, summed over heads."""
        return self.key_channels

    def _shared_axes(self):
        """Return the axes of the weights that share their dropout decisions."""
        return self.dropout_broadcast_dims

    def encode_positions(
        self, projected: tf.Tensor, cache: cache_lib.LayerCache | None = None
    ) -> tf.Tensor:
        """Encode positions into projected queries or keys [B, T, K].

        This class returns `projected` unchanged. `RotaryAttention` overrides the method.
        """
        return projected

    def project_key_value(self, x: tf.Tensor) -> KeyValue:
        """Return the keys and values of `x` [B, S, D]."""
        return KeyValue(
            self._split_heads(self.encode_positions(self.key_projection(x))),
            self._split_heads(self.value_projection(x)),
        )

    def cache_widths(self) -> Widths:
        """Return the widths of a position's tensors in a cache. See `cache.start`."""
        return {
            "key": (self.num_heads, self.key_channels // self.num_heads),
            "value": (self.num_heads, self.value_channels // self.num_heads),
        }

    def write_cache(self, x: tf.Tensor, cache: cache_lib.LayerCache, deeper: bool = False) -> None:
        """Write the keys and values of `x` to a cache. See `LayerCache.write`."""
        cache.write("key", self.encode_positions(self.key_projection(x), cache), deeper)
        cache.write("value", self.value_projection(x), deeper)

    def call(
        self,
        query: tf.Tensor,
        key_value: KeyValue | None = None,
        attention_mask: AttentionMask | tf.Tensor | None = None,
        cache: cache_lib.LayerCache | None = None,
        training: bool | None = None,
        mask: tf.Tensor | None = None,
        query_mask: tf.Tensor | None = None,
        return_weights: bool = True,
    ) -> AttentionOutput:
        check_mask(attention_mask)
        check_key_value(key_value)
        mask = query_mask if mask is None else mask
        if mask is not None and key_value is None:
            query = float_masks.nan_if_negative(query, [mask])
            real = padding_attention_mask(float_masks.as_bool(mask))
            attention_mask = real if attention_mask is None else attention_mask & real
        q = self.query_projection(query) * (self.key_channels // self.num_heads) ** -0.5
        if key_value is None:
            q = self.encode_positions(q, cache)
        positions = None
        active = self._active_columns(cache, attention_mask)
        if active is not None:
            q = active.scatter(q)
        if key_value is None and cache is not None:
            key_value, positions = self._write_and_read_cache(query, cache)
        elif key_value is None:
            key_value = self.project_key_value(query)
        q = self._split_heads(q)
        if not return_weights and positions is None and self._may_use_blocks(cache):
            mixed = self._attend_without_weights(q, key_value, attention_mask, training)
            weights = None
        else:
            attention_mask = dense_mask(attention_mask)
            mixed, weights = self.attend(q, key_value, attention_mask, positions, training)
        mixed = self._join_heads(mixed)
        if active is not None:
            mixed = active.gather(mixed)
        return AttentionOutput(self.output_projection(mixed), weights if return_weights else None)

    def _write_and_read_cache(self, query, cache):
        """Write the keys and values of `query` to the cache, and read all its columns.

        Returns:
            (`KeyValue` of all columns, `Positions`). The positions are None in two cases: the call
            computes all positions at once, or the columns are not in the order of their positions.
        """
        self.write_cache(query, cache)
        key_value = KeyValue(cache.read("key"), cache.read("value"))
        window = cache.window
        if window.covers_all or not window.in_order:
            return key_value, None
        key_positions = tf.range(tf.shape(key_value.key)[2]) // window.size.beams
        return key_value, Positions(window.positions, key_positions)

    @classmethod
    def has_block_form(cls) -> bool:
        """Return whether `block_attention` has the same result as `attend` of this class.

        The result is False if the class overrides `attend` or a method that `attend` calls.
        """
        return all(
            getattr(cls, name) is getattr(MultiHeadAttention, name)
            for name in ("attend", "logits", "weights_from_logits", "mix")
        )

    def _may_use_blocks(self, cache):
        """Return whether a call may use `block_attention` instead of `attend`.

        The result is False in these cases:

        - The class has no block form, or `hard_attention_k` is set.
        - The call decodes with a cache, so there are only a few queries.
        - TensorFlow traces the model for LiteRT, which needs the dense form.
        """
        decodes = cache is not None and not cache.window.covers_all
        needs_dense_form = self.hard_attention_k or decodes or litert.is_traced()
        return self.has_block_form() and not needs_dense_form

    def _attend_without_weights(self, q, key_value, attention_mask, training):
        """Return the output of `attend` [B, H, T, V / H].

        The layer computes in blocks if it has a `block_size` or if the sequences are long. Blocks
        and the dense form sample different dropout masks from the same distribution.
        """
        queries, keys = (
            tf.shape(x)[2] if x.shape[2] is None else x.shape[2] for x in (q, key_value.key)
        )
        causal = isinstance(attention_mask, AttentionMask) and attention_mask.causal
        # A bool, or a bool tensor if the lengths are known only at run time.
        uses_blocks: Any = True
        if self.block_size is None:
            uses_blocks = block_attention.use_blocks(queries, keys, causal, self.max_length)
        if uses_blocks is False and not private_api.is_compiled_by_xla():
            mask = dense_mask(attention_mask)
            return self.attend(q, key_value, mask, None, training)[0]
        dropout = None
        if training and self.dropout_rate:
            seed = seed_lib.per_replica(self.weights_dropout.seed_generator)
            axes = self.dropout_broadcast_dims
            dropout = block_attention.WeightsDropout(self.dropout_rate, seed, axes)
        key, value = key_value
        if uses_blocks is False:
            return block_attention.attend_densely(q, key, value, attention_mask, dropout)
        if uses_blocks is True:
            return block_attention.attend(q, key, value, attention_mask, dropout, self.block_size)
        return block_attention.attend_by_length(q, key, value, attention_mask, dropout)

    def _active_columns(self, cache, attention_mask):
        """Return `ActiveColumns` for the queries. None if all columns are active.

        If neither the mask nor the layer depends on a query's position, the result has the
        narrowest possible grid. See `ActiveColumns.compact`.
        """
        if cache is None or cache.layout.active is None:
            return None
        same_for_queries = attention_mask is None or attention_mask.shape[2] == 1
        if same_for_queries and not self.cache_order_matters:
            return cache.layout.active.compact()
        return cache.layout.active

    def attend(
        self,
        q: tf.Tensor,
        key_value: KeyValue,
        attention_mask: tf.Tensor | None,
        positions: Positions | None,
        training: bool | None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute attention from projected queries. Subclasses may override this method.

        Args:
            q: float tensor [B, H, T, K / H], the queries, scaled by 1 / sqrt(d).
            key_value: `KeyValue`.
            attention_mask: bool tensor that broadcasts to [B, H, T, S]. Optional.
            positions: `Positions`. None if queries and keys have the same consecutive positions.
                Also None if the keys come from a cache and the order of its columns has no effect.
            training: bool.

        Returns:
            (weighted sums of the values [B, H, T, V / H], weights [B, H, T, S] before dropout in
            float32).
        """
        logits = tf.cast(self.logits(q, key_value.key, positions), tf.float32)  # [B, H, T, S]
        weights = self.weights_from_logits(logits, attention_mask)
        dropped = self.weights_dropout(tf.cast(weights, self.compute_dtype), training=training)
        return self.mix(dropped, key_value.value, positions), weights

    def logits(self, q: tf.Tensor, key: tf.Tensor, positions: Positions | None) -> tf.Tensor:
        """Return the logits of the attention weights, [B, H, T, S]."""
        return product_lib.product(q, key, transpose=True)

    def weights_from_logits(self, logits: tf.Tensor, attention_mask: tf.Tensor | None) -> tf.Tensor:
        """Apply the mask, softmax and, if hard_attention_k > 0, `harden` to the logits."""
        if attention_mask is not None:
            # The layer does not add the mask as a bias, because TensorFlow would fuse the addition
            # into the matrix product. The fused operation takes 60 times as long.
            logits = tf.where(attention_mask, logits, MASKED_LOGIT)
        weights = _softmax(logits)
        if self.hard_attention_k:
            weights = harden(weights, self.hard_attention_k)
        return weights

    def mix(self, weights: tf.Tensor, value: tf.Tensor, positions: Positions | None) -> tf.Tensor:
        """Return the weighted sums of the values, [B, H, T, V / H]."""
        return product_lib.product(weights, value)

    def _split_heads(self, x):
        """Reshape [B, S, C] to [B, H, S, C / H]."""
        length, size = x.shape[1], x.shape[-1] // self.num_heads
        if not length:  # the length is unknown or 0
            shape = tf.shape(x)
            heads = tf.reshape(x, [shape[0], shape[1], self.num_heads, size])
            return tf.transpose(heads, [0, 2, 1, 3])
        if length == 1:
            return tf.reshape(x, [-1, self.num_heads, 1, size])
        heads = tf.reshape(x, [-1, length, self.num_heads, size])
        return _swap_heads_and_positions(heads)

    def _join_heads(self, x):
        """Reshape [B, H, T, C / H] to [B, T, C]."""
        length = x.shape[2]
        if not length:
            joined = tf.transpose(x, [0, 2, 1, 3])
            shape = tf.shape(joined)
            return tf.reshape(joined, [shape[0], shape[1], self.value_channels])
        joined = x if length == 1 else _swap_heads_and_positions(x)
        return tf.reshape(joined, [-1, length, self.value_channels])

    def _add_bias(self, q, bias):
        """Add a bias [H · d], scaled by 1 / sqrt(d), to queries [B, H, T, d]."""
        size = self.key_channels // self.num_heads
        bias = tf.reshape(tf.cast(bias, q.dtype), [self.num_heads, 1, size])
        return q + bias * size**-0.5

    def _projection(self, units, name, input_size):
        return self._dense(units, name, input_size, use_bias=False)

    def compute_output_shape(self, query_shape: Shape) -> AttentionOutput:
        batch, length = query_shape[:2]
        return AttentionOutput(
            (batch, length, self.hidden_size), (batch, self.num_heads, length, length)
        )


def dense_mask(mask: AttentionMask | tf.Tensor | None) -> tf.Tensor | None:
    """Return an attention mask as a tensor, or None."""
    return None if mask is None else tf.convert_to_tensor(mask)


def check_heads(layer: Any) -> None:
    """Check that the channels can be split over the heads.

    Args:
        layer: a layer with `num_heads`, `key_channels` and `value_channels`.

    Raises:
        ValueError: if key_channels or value_channels is not divisible by num_heads.
    """
    for name in ("key_channels", "value_channels"):
        if getattr(layer, name) % layer.num_heads:
            raise ValueError(
                f"{name} must be divisible by num_heads. "
                f"Received: {name}={getattr(layer, name)}, num_heads={layer.num_heads}."
            )


def harden(weights: tf.Tensor, k: int) -> tf.Tensor:
    """Subtract the k-th largest weight, clip at 0, and normalize to sum 1.

        w' = max(0, w - w_(k));   w'' = w' / sum w'

    w_(k) is the k-th largest weight, so the k - 1 largest weights remain. If fewer than k weights
    are positive, all positive weights remain. Equal weights count as one weight. No gradient passes
    through w_(k). If k = 1, w_(k) is the largest weight, so all elements of the result are 0.

    Args:
        weights: float tensor [..., S], at least 0.
        k: int, at least 1.

    Returns:
        Tensor like `weights`.

    References: T2T `common_attention.harden_attention_weights`.
    """
    remaining = tf.stop_gradient(weights)
    for _ in range(k - 1):
        largest = tf.reduce_max(remaining, axis=-1, keepdims=True)
        remaining = tf.where(remaining < largest, remaining, tf.zeros([], weights.dtype))
    above = tf.nn.relu(weights - tf.reduce_max(remaining, axis=-1, keepdims=True))
    return above / tf.maximum(tf.reduce_sum(above, axis=-1, keepdims=True), 1e-6)


# Decoding runs many small steps, with one query per step, or a few queries in beam search. For
# small tensors, the preparations of the oneDNN library cost more than the arithmetic. Therefore the
# functions below avoid the operations that TensorFlow runs in oneDNN.


_MAX_UNSTACKED = 16


def _softmax(logits):
    if logits.shape[2] != 1:  # for a single query, four small operations are faster
        return tf.nn.softmax(logits)
    exp = tf.exp(logits - tf.reduce_max(logits, axis=-1, keepdims=True))
    return exp / tf.reduce_sum(exp, axis=-1, keepdims=True)


def _swap_heads_and_positions(x):
    """Swap axes 1 and 2. The static sizes of both axes must be known.

    On a CPU, slices of a short axis are faster than a transposition. On a GPU, TensorFlow starts
    one kernel for each slice, but only one kernel for a transposition.
    """
    axis = 1 if x.shape[1] <= x.shape[2] else 2
    if devices.has_gpu() or x.shape[axis] > _MAX_UNSTACKED:
        return tf.transpose(x, [0, 2, 1, 3])
    return tf.stack(tf.unstack(x, axis=axis), axis=3 - axis)


@parts.self_attentions.register("dot_product")
def make(
    hp: TransformerHParams,
    side: str,
    layer_class: type[MultiHeadAttention] = MultiHeadAttention,
    **arguments: Any,
) -> MultiHeadAttention:
    """Return an attention layer that the hparams describe.

    Models use the layer for self-attention, and for a decoder's attention to its encoder.

    Args:
        hp: hparams.
        side: `parts.Side`, not used.
        layer_class: class to instantiate.
        arguments: further arguments of the class.

    Raises:
        HParamError: if `attention_block_size` is set, but the layer cannot compute attention by
            blocks.
    """
    arguments = {"hard_attention_k": hp.hard_attention_k, **arguments}
    if hp.attention_block_size is not None:
        reason = ""
        if not layer_class.has_block_form():
            reason = f"self_attention_type={hp.self_attention_type!r}"
        elif arguments["hard_attention_k"]:
            reason = f"hard_attention_k={hp.hard_attention_k}"
        if reason:
            raise HParamError(
                f"attention_block_size must be None with {reason}, which does not compute "
                f"attention by blocks. Received: {hp.attention_block_size}."
            )
    return layer_class(
        hp.num_heads,
        hp.hidden_size,
        hp.attention_key_channels or None,
        hp.attention_value_channels or None,
        dropout_rate=hp.attention_dropout,
        dropout_broadcast_dims=from_hparams.axes(hp.attention_dropout_broadcast_dims),
        block_size=hp.attention_block_size,
        max_length=hp.max_length,
        name="multihead_attention",
        **arguments,
        **from_hparams.common(hp),
    )
