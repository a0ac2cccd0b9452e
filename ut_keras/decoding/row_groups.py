"""Decides which examples may share the batch of a search, and splits a batch accordingly.

why_equal_lengths(model)                 why all examples must have one length, or ""
split(model, ids, per_example_length)    [Group(indices, ids)] for an eager batch
require_equal_lengths(model, ids, …)     ids; in a graph, which cannot split a batch, it only checks
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ut_keras.decoding.decoded_model import DecodedModel


class Group(NamedTuple):
    """Examples of one length."""

    indices: np.ndarray  # int [n], indices of the examples in the batch
    ids: tf.Tensor  # int32 [n, length]


def why_equal_lengths(model: DecodedModel) -> str:
    """Return why the examples of a batch must have one length, or "" if padding has no effect."""
    if model.encoder is None:
        return "a prompt is continued after its last id"
    return model.why_source_padding_matters


def split(model: DecodedModel, ids: tf.Tensor, per_example_length: bool) -> list[Group]:
    """Split a batch into groups without padding, if padding would change the outputs.

    The padding on both sides of prompts is removed. The padding after sources is removed only if it
    would change the outputs and `per_example_length` is True. Otherwise sources stay padded, as in
    T2T.

    Args:
        model: as for `generate`.
        ids: int32 [B, S] or [B, sentences, words], eager.
        per_example_length: bool. See `Options`.

    Returns:
        list of `Group`, with every example in one group. If no padding needs to be removed, one
        group with the unchanged ids.
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
    model: DecodedModel, ids: tf.Tensor, per_example_length: bool
) -> tf.Tensor:
    """Return the ids with an assertion that `split` would not change them.

    Args: as for `split`, with symbolic ids.
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


def _padding_matters(model: DecodedModel, ids: Any, per_example_length: bool) -> bool:
    """Return whether padding at the ends of examples would change their outputs."""
    if ids.shape.rank != 2:  # stories have a fixed size
        return False
    return bool(why_equal_lengths(model)) and (model.encoder is None or per_example_length)
