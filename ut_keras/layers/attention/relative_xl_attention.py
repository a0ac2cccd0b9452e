"""Self-attention that knows how far a key is, however far that is."""

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.attention import attention
from ut_keras.layers.attention.attention import Positions
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.position import timing_signal
from ut_keras.ops import product


@keras.saving.register_keras_serializable(package="ut_keras")
class RelativeXLAttention(attention.MultiHeadAttention):
    """The signal of a distance joins the key (`dot_product_relative_xl`).

        e_ij = ((q_i + u) k_j + (q_i + v) W r_{i-j}) / sqrt(d)       (Dai et al. 2019, section 3.3)

    r_n is the sinusoid of a distance n, of width D and in both directions; no distance is clipped.
    u, v and W are those of the head; u and v begin at 0, as in the code of Csordás et al. (The
    wavelengths are T2T's, whose last is 10000 exactly.)

    Arguments, call arguments and returns: as `MultiHeadAttention`; for self-attention only.
    References: Dai et al. 2019, Transformer-XL; Csordás et al. 2021, The Devil is in the Detail,
        whose Universal Transformers have it.
    """

    cache_order_matters = True

    def build(self, query_shape: Shape) -> None:
        super().build(query_shape)
        self.relative_projection = self._projection(self.key_channels, "r", self.hidden_size)
        self.content_bias, self.position_bias = (
            self.add_weight(name=name, shape=(self.key_channels,), initializer="zeros")
            for name in ("content_bias", "position_bias")
        )

    def logits(self, q: tf.Tensor, key: tf.Tensor, positions: Positions | None) -> tf.Tensor:
        by_content = super().logits(self._add_bias(q, self.content_bias), key, positions)
        q = self._add_bias(q, self.position_bias)
        if positions is None:
            length = tf.maximum(tf.shape(key)[2], 1)  # there may be no position
            vectors = self._vectors(tf.range(length - 1, -length, -1))  # [2 S - 1, H, d]
            table = tf.transpose(vectors, [1, 0, 2])
            return by_content + _by_position(product.per_head(q, table, transpose=True))
        # Of keys behind a query no vector is wanted: a cache is for what does not see them.
        last = tf.maximum(tf.reduce_max(positions.query), -1)  # of no query it is the least number
        table = self._vectors(tf.range(last + 1))
        vectors = tf.gather(table, tf.maximum(-positions.distances, 0))  # [T, S, H, d]
        return by_content + tf.einsum("bhid,ijhd->bhij", q, vectors)

    def _vectors(self, distances):
        """W r of some distances [R]: [R, H, d]."""
        signals = timing_signal.sinusoid(distances, self.hidden_size)
        projected = self.relative_projection(tf.cast(signals, self.compute_dtype))
        return tf.reshape(projected, [-1, self.num_heads, self.key_channels // self.num_heads])


def _by_position(x):
    """[B, H, S, S - 1 - (query - key)], of 2 S - 1 distances -> [B, H, S, key].

    With one column more, rows that are read as 2 S - 1 columns slide by one each. (The gradient of
    `tf.slice` is a padding, ten times as fast on a CPU as that of an index.)
    """
    shape = tf.shape(x)
    length, count = shape[2], shape[3]
    shifted = tf.reshape(tf.pad(x, [[0, 0], [0, 0], [0, 0], [0, 1]]), [shape[0], shape[1], -1])
    shifted = tf.slice(shifted, [0, 0, 0], [-1, -1, length * count])
    shifted = tf.reshape(shifted, [shape[0], shape[1], length, count])
    return tf.slice(shifted, [0, 0, 0, count // 2], [-1, -1, -1, -1])


@parts.self_attentions.register("dot_product_relative_xl")
def _make(hp, side):
    return attention.make(hp, side, RelativeXLAttention)
