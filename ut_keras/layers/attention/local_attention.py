"""Local attention: each query attends only to keys near its own position.

The cost of local attention is linear in the length of the sequence.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.attention import attention
from ut_keras.layers.attention.attention import KeyValue, Positions
from ut_keras.ops import product

# The axes of [B, H, n, b, w] that correspond to each axis of attention weights [B, H, T, S].
_WINDOW_AXES = {0: (0,), 1: (1,), 2: (2, 3), 3: (4,)}


@keras.saving.register_keras_serializable(package="ut_keras")
class LocalAttention(attention.MultiHeadAttention):
    """Self-attention from each block of positions to a window around the block.

    The layer divides the positions into blocks of `block_length`. The window of a block consists of
    the `left` positions before the block, the block itself, and the `right` positions after the
    block. The queries of a block attend to the keys in the window that `attention_mask` allows. The
    window of a position does not depend on the length of the sequence.

    T2T's `local_mask_right` attends to the block itself and to one block before it, with a causal
    mask. T2T's `local_unmasked` also attends to one block after it.

    T2T differs in two ways. First, T2T ignores `attention_mask`. Therefore, encoders attend to
    padding, packed examples attend to each other, and a decoder with `local_unmasked` attends to
    the tokens that it should predict. Second, T2T has no dropout of the attention weights.

    Args:
        block_length: int. Number of positions in a block.
        left: int. Number of positions before the block in its window.
        right: int. Number of positions after the block in its window.
        causal: bool. Whether queries never attend to later positions, even without a mask.
        *args, **kwargs: as for `MultiHeadAttention`.

    Call arguments and returns: as `MultiHeadAttention`, for self-attention only.

    Raises:
        ValueError: if block_length < 1, left < 0 or right < 0.

    References: Vaswani et al. 2017, section 4; T2T `common_attention.masked_local_attention_1d`,
        `local_attention_1d`.
    """

    cache_order_matters = True

    def __init__(
        self,
        *args: Any,
        block_length: int,
        left: int,
        right: int = 0,
        causal: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if block_length < 1 or left < 0 or right < 0:
            raise ValueError(
                "block_length must be at least 1, and left and right at least 0. "
                f"Received: block_length={block_length}, left={left}, right={right}."
            )
        self.block_length = block_length
        self.left = left
        self.right = right
        self.causal = causal

    def _shared_axes(self):
        return tuple(at for axis in self.dropout_broadcast_dims for at in _WINDOW_AXES[axis % 4])

    def attend(
        self,
        q: tf.Tensor,
        key_value: KeyValue,
        attention_mask: tf.Tensor | None,
        positions: Positions | None,
        training: bool | None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if positions is not None:
            in_window = self._in_window(positions)
            mask = in_window if attention_mask is None else in_window & attention_mask
            return super().attend(q, key_value, mask, positions, training)
        # There are n blocks of b positions. Each block has a window of w = left + b + right keys.
        length = tf.shape(q)[2]
        positions = self._window_positions(length)  # [n, w]
        key, value = (self._windows(x, positions) for x in key_value)  # [B, H, n, w, ...]
        logits = product.product(self._blocks(q), key, transpose=True)  # [B, H, n, b, w]
        may_attend = self._may_attend(positions, length, attention_mask)
        weights = self.weights_from_logits(tf.cast(logits, tf.float32), may_attend)
        dropped = self.weights_dropout(tf.cast(weights, self.compute_dtype), training=training)
        mixed = product.product(dropped, value)  # [B, H, n, b, V / H]
        shape = tf.shape(mixed)
        mixed = tf.reshape(mixed, [shape[0], self.num_heads, -1, mixed.shape[-1]])[:, :, :length]
        return mixed, self._scatter_weights(weights, length)

    def _in_window(self, positions):
        """Return which keys are in the window of each query, bool [T, S]."""
        key, query = positions.key[tf.newaxis, :], positions.query[:, tf.newaxis]
        start = query // self.block_length * self.block_length
        in_window = (key >= start - self.left) & (key < start + self.block_length + self.right)
        return in_window & (key <= query) if self.causal else in_window

    def _window_positions(self, length):
        """Return the position of each key in each window, int32 [n, w].

        The result includes positions before the start and after the end of the sequence.
        """
        starts = tf.range(0, length, self.block_length)
        return starts[:, tf.newaxis] + tf.range(-self.left, self.block_length + self.right)

    def _blocks(self, x):
        """Split [B, H, T, C] into blocks [B, H, n, b, C]."""
        shape = tf.shape(x)
        padded = tf.pad(x, [[0, 0], [0, 0], [0, -shape[2] % self.block_length], [0, 0]])
        return tf.reshape(padded, [shape[0], shape[1], -1, self.block_length, shape[3]])

    def _windows(self, x, positions):
        """Gather windows [B, H, n, w, C] from [B, H, S, C].

        Outside of the sequence, windows contain copies of the first or last position. The mask
        hides these copies.
        """
        return tf.gather(x, tf.clip_by_value(positions, 0, tf.shape(x)[2] - 1), axis=2)

    def _may_attend(self, positions, length, mask):
        """Return the mask of all blocks, bool, broadcastable to [B, H, n, b, w]."""
        inside = (positions >= 0) & (positions < length)
        seen = inside[tf.newaxis, tf.newaxis, :, tf.newaxis, :]
        if self.causal:
            queries = self._window_positions(length)[:, self.left : self.left + self.block_length]
            seen = _and_broadcast(seen, queries[:, :, tf.newaxis] >= positions[:, tf.newaxis, :])
        if mask is None:
            return seen
        return _and_broadcast(seen, self._blocks_of_mask(mask, positions))

    def _blocks_of_mask(self, mask, positions):
        """Gather the mask of each block.

        Args:
            mask: bool [B, 1, T, S], or [B, 1, 1, S] if it is the same for all queries.
            positions: int32 [n, w], the positions of the keys in each window.

        Returns:
            bool [B, 1, n, b, w], or [B, 1, n, 1, w].
        """
        shape = tf.shape(mask)
        keys = tf.clip_by_value(positions, 0, shape[3] - 1)
        if mask.shape[2] == 1:
            return tf.gather(mask[:, :, 0], keys, axis=2)[:, :, :, tf.newaxis]
        # A single gather needs no transpose. Two gathers would require a transpose of booleans. On
        # some CPUs, TensorFlow uses oneDNN for this transpose.
        blocks = tf.pad(mask, [[0, 0], [0, 0], [0, -shape[2] % self.block_length], [0, 0]])
        queries = self._window_positions(shape[2])[:, self.left : self.left + self.block_length]
        indices = queries[..., tf.newaxis] * shape[3] + keys[:, tf.newaxis]  # [n, b, w]
        return tf.gather(tf.reshape(blocks, [shape[0], shape[1], -1]), indices, axis=2)

    def _scatter_weights(self, weights, length):
        """Scatter weights [B, H, n, b, w] to [B, H, T, S], with 0 outside of the windows."""
        shape = tf.shape(weights)
        query, window = tf.range(length)[:, tf.newaxis], shape[4]
        start = query // self.block_length * self.block_length - self.left
        window_index = tf.range(length) - start  # [T, S], the index of the key in the window
        inside = tf.clip_by_value(window_index, 0, window - 1)
        rows = tf.reshape(weights, [shape[0], shape[1], -1])
        dense = tf.where(
            window_index == inside, tf.gather(rows, query * window + inside, axis=2), 0
        )
        dense.set_shape([weights.shape[0], weights.shape[1], None, None])
        return dense


@parts.self_attentions.register("local_mask_right")
@parts.self_attentions.register("local_unmasked")
def _make(hp, side):
    masked = hp.self_attention_type == "local_mask_right"
    return attention.make(
        hp,
        side,
        LocalAttention,
        block_length=hp.block_length,
        left=hp.block_length,
        right=0 if masked else hp.block_length,
        causal=masked,
        hard_attention_k=0,  # as in T2T, these types have no hard attention
    )


def _and_broadcast(a, b):
    """Return a & b for tensors that broadcast.

    The function broadcasts both first, because LiteRT aborts if `&` broadcasts five axes.
    """
    shape = tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b))
    return tf.broadcast_to(a, shape) & tf.broadcast_to(b, shape)
