"""Many `tf.train.Example`s at once, by numpy: the bytes of `tfrecords.serialize`, sooner.

    serialize({"inputs": RaggedIds.from_lists([[300, 1]]), "targets": RaggedIds.from_lists([[7]])})

      0A 22                                 Features, 34 bytes
        0A 11                               one of them, 17 bytes
          0A 06 "inputs"                    its name
          12 07  1A 05  0A 03  AC 02 01     Feature > Int64List > its values, 3 bytes: 300, 1
        0A 0D
          0A 07 "targets"
          12 …                              1 byte of values: 7

Names come in their order, as in `SerializeToString(deterministic=True)`. A number is a varint: 7
bits a byte, the lowest first, and an eighth that says that more follow.
"""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ut_keras.data import tfrecords

if TYPE_CHECKING:
    from ut_keras.text.ragged_ids import RaggedIds

_PAYLOAD = 7
_LOW_BITS = 0x7F
_FIRST_FIELD, _VALUE_FIELD, _INT64_LIST_FIELD = b"\x0a", b"\x12", b"\x1a"
_LONGEST_VARINT = 10


def serialize(columns: "Mapping[str, RaggedIds]") -> list[bytes]:
    """Returns the records of rows.

    Args:
        columns: dict from feature name to `RaggedIds`, of equally many rows, at least one.

    Returns:
        list of bytes, one for each row.

    Raises:
        DataError: if a row is empty.
    """
    _check(columns)
    features = [_Feature(name, columns[name]) for name in sorted(columns)]
    sizes = sum(_field_sizes(feature.sizes) for feature in features)
    record_sizes = _field_sizes(sizes)
    ends = np.cumsum(record_sizes)
    rows = _Rows(ends - record_sizes, ends[-1])
    rows.write(_FIRST_FIELD)
    rows.write_varints(sizes)
    for feature in features:
        feature.write(rows)
    data = rows.data.tobytes()
    return [data[start:end] for start, end in itertools.pairwise([0, *ends.tolist()])]


def _check(columns):
    empty = [np.flatnonzero(np.diff(ids.row_splits) == 0) for ids in columns.values()]
    for row in np.sort(np.concatenate(empty))[:1]:
        # Which says what is wrong with it.
        tfrecords.serialize({name: ids.row(row).tolist() for name, ids in columns.items()})


class _Feature:
    """One feature of all rows: the sizes of its messages, from the outermost, and its bytes."""

    def __init__(self, name, ids):
        self._name = _FIRST_FIELD + _varint(len(name.encode())) + name.encode()
        self._values = _unsigned(ids.values)
        self._value_ends = np.zeros(len(self._values) + 1, np.int64)
        np.cumsum(_varint_sizes(self._values), out=self._value_ends[1:])
        self._row_splits = ids.row_splits
        self._packed = np.diff(self._value_ends.take(ids.row_splits))
        self._list = _field_sizes(self._packed)
        self._feature = _field_sizes(self._list)
        self.sizes = len(self._name) + _field_sizes(self._feature)

    def write(self, rows):
        rows.write(_FIRST_FIELD)
        rows.write_varints(self.sizes)
        rows.write(self._name + _VALUE_FIELD)
        rows.write_varints(self._feature)
        rows.write(_INT64_LIST_FIELD)
        rows.write_varints(self._list)
        rows.write(_FIRST_FIELD)
        rows.write_varints(self._packed)
        starts = self._value_ends[:-1]
        shifts = rows.places - starts.take(self._row_splits[:-1])
        places = starts + shifts.repeat(np.diff(self._row_splits))
        _put_varints(rows.data, places, self._values)
        rows.places += self._packed


class _Rows:
    """The bytes of all records, each written up to its place."""

    def __init__(self, places, size):
        self.data = np.empty(size, np.uint8)
        self.places = places

    def write(self, constant):
        """Writes the same bytes into every record."""
        for byte in constant:
            self.data[self.places] = byte
            self.places += 1

    def write_varints(self, numbers):
        """Writes a number into every record; int64 [rows]."""
        _put_varints(self.data, self.places, numbers)
        self.places += _varint_sizes(numbers)


def _varint(number):
    """One number as bytes."""
    data = bytearray()
    while number > _LOW_BITS:
        data.append(number & _LOW_BITS | _LOW_BITS + 1)
        number >>= _PAYLOAD
    return bytes([*data, number])


def _field_sizes(sizes):
    """The bytes of fields that hold so many: tag, size, content; int64."""
    return 1 + _varint_sizes(sizes) + sizes


def _unsigned(numbers):
    """Numbers as those are that varints are made of; negative ones take 64 bits."""
    if numbers.dtype == np.int32 and numbers.min(initial=0) >= 0:
        return numbers.view(np.uint32)
    return numbers.astype(np.int64).view(np.uint64)


def _varint_sizes(numbers):
    """How many bytes each of some ints takes; int8."""
    sizes = np.ones(len(numbers), np.int8)
    largest = int(numbers.max(initial=0))
    for bits in range(_PAYLOAD, _PAYLOAD * _LONGEST_VARINT, _PAYLOAD):
        if largest >> bits == 0:
            break
        sizes += numbers >= numbers.dtype.type(1 << bits)
    return sizes


def _put_varints(data, places, numbers):
    """Writes numbers, each from its place on."""
    while len(numbers):
        more = numbers > _LOW_BITS
        low = numbers.astype(np.uint8)
        low &= _LOW_BITS
        low |= more.view(np.uint8) << _PAYLOAD
        data[places] = low
        longer = np.flatnonzero(more)
        places = places.take(longer) + 1
        numbers = numbers.take(longer) >> numbers.dtype.type(_PAYLOAD)
