"""Relative attention: learned vectors for the distance between query and key."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.attention import attention
from ut_keras.layers.attention.attention import Positions
from ut_keras.layers.basic.layer import check_least
from ut_keras.layers.basic.signature import Shape
from ut_keras.ops import gather, product


@keras.saving.register_keras_serializable(package="ut_keras")
class RelativeAttention(attention.MultiHeadAttention):
    """Self-attention with learned vectors per distance (`dot_product_relative`).

    The layer adds the vectors to the keys and to the values.

        e_ij = q_i (k_j + a_ij) / sqrt(d);   z_i = sum_j softmax(e)_ij (v_j + b_ij)
        a_ij = A[clip(j - i, -m, m)],   b_ij = B[clip(j - i, -m, m)]   (Shaw et al. 2018, eq. 3-5)

    Distances above m use the vector of m. Distances below -m use the vector of -m. All heads share
    A and B.

    Args:
        max_relative_position: int m.
        *args, **kwargs: as for `MultiHeadAttention`. key_channels must equal value_channels.

    Call arguments and returns: as `MultiHeadAttention`. If there are fewer queries than keys and
    the call has no `Positions`, the last query has the position of the last key.

    Raises:
        ValueError: if max_relative_position < 1, or if key_channels and value_channels differ.

    References: T2T `common_attention.dot_product_attention_relative`.
    """

    cache_order_matters = True

    def __init__(self, *args: Any, max_relative_position: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_least("max_relative_position", max_relative_position, 1)
        self.max_relative_position = max_relative_position
        if self.key_channels != self.value_channels:
            raise ValueError(
                "key_channels must equal value_channels in relative attention. Received: "
                f"key_channels={self.key_channels}, value_channels={self.value_channels}."
            )

    def build(self, query_shape: Shape) -> None:
        super().build(query_shape)
        self.key_table, self.value_table = (
            self.add_weight(
                name=f"relative_positions_{kind}",
                shape=(2 * self.max_relative_position + 1, self.key_channels // self.num_heads),
                initializer=self.kernel_initializer.clone(),  # a new seed for each table
            )
            for kind in ("keys", "values")
        )

    def logits(self, q: tf.Tensor, key: tf.Tensor, positions: Positions | None) -> tf.Tensor:
        vectors = self._vectors(self.key_table, positions, tf.shape(q)[2], tf.shape(key)[2])
        return super().logits(q, key, positions) + tf.einsum("bhid,ijd->bhij", q, vectors)

    def mix(self, weights: tf.Tensor, value: tf.Tensor, positions: Positions | None) -> tf.Tensor:
        shape = tf.shape(weights)
        vectors = self._vectors(self.value_table, positions, shape[2], shape[3])
        return super().mix(weights, value, positions) + tf.einsum(
            "bhij,ijd->bhid", weights, vectors
        )

    def _vectors(self, table, positions, num_queries, num_keys):
        """Return the vector of each pair of query and key, [T, S, d]."""
        key = tf.range(num_keys)
        positions = positions or Positions(key[num_keys - num_queries :], key)
        limit = self.max_relative_position
        row = tf.clip_by_value(positions.distances, -limit, limit) + limit
        return gather.rows(tf.convert_to_tensor(table), row)


@keras.saving.register_keras_serializable(package="ut_keras")
class CausalRelativeAttention(attention.MultiHeadAttention):
    """Causal relative attention with linear memory (`dot_product_relative_v2`).

    Each distance has a learned vector. The memory for the vectors is linear in the length of the
    sequence.

        e_ij = q_i (k_j + a_{i-j}) / sqrt(d),   j <= i;   a_n = 0 for n >= m
                                                          (Huang et al. 2018, section 3.4)

    The layer is meant for decoders, where a mask hides all keys after the query. T2T also allows
    this layer in encoders. In an encoder without `mask_future`, the logits of keys after the query
    contain wrong values. The reason is that the shift in figure 1 of the paper is valid only for
    keys up to the query. Each wrong value is the product of the next query and the vector of
    another distance. This other distance depends on the padded length of the sequence.

    Args:
        max_relative_position: int m.
        heads_share_relative_embedding: bool. Whether all heads share one table.
        add_relative_to_values: bool. Whether the layer also adds learned vectors to the values.
        mask_future: bool. Whether a_n = 0 for n < 0. This has an effect only if no mask hides the
            keys after the query.
        *args, **kwargs: as for `MultiHeadAttention`.

    Call arguments and returns: as `MultiHeadAttention`, for self-attention only.

    Raises:
        ValueError: if max_relative_position < 1.

    References: T2T `common_attention.dot_product_self_attention_relative_v2`.
    """

    cache_order_matters = True

    def __init__(
        self,
        *args: Any,
        max_relative_position: int,
        heads_share_relative_embedding: bool = False,
        add_relative_to_values: bool = False,
        mask_future: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_least("max_relative_position", max_relative_position, 1)
        self.max_relative_position = max_relative_position
        self.mask_future = mask_future
        # Without `mask_future`, the logits of later keys contain values of the next query.
        self.queries_are_independent = mask_future
        self.heads_share_relative_embedding = heads_share_relative_embedding
        self.add_relative_to_values = add_relative_to_values

    def build(self, query_shape: Shape) -> None:
        super().build(query_shape)
        self.key_table = self._table("key", self.key_channels // self.num_heads)
        self.value_table = None
        if self.add_relative_to_values:
            self.value_table = self._table("value", self.value_channels // self.num_heads)

    def logits(self, q: tf.Tensor, key: tf.Tensor, positions: Positions | None) -> tf.Tensor:
        logits = super().logits(q, key, positions)
        if positions is not None:
            vectors = self._vectors_of_pairs(self.key_table, positions)
            return logits + tf.einsum("bhid,hijd->bhij", q, vectors)
        vectors = self._vectors(self.key_table, tf.shape(q)[2])
        by_distance = product.per_head(q, vectors, transpose=True)  # the last column has distance 0
        return logits + self._without_future(_by_position(by_distance))

    def mix(self, weights: tf.Tensor, value: tf.Tensor, positions: Positions | None) -> tf.Tensor:
        mixed = super().mix(weights, value, positions)
        if not self.add_relative_to_values:
            return mixed
        if positions is not None:
            vectors = self._vectors_of_pairs(self.value_table, positions)
            mixed += tf.einsum("bhij,hijd->bhid", weights, vectors)
        else:
            vectors = self._vectors(self.value_table, tf.shape(value)[2])
            mixed += product.per_head(_by_distance(self._without_future(weights)), vectors)
        return mixed

    def _without_future(self, x):
        """Set the entries of later keys in x [B, H, T, T] to 0, if `mask_future` is True."""
        return tf.linalg.band_part(x, -1, 0) if self.mask_future else x

    def _table(self, kind, channels):
        heads = () if self.heads_share_relative_embedding else (self.num_heads,)
        return self.add_weight(
            name=f"{kind}_relative_embeddings",
            shape=(*heads, self.max_relative_position, channels),
            initializer=keras.initializers.RandomNormal(stddev=channels**-0.5),
        )

    def _vectors(self, table, length):
        """Return the vectors of the distances length - 1, …, 0, [H or 1, T, d]."""
        table = tf.convert_to_tensor(table)
        if self.heads_share_relative_embedding:
            table = table[tf.newaxis]
        unknown = tf.maximum(length - self.max_relative_position, 0)
        padded = tf.pad(table, [[0, 0], [unknown, 0], [0, 0]])
        return padded[:, tf.shape(padded)[1] - length :]

    def _vectors_of_pairs(self, table, positions):
        """Return the vector of each pair of query and key, [H, T, S, d].

        The vector is 0 if the key is after the query, or if the distance is at least m.
        """
        table = tf.convert_to_tensor(table)
        if self.heads_share_relative_embedding:
            table = tf.repeat(table[tf.newaxis], self.num_heads, axis=0)
        # The last row of the table belongs to distance 0.
        row = self.max_relative_position - 1 + positions.distances
        found = tf.gather(table, tf.clip_by_value(row, 0, tf.shape(table)[1] - 1), axis=1)
        known = (row >= 0) & (positions.distances <= 0)
        return tf.where(known[tf.newaxis, :, :, tf.newaxis], found, 0)


def _by_position(x):
    """Reorder entries by distance to entries by key position.

    The result is valid for keys up to the query. The function pads the input to T + 1 columns and
    reshapes the numbers to rows of T columns. The new shape shifts each row by one column more than
    the previous row.

    Args:
        x: [B, H, T, T]. In its last axis, a key has index T - 1 - (query - key).

    Returns:
        [B, H, T, T]. In its last axis, a key has its position as index.
    """
    shape = tf.shape(x)
    length = shape[2]
    shifted = tf.reshape(
        tf.pad(x, [[0, 0], [0, 0], [0, 0], [1, 0]]), [shape[0], shape[1], length + 1, length]
    )
    return tf.slice(shifted, [0, 0, 1, 0], [-1, -1, -1, -1])


def _by_distance(x):
    """Compute the inverse of `_by_position`."""
    shape = tf.shape(x)
    length = shape[2]
    shifted = tf.reshape(
        tf.pad(x, [[0, 0], [0, 0], [1, 0], [0, 0]]), [shape[0], shape[1], length, length + 1]
    )
    return tf.slice(shifted, [0, 0, 0, 1], [-1, -1, -1, -1])


@parts.self_attentions.register("dot_product_relative")
def _make_relative(hp, side):
    return attention.make(
        hp, side, RelativeAttention, max_relative_position=hp.max_relative_position
    )


@parts.self_attentions.register("dot_product_relative_v2")
def _make_causal(hp, side):
    return attention.make(
        hp,
        side,
        CausalRelativeAttention,
        max_relative_position=hp.max_relative_position,
        heads_share_relative_embedding=hp.heads_share_relative_embedding,
        add_relative_to_values=hp.add_relative_to_values,
        mask_future=hp.relative_mask_future,
        hard_attention_k=0,  # as in T2T, this type has no hard attention
    )
