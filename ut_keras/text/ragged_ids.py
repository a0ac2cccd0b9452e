"""Store the ids of many texts in two arrays, which are faster than lists of ints.

RaggedIds([5, 6, 7], [0, 2, 2, 3])  is  [[5, 6], [], [7]]
"""

import itertools
import operator
import typing
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np

from ut_keras.errors import DataError


class RaggedIds(typing.NamedTuple):
    """Rows of ids with different lengths, in the layout of `tf.RaggedTensor`."""

    values: np.ndarray  # int32 [ids], the concatenated rows
    row_splits: np.ndarray  # int64 [rows + 1], the start of each row and the end of the last one

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> Self:
        """Make `RaggedIds` from a list of lists of non-negative ints.

        Raises:
            DataError: if a row is not a list of ints from 0 to 2^31 - 1.
        """
        row_splits = np.zeros(len(rows) + 1, np.int64)
        try:
            np.cumsum([len(row) for row in rows], out=row_splits[1:])
            return cls(_array(itertools.chain.from_iterable(rows)), row_splits)
        except (TypeError, OverflowError):
            wrong = next(filter(_is_invalid, rows))
            raise DataError(
                "The ids of a text must be a list of ints from 0 to 2^31 - 1. "
                f"Received: {repr(wrong)[:100]}."
            ) from None

    @classmethod
    def concatenate(cls, parts: Iterable["RaggedIds"]) -> Self:
        """Concatenate the rows of several `RaggedIds`."""
        start = 0
        splits = [np.zeros(1, np.int64)]
        for part in parts:
            splits.append(part.row_splits[1:] + start)
            start += len(part.values)
        values = [np.zeros(0, np.int32), *(part.values for part in parts)]
        return cls(np.concatenate(values), np.concatenate(splits))

    def row(self, i: int) -> np.ndarray:
        """Return the ids of row i, int32, as a view of `values`."""
        return self.values[self.row_splits[i] : self.row_splits[i + 1]]

    def append(self, value: int) -> "RaggedIds":
        """Return `RaggedIds` with one more id, such as EOS, at the end of each row."""
        values = np.insert(self.values, self.row_splits[1:], value)
        return RaggedIds(values, self.row_splits + np.arange(len(self.row_splits)))

    def to_lists(self) -> list[list[int]]:
        """Return a list of lists of ints."""
        values, splits = self.values.tolist(), self.row_splits.tolist()
        return [values[start:end] for start, end in itertools.pairwise(splits)]


def _array(values):
    ids = np.fromiter(map(operator.index, values), np.int32)
    if ids.min(initial=0) < 0:
        raise OverflowError
    return ids


def _is_invalid(row):
    try:
        _array(row)
    except (TypeError, OverflowError):
        return True
    return False
