"""Serialize many `tf.train.Example`s at once with numpy.

The bytes are the same as those of `tfrecords.serialize`, which is slower.

    serialize({"inputs": RaggedIds.from_lists([[300, 1]]), "targets": RaggedIds.from_lists([[7]])})

      0A 22                                 Features, 34 bytes
        0A 11                               one of them, 17 bytes
          0A 06 "inputs"                    its name
          12 07  1A 05  0A 03  AC 02 01     Feature > Int64List > its values, 3 bytes: 300, 1
        0A 0D
          0A 07 "targets"
          12 …                              1 byte of values: 7

The names are sorted, as in `SerializeToString(deterministic=True)`. A number is a varint: each byte
has 7 bits of it, the lowest first, and an eighth bit that is set if more bytes follow. The bytes
before the values depend only on the size of the values, so they are cached for each size.
"""

import functools
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ut_keras.data import tfrecords

if TYPE_CHECKING:
    from ut_keras.text.ragged_ids import RaggedIds

_PAYLOAD = 7  # bits
_LOW_BITS = 0x7F


def serialize(columns: "Mapping[str, RaggedIds]") -> list[bytes]:
    """Return the serialized records of all rows.

    Args:
        columns: dict from feature name to `RaggedIds`. All have the same number of rows, at least
            one.

    Raises:
        DataError: if a row is empty.
    """
    _check(columns)
    features = [_features(name, columns[name]) for name in sorted(columns)]
    rows = map(b"".join, zip(*features, strict=True))
    return [_beginning(0x0A, len(row)) + row for row in rows]


def _check(columns):
    empty = [np.flatnonzero(np.diff(ids.row_splits) == 0) for ids in columns.values()]
    for row in np.sort(np.concatenate(empty))[:1]:
        # This raises the error for the row.
        tfrecords.serialize({name: ids.row(row).tolist() for name, ids in columns.items()})


def _features(name, ids):
    """Return the bytes of one feature for every row."""
    data, ends = _varints(ids.values)
    places = ends.take(ids.row_splits).tolist()
    beginning = functools.partial(_feature_beginning, name)
    return [beginning(end - start) + data[start:end] for start, end in itertools.pairwise(places)]


@functools.lru_cache(maxsize=2**16)
def _feature_beginning(name, size):
    """Return the bytes before the values of a feature, which take `size` bytes."""
    value = _beginning(0x0A, size)
    value = _beginning(0x1A, len(value) + size) + value
    value = _beginning(0x12, len(value) + size) + value
    name = name.encode()
    value = _beginning(0x0A, len(name)) + name + value
    return _beginning(0x0A, len(value) + size) + value


@functools.lru_cache(maxsize=2**16)
def _beginning(tag, size):
    """Return the tag of a field, followed by its size."""
    return bytes([tag]) + _varints(np.array([size]))[0]


def _varints(numbers):
    """Return (bytes of all varints, int64 [n + 1]: each start and the last end)."""
    # Negative numbers are encoded as 64 bits.
    is_small = numbers.dtype == np.int32 and numbers.min(initial=0) >= 0
    numbers = numbers.view(np.uint32) if is_small else numbers.astype(np.int64).view(np.uint64)
    sizes = np.ones(len(numbers), np.int8)
    for bits in range(_PAYLOAD, int(numbers.max(initial=0)).bit_length(), _PAYLOAD):
        sizes += numbers >= numbers.dtype.type(1 << bits)
    ends = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    data = np.empty(ends[-1], np.uint8)
    places = ends[:-1]
    while len(numbers):
        more = numbers > _LOW_BITS
        low = numbers.astype(np.uint8) & _LOW_BITS
        data[places] = low | more.view(np.uint8) << _PAYLOAD
        longer = np.flatnonzero(more)
        places = places.take(longer) + 1
        numbers = numbers.take(longer) >> numbers.dtype.type(_PAYLOAD)
    return data.tobytes(), ends
