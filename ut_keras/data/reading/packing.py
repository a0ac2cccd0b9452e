"""Packs several short examples into one row, so that a batch has little padding.

    pack([{"inputs": [8, 7, 1], "targets": [4, 1]}, {"inputs": [2, 3, 4, 1], "targets": [5, 6, 1]}])

    inputs               [8, 7, 1, 2, 3, 4, 1]        targets               [4, 1, 5, 6, 1]
    inputs_segmentation  [1, 1, 1, 2, 2, 2, 2]        targets_segmentation  [1, 1, 2, 2, 2]
    inputs_position      [0, 1, 2, 0, 1, 2, 3]        targets_position      [0, 1, 0, 1, 2]

The segmentation numbers the examples of a row from 1. Attention uses these numbers to separate the
examples. The rows and the ids are the same as those of T2T's `generator_utils.pack_examples`
without spacing. T2T 1.7 and later versions write rows without spacing. T2T 1.3 to 1.6 writes two
zeros between the examples of a row. Such rows can be read: the zeros are padding of segment 0.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


def pack(
    examples: Iterable[dict[str, list[int]]], packed_length: int, open_rows: int = 10
) -> Iterator[dict[str, list[int]]]:
    """Pack examples, each into the first open row with enough space for it.

    Args:
        examples: iterable of dicts of id lists, with "targets" and optionally "inputs".
        packed_length: int. The maximum number of ids in a row. If an example has no inputs, longer
            targets are cut into several rows. An example with inputs is never cut. If it is too
            long, it has a row of its own.
        open_rows: int. The maximum number of open rows. If no open row has enough space for an
            example, the oldest row is completed.

    Yields:
        dicts of id lists. As in T2T, a row without inputs has "inputs" [0], which no model reads.
    """
    rows: list[_OpenRow] = []
    for example in examples:
        pieces, example = _cut(example, packed_length)
        for piece in pieces:
            yield _features([piece])
        if example is None:
            continue
        row = next((row for row in rows if row.has_space_for(example)), None)
        if row is None:
            if len(rows) == open_rows:
                yield _features(rows.pop(0).members)
            row = _OpenRow(dict.fromkeys(example, packed_length))
            rows.append(row)
        row.add(example)
    for row in rows:
        yield _features(row.members)


@dataclasses.dataclass
class _OpenRow:
    """A row to which examples can be added."""

    space: dict[str, int]  # the number of ids that can be added to each feature
    members: list[dict[str, list[int]]] = dataclasses.field(default_factory=list)

    def has_space_for(self, example):
        return all(len(ids) <= self.space[name] for name, ids in example.items())

    def add(self, example):
        self.members.append(example)
        for name, ids in example.items():
            self.space[name] -= len(ids)


def unpack(features: "dict[str, tf.Tensor]") -> "tf.data.Dataset":
    """Return the original examples of one packed row.

    Args:
        features: dict of int tensors [length]: "targets" and its segmentation, and optionally
            "inputs" and its segmentation.

    Returns:
        A `tf.data.Dataset` of dicts of "targets" and "inputs", int tensors [length].
    """
    import tensorflow as tf

    names = [name for name in ("inputs", "targets") if f"{name}_segmentation" in features]
    count = tf.reduce_max(features["targets_segmentation"])

    def example(number):
        number = tf.cast(number, count.dtype)
        return {
            name: tf.boolean_mask(features[name], features[f"{name}_segmentation"] == number)
            for name in names
        }

    return tf.data.Dataset.range(1, tf.cast(count, tf.int64) + 1).map(example)


def unpacked(dataset: "tf.data.Dataset", batch_size: int) -> "tf.data.Dataset":
    """Return a dataset of (features, targets) with one example per row.

    A dataset that is not packed is returned unchanged. Otherwise the result has batches of
    `batch_size` examples.
    """
    if "targets_segmentation" not in dataset.element_spec[0]:
        return dataset
    rows = dataset.unbatch().flat_map(lambda features, *_: unpack(features))
    return rows.map(lambda features: (features, features["targets"])).padded_batch(batch_size)


def _features(members):
    """Return a packed row: the concatenated examples with segmentation and positions."""
    found = {"inputs": [0]}
    for name in members[0]:
        found[name] = [i for example in members for i in example[name]]
        numbered = enumerate(members, start=1)
        found[f"{name}_segmentation"] = [n for n, example in numbered for _ in example[name]]
        found[f"{name}_position"] = [i for example in members for i in range(len(example[name]))]
    return found


def _cut(example, packed_length):
    """Return (pieces that each fill a row, the rest or None).

    An example with inputs is not cut.
    """
    if "inputs" in example:
        return (), {name: example[name] for name in ("inputs", "targets")}
    ids = example["targets"]
    if len(ids) <= packed_length:
        return (), {"targets": ids}
    full = len(ids) // packed_length * packed_length
    pieces = [
        {"targets": ids[start : start + packed_length]} for start in range(0, full, packed_length)
    ]
    return pieces, {"targets": ids[full:]} if ids[full:] else None
