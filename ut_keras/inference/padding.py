"""Which rows may share a batch: the one rule for everything that answers rows of any length.

why_equal_lengths(model)                why not those of other lengths; "" where they may
plan([3, 9, 2, 8], 20, 64)              [[1, 3], [0, 2]]: the batches of many rows
map_groups(lengths, function, results)   the same in a graph
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.decoding import row_groups


def why_equal_lengths(model: keras.Model, scores: bool = False) -> str:
    """Why the rows of a batch must be of one length.

    Args:
        model: such as a `Transformer`.
        scores: bool. Whether given targets are scored, rather than written or classified; then
            the length is that of source and target.
    Returns:
        str; "" where padding changes no answer.
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
    """Groups rows into batches, those of like length together, the longest first.

    So no work is wasted on padding, and if memory is too small, the first batch tells.

    Args:
        lengths: list of int, of the rows.
        tokens: int. A batch, padded to its longest row, has at most so many positions, unless it
            is a single row. 0 for any number.
        max_examples: int. Rows of a batch.
        same_length: bool. Only rows of equal length go together, so that none is padded.
    Returns:
        list of lists of indices into `lengths`: every row once.
    """
    batches: list[list[int]] = []
    # Rows of one length stay in their order: the same rows give the same batches.
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
    """int32 [B, longest], or [B, longest, words]; 0 behind shorter rows."""
    rows = [np.asarray(row, np.int32) for row in rows]
    batch = np.zeros([len(rows), max(map(len, rows)), *rows[0].shape[1:]], np.int32)
    for line, row in zip(batch, rows, strict=True):
        line[: len(row)] = row
    return batch


def trim(batch: np.ndarray) -> list[np.ndarray]:
    """The rows of a padded batch [B, S], at least an id each; of more axes, as they are."""
    if batch.ndim > 2:
        return list(batch)
    return [row[: max(1, len(np.trim_zeros(row, "b")))] for row in batch]


# In a graph.


def to_dense(rows: Any) -> tf.Tensor:
    """`pad`, of a `RaggedTensor`; of a tensor itself."""
    return rows.to_tensor() if isinstance(rows, tf.RaggedTensor) else rows


def map_groups(keys: tf.Tensor, function: Callable[[tf.Tensor], tuple], results: tuple) -> tuple:
    """Calls a function for each group of rows.

    Args:
        keys: int64 [B]. Rows of one key are a group.
        function: (indices of the group's rows, int32 [n]) -> tuple of tensors [n, …].
        results: tensors [B, …], of which each row gets another value; of no rows they are returned.
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
        parallel_iterations=1,  # a group may fill the memory
    )
    return results
