"""Which rows may share the batch of a search, and groups of rows where not all may.

why_equal_lengths(model)                 why rows of other lengths may not; "" where they may
split(model, ids, per_example_length)    [Group(indices, ids)] of an eager batch
require_equal_lengths(model, ids, …)     the same ids in a graph, which cannot split them
"""

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf


class Group(NamedTuple):
    """Rows of one length."""

    indices: np.ndarray  # int [n], of the rows in their batch
    ids: tf.Tensor  # int32 [n, length]


def why_equal_lengths(model: keras.Model) -> str:
    """Return why the rows of a search must be of one length; "" where padding changes nothing."""
    if model.encoder is None:
        return "a prompt is continued after its last id"
    reason: str = model.why_source_padding_matters
    return reason


def split(model: keras.Model, ids: tf.Tensor, per_example_length: bool) -> list[Group]:
    """Split a batch into rows that may be searched together, without the padding that matters.

    A prompt loses its padding on both sides. A source loses the padding after it if that would
    change the result, and if its own length counts (`per_example_length`); else T2T's way holds.

    Args:
        model: as for `generate`.
        ids: int32 [B, S] or [B, sentences, words], eager.
        per_example_length: bool. See `Options`.
    Returns:
        list of `Group`, every row once; one group with the ids as they are, where all may go
        together.
    """
    one_group = [Group(np.arange(ids.shape[0]), ids)]
    if not _padding_matters(model, ids, per_example_length):
        return one_group
    array = ids.numpy()
    if array.all():
        return one_group
    if model.encoder is None:
        rows = [np.trim_zeros(row) for row in array]
    else:
        rows = [row[: max(1, len(np.trim_zeros(row, "b")))] for row in array]
    groups: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(len(row), []).append(index)
    return [
        Group(np.array(indices), tf.constant([rows[index] for index in indices], tf.int32))
        for _, indices in sorted(groups.items(), reverse=True)
    ]


def require_equal_lengths(
    model: keras.Model, ids: tf.Tensor, per_example_length: bool
) -> tf.Tensor:
    """Return the ids of a traced batch; running it fails if `split` would change them.

    Args: as of `split`, but for the ids, which are symbolic.
    """
    if not _padding_matters(model, ids, per_example_length):
        return ids
    columns = ids[:, -1:] if model.encoder is not None else tf.concat([ids[:, :1], ids[:, -1:]], 1)
    message = (
        f"{'Prompts' if model.encoder is None else 'inputs'} must have one length and no padding "
        f"at their ends in a traced function: {why_equal_lengths(model)}. Received:"
    )
    check = tf.debugging.Assert(tf.reduce_all(columns != 0), [message, ids])
    with tf.control_dependencies([check]):
        return tf.identity(ids)


def _padding_matters(model: keras.Model, ids: Any, per_example_length: bool) -> bool:
    """Whether padding at the ends of rows changes what must not depend on it."""
    if ids.shape.rank != 2:  # stories are of one size
        return False
    return bool(why_equal_lengths(model)) and (model.encoder is None or per_example_length)
