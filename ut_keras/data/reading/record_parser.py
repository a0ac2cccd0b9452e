"""Parses TFRecord records into features, and checks the features.

The checks run inside tf.data, where a fault can be reported only as a failed assertion. The module
`readable` in this folder converts TensorFlow's error to one line for the user.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from ut_keras.data.features import FeatureSpec

# The message for the user after each failed check. TensorFlow's error contains the values.
CHECKS = {
    "feature is missing": (
        "Every record must have the feature {0!r}. Received: a record without {0!r} in {file}."
    ),
    "wrong number of values": (
        "{0!r} must hold {1} ids in every record, as the problem specifies. Received: {2} in "
        "{file}. Generate the data again."
    ),
    "ids out of range": (
        "{0!r} must hold ids in [0, {1}), the vocabulary size. Received: ids from {2} to {3} in "
        "{file}. The data and the vocabulary (or the problem) do not belong together."
    ),
    "wrong length of a part": (
        "{0!r} must have as many values as the packed feature, {1}. Received: {2}, in {file}."
    ),
    "length has changed": (
        "An example must have the length {0} from the index of its file. Received: length {1}. "
        "Remove {file} if it exists, and run the command again."
    ),
}


def parse_records(
    files: tf.Tensor, records: tf.Tensor, specs: "Mapping[str, FeatureSpec]"
) -> dict[str, Any]:
    """Parse a batch of records, which is much cheaper than parsing single records.

    Args:
        files: string tensor [n], the file of each record.
        records: string tensor [n], serialized `tf.train.Example`s.
        specs: dict from the name of a feature of the records to its `FeatureSpec`.

    Returns:
        dict from feature name to an int32 tensor. The tensor is ragged, [n, (length)], or dense,
            [n, *shape], if the feature has a fixed shape.
    """
    parsed = tf.io.parse_example(records, {name: tf.io.RaggedFeature(tf.int64) for name in specs})
    features = {}
    for name, spec in specs.items():
        rows = parsed[name]
        if spec.default is not None:
            rows = _fill_empty(rows, spec.default)
        lengths = rows.row_lengths()
        checks = [_check("feature is missing", lengths > 0, name, files=files)]
        shape = (1,) if spec.modality == "class_label" else spec.shape
        if shape:
            size = math.prod(shape)
            checks.append(
                _check("wrong number of values", lengths == size, name, size, lengths, files=files)
            )
        with tf.control_dependencies(checks):
            check = check_ids(rows, name, spec.vocab_size, files)
        with tf.control_dependencies([check]):
            ids = tf.cast(rows.flat_values, tf.int32)
        features[name] = tf.reshape(ids, [-1, *shape]) if shape else rows.with_flat_values(ids)
    return features


def check_ids(rows: tf.RaggedTensor, name: str, vocab_size: int, files: tf.Tensor) -> tf.Operation:
    """Return an operation that fails if an id is not in [0, vocab_size).

    Args:
        rows: ragged int tensor [n, (length)].
        name: str, the name of the feature in the error.
        vocab_size: int.
        files: string tensor [n], the file of each row, which the error names.
    """
    # The operation computes the smallest and the largest id of only one row, the first row with a
    # bad id. For all rows, it would need `value_rowids`, which takes more time than all other
    # operations of the parser.
    ids, splits = rows.flat_values, rows.row_splits
    bad = tf.logical_or(ids < 0, ids >= vocab_size)
    # The index is 0 if no id is bad. The last element makes the vector longer than 0.
    index = tf.argmax(tf.concat([tf.cast(bad, tf.int32), [0]], 0), output_type=splits.dtype)
    row = tf.reduce_sum(tf.cast(splits[1:-1] <= index, tf.int32))
    own = ids[tf.gather(splits, row) : tf.gather(splits, row + 1)]
    shown = [tf.as_string(value) for value in (tf.reduce_min(own), tf.reduce_max(own))]
    values = [name, vocab_size, *shown, tf.gather(files, row)]
    return tf.debugging.Assert(tf.logical_not(tf.reduce_any(bad)), ["ids out of range", *values])


def check_lengths(lengths: tf.Tensor, indexed: tf.Tensor, index_path: str) -> tf.Operation:
    """Return an operation that fails if the lengths of features differ from the index."""
    lengths, indexed = tf.reshape(lengths, [-1]), tf.reshape(indexed, [-1])
    paths = tf.fill(tf.shape(lengths), index_path)
    return _check("length has changed", lengths == indexed, indexed, lengths, files=paths)


def check_part(part: str, expected: tf.Tensor, found: tf.Tensor, files: tf.Tensor) -> tf.Operation:
    """Return an operation that fails if a part of a packed feature has another length.

    Args:
        part: str, such as "inputs_segmentation".
        expected, found: int tensors [n], the lengths of the feature and of the part.
        files: string tensor [n], the file of each row, which the error names.
    """
    is_same = tf.equal(expected, found)
    return _check("wrong length of a part", is_same, part, expected, found, files=files)


def _fill_empty(rows, value):
    """Return a ragged tensor [n, (length)] in which `value` replaces each empty row."""
    empty = tf.cast(rows.row_lengths() == 0, rows.row_splits.dtype)
    filling = tf.fill([tf.reduce_sum(empty)], tf.constant(value, rows.dtype))
    return tf.concat([rows, tf.RaggedTensor.from_row_lengths(filling, empty)], axis=1)


def _check(check, good, *values, files):
    """Return an assertion that fails at the first row for which `good` is False.

    The error contains `values`. If a value is a tensor, the error contains only its entry for this
    row.
    """
    row = tf.argmin(tf.cast(good, tf.int32))
    # `values` are converted to strings. For other types, `Assert` would build a condition with two
    # subgraphs. TensorFlow traces `tf.gather` in a third of the time of `value[row]`.
    shown = [
        tf.as_string(tf.gather(value, row)) if tf.is_tensor(value) else value for value in values
    ]
    return tf.debugging.Assert(tf.reduce_all(good), [check, *shown, tf.gather(files, row)])
