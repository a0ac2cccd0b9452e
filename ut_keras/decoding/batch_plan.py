"""Decides which sequences share a batch, for every kind of inference.

    why_equal_lengths(model)            why all sequences must have one length, or ""
    plan([3, 9, 2, 8], 20, 64)          [[1, 3], [0, 2]]: indices of the sequences in each batch
    map_batches(batches, function)      runs a function on batches, in Python
    split(model, ids, …)                splits a padded batch by `plan` if padding matters
    map_groups(keys, function, …)       runs a function on groups of examples, in a graph

In Python, only `plan` forms batches. A graph cannot call `plan`, because the lengths are known only
when the graph runs. In a graph, `map_groups` groups examples by equal keys, and
`require_equal_lengths` checks a batch. All of these functions use the reason of
`why_equal_lengths`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ut_keras.decoding.decoded_model import DecodedModel


def why_equal_lengths(model: DecodedModel, scores: bool = False) -> str:
    """Return why the sequences of a batch must have one length.

    Args:
        model: a model such as a `Transformer`.
        scores: bool. Whether given targets are scored. If True, the sources and the targets must
            each have one length.

    Returns:
        str, the reason, or "" if padding does not change the outputs.
    """
    reason = model.why_target_padding_matters if scores else ""
    if model.encoder is None:
        return reason if scores else "a prompt is continued after its last id"
    return model.why_encoder_padding_matters or model.why_source_padding_matters or reason


# In Python.


def plan(
    lengths: Sequence[Any], tokens: int = 0, max_examples: int = 0, same_length: bool = False
) -> list[list[int]]:
    """Group sequences of similar length into batches, the longest first.

    Sequences of similar length need little padding, which saves work. The longest sequences come
    first, so an out-of-memory error occurs at the beginning.

    Args:
        lengths: list of int, the lengths of the sequences. If `tokens` is 0, a length may be a
            tuple (length of a target, length of its source).
        tokens: int. Maximum number of positions in a padded batch. A batch with only one sequence
            may have more. 0: no limit.
        max_examples: int. Maximum number of sequences in a batch. 0: no limit.
        same_length: bool. Whether the sequences of a batch must have equal lengths, so that there
            is no padding. Callers pass True if `why_equal_lengths` gives a reason.

    Returns:
        list of lists of indices into `lengths`. Every sequence is in one batch. If there is no
            limit and same_length is False, one batch has all sequences in their original order.
    """
    rows: Iterable[int] = range(len(lengths))
    if tokens or max_examples or same_length:
        # The sort is stable, so the same sequences always give the same batches.
        rows = sorted(rows, key=lambda row: lengths[row], reverse=True)
    batches: list[list[int]] = []
    for row in rows:
        batch = batches[-1] if batches else []
        longest = lengths[batch[0]] if batch else 0
        fits = batch and (not max_examples or len(batch) < max_examples)
        fits = fits and (not tokens or (len(batch) + 1) * longest <= tokens)
        if fits and (not same_length or lengths[row] == longest):
            batch.append(row)
        else:
            batches.append([row])
    return batches


def map_batches(batches: Iterable[Any], function: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """Call a function on batches of indices. Return results in the indices' order."""
    results_by_index: dict[int, Any] = {}
    for indices in batches:
        results_by_index.update(zip(indices, function(indices), strict=True))
    return [results_by_index[index] for index in range(len(results_by_index))]


def pad(rows: Sequence[Any]) -> np.ndarray:
    """Return int32 [B, longest] or [B, longest, words], padded with 0 at the end."""
    rows = [np.asarray(row, np.int32) for row in rows]
    batch = np.zeros([len(rows), max(map(len, rows)), *rows[0].shape[1:]], np.int32)
    for line, row in zip(batch, rows, strict=True):
        line[: len(row)] = row
    return batch


def trim(batch: np.ndarray) -> list[np.ndarray]:
    """Return the sequences of a batch [B, S] without padding at their ends.

    At least one id of each sequence remains. A batch with more axes is not trimmed.
    """
    if batch.ndim > 2:
        return list(batch)
    return [row[: max(1, len(np.trim_zeros(row, "b")))] for row in batch]


class Group(NamedTuple):
    """Examples of a padded batch that all have the same length."""

    indices: np.ndarray  # int [n], indices of the examples in the batch
    ids: tf.Tensor  # int32 [n, length]


def split(model: DecodedModel, ids: tf.Tensor, per_example_length: bool) -> list[Group]:
    """Split a padded batch into groups without padding, if padding affects outputs.

    The padding on both sides of prompts is removed. The padding after sources is removed only if it
    changes the outputs and `per_example_length` is True. Otherwise sources remain padded, as in
    T2T.

    Args:
        model: a model such as a `Transformer`.
        ids: int32 [B, S] or [B, sentences, words], eager.
        per_example_length: bool. See `Options`.

    Returns:
        list of `Group`, with every example in one group. If no padding needs to be removed, the
            list has one group with the unchanged ids.
    """
    one_group = [Group(np.arange(ids.shape[0]), ids)]
    if not _padding_matters(model, ids, per_example_length):
        return one_group
    array = ids.numpy()
    if array.all():
        return one_group
    rows = trim(array) if model.encoder is not None else [np.trim_zeros(row) for row in array]
    return [
        Group(np.array(indices), tf.constant([rows[index] for index in indices], tf.int32))
        for indices in plan([len(row) for row in rows], same_length=True)
    ]


def restore_order(result: Any, groups: Sequence[Group]) -> Any:
    """Return the results for all groups of `split` in the order of the batch.

    Args:
        result: nest of tensors [B, …] and None, the results for one group after the other.
        groups: the result of `split`.
    """
    if len(groups) == 1:
        return result
    order = np.argsort(np.concatenate([group.indices for group in groups]))
    return tf.nest.map_structure(lambda x: None if x is None else tf.gather(x, order), result)


# In a graph.


def require_equal_lengths(
    model: DecodedModel, ids: tf.Tensor, per_example_length: bool
) -> tf.Tensor:
    """Return the ids with an assertion that `split` would not change them.

    The arguments are the same as for `split`, but the ids are symbolic.
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


def _padding_matters(model: DecodedModel, ids: tf.Tensor, per_example_length: bool) -> bool:
    """Return whether padding at the ends of examples would change their outputs."""
    if ids.shape.rank != 2:  # the size of stories is fixed
        return False
    return bool(why_equal_lengths(model)) and (model.encoder is None or per_example_length)


def to_dense(rows: Any) -> tf.Tensor:
    """Return a `RaggedTensor` as a padded tensor, and a dense tensor unchanged."""
    return rows.to_tensor() if isinstance(rows, tf.RaggedTensor) else rows


def map_groups(keys: tf.Tensor, function: Callable[[tf.Tensor], tuple], results: tuple) -> tuple:
    """Call a function for each group of examples, in a graph.

    Args:
        keys: int64 [B]. Examples with equal keys form a group.
        function: function (indices of a group, int32 [n]) -> tuple of tensors [n, …].
        results: tuple of tensors [B, …]. They set the shapes and dtypes of the results, and their
            values are not used.

    Returns:
        tuple of tensors [B, …], the results in the order of the examples.
    """
    unique_keys, group_of_example = tf.unique(keys)

    def run(group, results):
        indices = tf.cast(tf.where(group_of_example == group), tf.int32)  # [n, 1]
        new = function(indices[:, 0])
        return group + 1, tuple(
            tf.tensor_scatter_nd_update(all_results, indices, group_results)
            for all_results, group_results in zip(results, new, strict=True)
        )

    _, results = tf.while_loop(
        lambda group, _: group < tf.size(unique_keys),
        run,
        (tf.constant(0), tuple(results)),
        parallel_iterations=1,  # a single group may already fill the memory
    )
    return results
