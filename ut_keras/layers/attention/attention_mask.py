"""Attention masks that do not store a tensor [B, 1, T, S]."""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

# A mask replaces logits by this number. T2T adds this number to the logits instead. A query that
# may not attend to any key has the same weight for all keys.
MASKED_LOGIT = -1e9


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionMask:
    """An attention mask whose memory is linear in the length of the sequences.

        mask = AttentionMask(length, length, causal=True)
        mask.dense()                                     # bool [1, 1, T, T]
        attention(x, attention_mask=mask)

    Calls of `MultiHeadAttention` and `StepInputs` accept an `AttentionMask` instead of a mask
    tensor. TensorFlow's functions and the operators `&` and `|` convert it to the tensor `dense()`.
    A query may attend to a key if `causal`, `key_mask` and `segments` all allow it.

    Args:
        queries: int or int32 scalar T.
        keys: int or int32 scalar S.
        causal: bool. Whether a query attends only to its own and earlier positions. If True, T and
            S must be equal.
        key_mask: bool [B, S], True at the keys that all queries may attend to. Optional.
        segments: (int [B, T], int [B, S]). A query attends only to the keys of its own segment.
            Optional.
        dense_if_short: bool tensor, the result of `dense()`, or an empty tensor if the sequences
            are long. Only `with_dense_if` sets this field.

    Raises:
        ValueError: if the mask is causal, and T and S are ints that differ.
    """

    queries: Any
    keys: Any
    causal: bool = False
    key_mask: tf.Tensor | None = None
    segments: tuple[tf.Tensor, tf.Tensor] | None = None
    dense_if_short: tf.Tensor | None = None

    def __post_init__(self) -> None:
        lengths = self.queries, self.keys
        if self.causal and all(isinstance(n, int) for n in lengths) and self.queries != self.keys:
            raise ValueError(
                "queries and keys must be equal in a causal mask. "
                f"Received: queries={self.queries}, keys={self.keys}."
            )

    def with_dense_if(self, is_short: tf.Tensor) -> "AttentionMask":
        """Return a mask that stores the result of `dense()` if `is_short` is True.

        With the stored tensor, a loop over steps computes the dense mask only once. The attribute
        `dense_if_short` stores it. If `is_short` is False, `dense_if_short` is empty.
        """
        queries, keys = (tf.where(is_short, n, 0) for n in (self.queries, self.keys))
        key_mask, segments = self.key_mask, self.segments
        if key_mask is not None:
            key_mask = key_mask[:, :keys]
        if segments is not None:
            segments = segments[0][:, :queries], segments[1][:, :keys]
        short = AttentionMask(queries, keys, self.causal, key_mask, segments)
        return dataclasses.replace(self, dense_if_short=short.dense())

    @property
    def shape(self) -> tf.TensorShape:
        """The static shape of `dense()`."""
        tensors = [self.key_mask, *(self.segments or ())]
        batch = next((x.shape[0] for x in tensors if x is not None), 1)
        return tf.TensorShape([batch, 1, *map(tf.get_static_value, (self.queries, self.keys))])

    def dense(self) -> tf.Tensor:
        """Return the mask as a bool tensor [B, 1, T, S], where B may be 1."""
        allowed = []
        if self.causal:
            query, key = tf.range(self.queries), tf.range(self.keys)
            allowed.append((query[:, tf.newaxis] >= key)[tf.newaxis, tf.newaxis])
        if self.key_mask is not None:
            allowed.append(self.key_mask[:, tf.newaxis, tf.newaxis])
        if self.segments is not None:
            query, key = self.segments
            allowed.append((query[:, :, tf.newaxis] == key[:, tf.newaxis])[:, tf.newaxis])
        shape = [1, 1, self.queries, self.keys]
        result = allowed[0] if allowed else tf.ones(shape, tf.bool)
        for mask in allowed[1:]:
            result &= mask
        return result

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> tf.Tensor:
        return self.dense()

    def __and__(self, other: Any) -> tf.Tensor:
        return self.dense() & other

    def __or__(self, other: Any) -> tf.Tensor:
        return self.dense() | other

    __rand__, __ror__ = __and__, __or__


class Conditions(NamedTuple):
    """The conditions of a mask, for attention that never needs the complete mask."""

    causal: bool = False
    key_mask: tf.Tensor | None = None  # bool [B or 1, H or 1, S]
    segments: Any = None  # has the meaning of `AttentionMask.segments`
    tensor: tf.Tensor | None = None  # bool [B or 1, H or 1, T, S]
    # bool [B or 1, H or 1, T or 1], True for queries that may attend to at least one key. None
    # means that this is True for all queries.
    has_key: tf.Tensor | None = None


def conditions_of(mask: AttentionMask | tf.Tensor | None) -> Conditions:
    """Return the conditions of a mask."""
    if mask is None:
        return Conditions()
    if isinstance(mask, AttentionMask) and mask.key_mask is not None and mask.segments is not None:
        mask = mask.dense()
    if not isinstance(mask, AttentionMask):
        if mask.shape[2] != 1:
            return Conditions(tensor=mask, has_key=tf.reduce_any(mask, axis=-1))
        return _with_key_mask(mask[:, :, 0], False)
    if mask.key_mask is not None:
        return _with_key_mask(mask.key_mask[:, tf.newaxis], mask.causal)
    has_key = None
    if mask.segments is not None and mask.segments[0] is not mask.segments[1]:
        query, key = mask.segments
        ordered = tf.sort(key, axis=-1)
        index = tf.minimum(tf.searchsorted(ordered, query), tf.shape(key)[1] - 1)
        has_key = (tf.gather(ordered, index, batch_dims=1) == query)[:, tf.newaxis]
    return Conditions(mask.causal, segments=mask.segments, has_key=has_key)


def _with_key_mask(key_mask, causal):
    """Return the conditions of a key mask.

    Args:
        key_mask: bool [B or 1, H or 1, S].
        causal: bool. True: a query also attends only to keys that are not after it.
    """
    if causal:
        has_key = tf.cumsum(tf.cast(key_mask, tf.int32), axis=-1) > 0
    else:
        has_key = tf.reduce_any(key_mask, axis=-1, keepdims=True)
    return Conditions(causal, key_mask, has_key=has_key)
