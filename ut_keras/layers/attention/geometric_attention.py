"""Geometric attention: self-attention to the nearest position that matches."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError
from ut_keras.layers.attention import attention
from ut_keras.layers.attention.attention import KeyValue, Positions
from ut_keras.layers.basic.signature import Shape
from ut_keras.ops import litert
from ut_keras.ops import product as product_lib


@keras.saving.register_keras_serializable(package="ut_keras")
class GeometricAttention(attention.MultiHeadAttention):
    """Self-attention that prefers near keys (`self_attention_type="geometric"`).

    Each key matches a query with probability p. The weight w of a key is the probability that this
    key matches and that no nearer key matches.

        p_ij = sigmoid((q_i + u) k_j / sqrt(d) + r_ij),   p_ii = 0
        w_ij = p_ij times the product of (1 - p_ik) over the k nearer to i than j;   sum_j w_ij = 1
        r_ij = a_i for j < i, b_i for j > i;   [a_i; b_i] = V x_i + c

    If two keys have the same distance from the query, the key after the query (j > i) counts as the
    nearer key. Each head has its own u and c, whose initial value is 0. V x is part of the
    projection of the queries. If a query may not attend to any key, as at the first position of a
    decoder, all weights w of this query are 0. The authors' code has further learned factors. This
    layer omits these factors, because V and the projections can represent them.

    Args:
        normalize_score: bool. Whether the layer divides the weights w of a query by their sum. If
            False, the sum of these weights is the probability that at least one key matches.
        drop_keys: bool. True: dropout applies to the channels of the keys, before the product with
            the queries. False: dropout applies to the weights.
        *args, **kwargs: as for `MultiHeadAttention`, except for hard_attention_k.

    Call arguments and returns: as `MultiHeadAttention`, for self-attention only.

    References: Csordás et al. 2022, The Neural Data Router. The authors' code,
        github.com/RobertCsordas/ndr, layers/transformer/direction_sensitive_geometric.py, applies
        dropout to the keys. The authors' runs on tables do not normalize the weights
        (sweeps/transformer_control_flow/ctl_ndr_geometric.yaml, `norm_att: 0`).
    """

    cache_order_matters = True

    def __init__(
        self, *args: Any, normalize_score: bool = True, drop_keys: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.normalize_score = normalize_score
        self.drop_keys = drop_keys

    def build(self, query_shape: Shape) -> None:
        super().build(query_shape)
        self.content_bias = self.add_weight(
            name="content_bias", shape=(self.key_channels,), initializer="zeros"
        )
        self.direction_bias = self.add_weight(
            name="direction_bias", shape=(self.num_heads, 1, 2), initializer="zeros"
        )

    def query_width(self) -> int:
        """Return the width of the projected queries. Each head has two more channels, V x."""
        return self.key_channels + 2 * self.num_heads

    def attend(
        self,
        q: tf.Tensor,
        key_value: KeyValue,
        attention_mask: tf.Tensor | None,
        positions: Positions | None,
        training: bool | None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        size = self.key_channels // self.num_heads
        # `tf.split` has a faster gradient than two slices. TensorFlow would pad the gradients of
        # two slices with zeros and add them.
        q, direction = tf.split(q, [size, 2], axis=-1)
        keys = key_value.key
        if self.drop_keys:
            keys = self.weights_dropout(keys, training=training)
        content = self.logits(self._add_bias(q, self.content_bias), keys, positions)
        direction = tf.cast(direction, tf.float32) * size**0.5
        before, after = tf.split(direction + tf.cast(self.direction_bias, tf.float32), 2, axis=-1)
        all_positions = tf.range(tf.shape(content)[3])
        distances = (positions or Positions(all_positions, all_positions)).distances  # [T, S]
        logits = tf.cast(content, tf.float32)
        logits += tf.where(distances < 0, before, after)
        may_attend = distances != 0
        if attention_mask is not None:
            may_attend = attention_mask & may_attend
        log_match = tf.where(may_attend, litert.log_sigmoid(logits), float("-inf"))
        log_no_match = tf.where(may_attend, litert.log_sigmoid(-logits), 0.0)
        weights = tf.exp(log_match + self._sum_over_nearer(log_no_match, positions, distances))
        if self.normalize_score:
            weights = tf.math.divide_no_nan(weights, tf.reduce_sum(weights, axis=-1, keepdims=True))
        dropped = tf.cast(weights, self.compute_dtype)
        if not self.drop_keys:
            dropped = self.weights_dropout(dropped, training=training)
        return self.mix(dropped, key_value.value, positions), weights

    def _sum_over_nearer(self, log_no_match, positions, distances):
        """Sum `log_no_match` [B, H, T, S] over all keys that are nearer to the query."""
        if positions is not None:
            # In decoding, a query attends only to its own and earlier positions. At each position,
            # it attends to the column of one beam. The mask hides the other columns, so their
            # entries are 0. Therefore the sum over nearer keys is the sum over all columns after
            # the key.
            return tf.cumsum(log_no_match, axis=-1, exclusive=True, reverse=True)
        length = log_no_match.shape[3]
        if length:  # the length is known
            return (_sum_by_matmul if length <= _MAX_MATMUL_LENGTH else _sum_by_cumsum)(
                log_no_match, distances
            )
        return tf.cond(
            tf.shape(log_no_match)[3] <= _MAX_MATMUL_LENGTH,
            lambda: _sum_by_matmul(log_no_match, distances),
            lambda: _sum_by_cumsum(log_no_match, distances),
        )


# If queries and keys have the same positions, the layer can sum over nearer keys in two ways. A
# matrix product is faster than cumulative sums and gathers, but its matrix has length³ entries. The
# layer uses the matrix product up to the length `_MAX_MATMUL_LENGTH`.


_MAX_MATMUL_LENGTH = 128


def _sum_by_matmul(log_no_match, distances):
    """Sum over nearer keys by a matrix product.

    See `GeometricAttention._sum_over_nearer`. For each query, the entry (k, j) of the matrix is 1
    if key k is nearer to the query than key j. A rank of the keys by their distance decides which
    key is nearer.
    """
    rank = 2 * tf.abs(distances) - tf.cast(distances > 0, tf.int32)
    nearer = tf.cast(rank[:, :, tf.newaxis] < rank[:, tf.newaxis], log_no_match.dtype)  # [T, k, j]
    shape = tf.shape(log_no_match)
    by_query = tf.transpose(
        tf.reshape(log_no_match, [-1, shape[2], shape[3]]), [1, 0, 2]
    )  # [T, B·H, S]
    return tf.reshape(tf.transpose(product_lib.product(by_query, nearer), [1, 0, 2]), shape)


def _sum_by_cumsum(log_no_match, distances):
    """Sum over nearer keys by cumulative sums.

    See `GeometricAttention._sum_over_nearer`. The nearer keys are neighbors in the sequence. Their
    sum is the difference of two cumulative sums.
    """
    length = tf.shape(log_no_match)[3]
    query, distance = tf.range(length)[:, tf.newaxis], tf.abs(distances)
    last = tf.minimum(query + distance - tf.cast(distances > 0, tf.int32), length - 1)
    # An index into `sums`. The index is shifted by 1, because `sums` begins with a 0.
    before = tf.maximum(query - distance + 1, 0)
    sums = tf.pad(tf.cumsum(log_no_match, axis=-1), [[0, 0], [0, 0], [0, 0], [1, 0]])
    by_query = tf.transpose(sums, [2, 3, 0, 1])  # [T, S + 1, B, H]
    found = tf.gather(by_query, last + 1, batch_dims=1) - tf.gather(by_query, before, batch_dims=1)
    return tf.transpose(found, [2, 3, 0, 1])


@parts.self_attentions.register("geometric")
def _make(hp, side):
    if hp.hard_attention_k:
        raise HParamError(
            "self_attention_type='geometric' requires hard_attention_k=0. "
            f"Received: hard_attention_k={hp.hard_attention_k}."
        )
    return attention.make(
        hp,
        side,
        GeometricAttention,
        normalize_score=hp.geometric_normalize_score,
        drop_keys=hp.geometric_drop_keys,
    )
