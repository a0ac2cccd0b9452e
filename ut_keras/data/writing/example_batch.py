"""Serialize many `tf.train.Example`s at once with numpy.

`tfrecords.serialize` returns the same bytes but is slower, because it serializes one example at a
time. The format is nested. In the hexadecimal bytes below, indented lines are the content of the
line above them.

    serialize({"inputs": RaggedIds.from_lists([[300, 1]]), "targets": RaggedIds.from_lists([[7]])})

      0A 25                                 Features, 37 bytes
        0A 11                               first feature, 17 bytes
          0A 06 "inputs"                    name of the feature, 6 bytes
          12 07  1A 05  0A 03  AC 02 01     Feature (7 bytes) > Int64List (5) > values (3): 300, 1
        0A 10                               second feature, 16 bytes
          0A 07 "targets"
          12 05  1A 03  0A 01  07           Feature (5 bytes) > Int64List (3) > values (1): 7

Features are sorted by name, as in `SerializeToString(deterministic=True)`. Numbers are encoded as
varints. Each byte of a varint holds 7 bits of the number, the lowest bits first. Its eighth bit is
set if another byte of the same number follows.

The bytes before the values depend only on the name of the feature and on the size of the values in
bytes. Therefore these bytes are cached for each name and size.
"""

import functools
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ut_keras.data import tfrecords

if TYPE_CHECKING:
    from ut_keras.text.ragged_ids import RaggedIds

_PAYLOAD = 7  # bits of the number in each byte of a varint
_LOW_BITS = 0x7F


def serialize(columns: "Mapping[str, RaggedIds]") -> list[bytes]:
    """Return one serialized `tf.train.Example` for each row of the columns.

    Args:
        columns: dict from feature name to `RaggedIds`. All `RaggedIds` must have the same number of
            rows, and at least one row.

    Raises:
        DataError: if a row has no ids.
    """
    _check_not_empty(columns)
    features = [_features(name, columns[name]) for name in sorted(columns)]
    rows = map(b"".join, zip(*features, strict=True))
    return [_beginning(0x0A, len(row)) + row for row in rows]


def _check_not_empty(columns):
    empty = [np.flatnonzero(np.diff(ids.row_splits) == 0) for ids in columns.values()]
    for row in np.sort(np.concatenate(empty))[:1]:
        # The row has an empty feature, so this call raises a `DataError`.
        tfrecords.serialize({name: ids.row(row).tolist() for name, ids in columns.items()})


def _features(name, ids):
    """Return the bytes of one feature for every row."""
    data, ends = _varints(ids.values)
    offsets = ends.take(ids.row_splits).tolist()
    beginning = functools.partial(_feature_beginning, name)
    return [beginning(end - start) + data[start:end] for start, end in itertools.pairwise(offsets)]


@functools.lru_cache(maxsize=2**16)
def _feature_beginning(name, size):
    """Return the bytes of a feature before its values. The values take `size` bytes."""
    value = _beginning(0x0A, size)
    value = _beginning(0x1A, len(value) + size) + value
    value = _beginning(0x12, len(value) + size) + value
    name = name.encode()
    value = _beginning(0x0A, len(name)) + name + value
    return _beginning(0x0A, len(value) + size) + value


@functools.lru_cache(maxsize=2**16)
def _beginning(tag, size):
    """Return the first bytes of a field: its tag and its size."""
    return bytes([tag]) + _varints(np.array([size]))[0]


def _varints(numbers):
    """Encode n numbers as varints.

    Returns:
        (data, offsets): the concatenated varints as bytes, and int64 [n + 1]. Varint i is
        data[offsets[i] : offsets[i + 1]].
    """
    # A negative number is encoded as an unsigned 64-bit number.
    is_small = numbers.dtype == np.int32 and numbers.min(initial=0) >= 0
    numbers = numbers.view(np.uint32) if is_small else numbers.astype(np.int64).view(np.uint64)
    sizes = np.ones(len(numbers), np.int8)
    for bits in range(_PAYLOAD, int(numbers.max(initial=0)).bit_length(), _PAYLOAD):
        sizes += numbers >= numbers.dtype.type(1 << bits)
    ends = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    data = np.empty(ends[-1], np.uint8)
    offsets = ends[:-1]
    while len(numbers):
        more = numbers > _LOW_BITS
        low = numbers.astype(np.uint8) & _LOW_BITS
        data[offsets] = low | more.view(np.uint8) << _PAYLOAD
        longer = np.flatnonzero(more)
        offsets = offsets.take(longer) + 1
        numbers = numbers.take(longer) >> numbers.dtype.type(_PAYLOAD)
    return data.tobytes(), ends
