"""Decides which sequences may share a batch, for every kind of inference.

why_equal_lengths(model)                 why all sequences must have one length, or ""
plan([3, 9, 2, 8], 20, 64)               [[1, 3], [0, 2]]: indices of the sequences in each batch
map_groups(lengths, function, results)   runs a function on groups of equal length, in a graph
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.decoding import row_groups


def why_equal_lengths(model: keras.Model, scores: bool = False) -> str:
    """Return why the sequences of a batch must have one length.

    Args:
        model: a model such as a `Transformer`.
        scores: bool. Whether given targets are scored. Then both the sources and the targets must
            have one length.

    Returns:
        str, the reason; "" if padding does not change the outputs.
    """
    if model.decoder is None and not model.class_labels:
        return "an encoder without a decoder also has outputs at padding"
    if model.decoder is None and model.hparams.class_label_pooling == "mean":
        return "class_label_pooling=mean includes padding"
    if not scores:
        return row_groups.why_equal_lengths(model)
    reason = "" if model.encoder is None else model.why_source_padding_matters
    return reason or model.why_target_padding_matters


# In Python.


def plan(
    lengths: Sequence[int], tokens: int, max_examples: int, same_length: bool = False
) -> list[list[int]]:
    """Group sequences of similar length into batches, the longest first.

    This saves work on padding. If the memory is too small, the first batch already fails.

    Args:
        lengths: list of int, the lengths of the sequences.
        tokens: int. Maximum number of positions in a padded batch; a batch with one sequence may
            have more. 0: no limit.
        max_examples: int. Maximum number of sequences in a batch.
        same_length: bool. Whether the sequences of a batch must have equal lengths, so that there
            is no padding.

    Returns:
        list of lists of indices into `lengths`. Every sequence is in one batch.
    """
    batches: list[list[int]] = []
    # The sort is stable, so the same sequences always give the same batches.
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        batch = batches[-1] if batches else []
        longest = lengths[batch[0]] if batch else 0
        fits = batch and len(batch) < max_examples
        fits = fits and (not tokens or (len(batch) + 1) * longest <= tokens)
        if fits and (not same_length or lengths[row] == longest):
            batch.append(row)
        else:
            batches.append([row])
    return batches


def map_batches(batches: Iterable[Any], function: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """Return the results of a function of batches of indices, in the order of the indices."""
    results_by_index: dict[int, Any] = {}
    for indices in batches:
        results_by_index.update(zip(indices, function(indices), strict=True))
    return [results_by_index[index] for index in range(len(results_by_index))]


def pad(rows: Sequence[Any]) -> np.ndarray:
    """Return int32 [B, longest] or [B, longest, words], with 0 after shorter sequences."""
    rows = [np.asarray(row, np.int32) for row in rows]
    batch = np.zeros([len(rows), max(map(len, rows)), *rows[0].shape[1:]], np.int32)
    for line, row in zip(batch, rows, strict=True):
        line[: len(row)] = row
    return batch


def trim(batch: np.ndarray) -> list[np.ndarray]:
    """Return the sequences of a batch [B, S] without the padding after them.

    At least one id of each sequence stays. A batch with more axes is not trimmed.
    """
    if batch.ndim > 2:
        return list(batch)
    return [row[: max(1, len(np.trim_zeros(row, "b")))] for row in batch]


# In a graph.


def to_dense(rows: Any) -> tf.Tensor:
    """Return a `RaggedTensor` as a padded tensor, and a tensor unchanged."""
    return rows.to_tensor() if isinstance(rows, tf.RaggedTensor) else rows


def map_groups(keys: tf.Tensor, function: Callable[[tf.Tensor], tuple], results: tuple) -> tuple:
    """Call a function for each group of examples, in a graph.

    Args:
        keys: int64 [B]. Examples with equal keys are a group.
        function: function (indices of a group, int32 [n]) -> tuple of tensors [n, …].
        results: tuple of tensors [B, …] of the shapes and dtypes of the results. Their values are
            replaced.

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
        parallel_iterations=1,  # one group at a time may fill the memory
    )
    return results
