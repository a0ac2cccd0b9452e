"""Tries the largest batch before the first step, so that what does not fit in memory fails at once.

On the CPU, where a process that uses too much is killed without a word, an eighth and a quarter of
the batch are tried first: what the update holds grows in proportion to the rows.

    largest = LargestBatch(update, batch_of, meter)
    largest.run()                    raises `TooLarge`, or says what was used
    largest.share_that_fits()        how many times as large it could be
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.errors import UserError

_SHARES = (1 / 8, 1 / 4)
_FILLED = 0.85  # of the memory, by --batch_size=auto: other batches fragment it in other ways


class TooLarge(UserError):
    """The largest batch does not fit in memory."""


class Usage(NamedTuple):
    """What a batch needs.

    Fields:
        shape: (rows over all replicas, ids of the longest).
        peak: bytes of memory, with all else that the process holds; None where unknown.
        limit: bytes that there are, or None.
    """

    shape: tuple
    peak: int | None
    limit: int | None

    def __str__(self) -> str:
        text = f"Largest batch: {self.shape[0]} x {self.shape[1]}"
        if self.peak is not None:
            text += f", {_gigabytes(self.peak)}"
        return text + (f" of {_gigabytes(self.limit)} of memory" if self.limit else "")


class LargestBatch:
    """The largest batch of a run, and the memory that it takes.

    Args:
        update: function from a batch, which it changes the weights by.
        batch_of: function from a share in (0, 1] of the rows to (batch, shape as in `Usage`).
        meter: from `device_memory.of`, or None.
        any_shape: bool. Whether other shapes can be tried without compiling anew.
        agree: function from a bool to whether it is true for any worker.
    """

    def __init__(
        self,
        update: Callable[[Any], Any],
        batch_of: Callable[[float], Any],
        meter: Any,
        any_shape: bool = True,
        agree: Callable[[bool], bool] = bool,
    ) -> None:
        self._update = update
        self._batch_of = batch_of
        self._meter = meter
        self._any_shape = any_shape
        self._agree = agree

    def run(self) -> Usage:
        """Updates by the batch, if it is expected to fit.

        Returns:
            `Usage`.

        Raises:
            TooLarge: if it does not fit.
        """
        batch, shape = self._batch_of(1)
        limit = self._meter and self._meter.limit()
        if self._meter and not self._meter.may_be_tried and self._any_shape:
            predicted = self._predicted(shape[0])
            if self._agree(predicted is not None and predicted > limit):
                raise _too_large(
                    shape,
                    f"about {_gigabytes(predicted or 0)} would be needed, "
                    f"and there are {_gigabytes(limit)}",
                )
        return Usage(shape, self._peak(batch, shape), limit)

    def share_that_fits(self) -> float | None:
        """How many times as many rows would fill the memory but for a reserve.

        Returns:
            float; None where the memory is not known, or the batch has too few rows to tell.

        Raises:
            TooLarge: if not even a quarter of it fits.
        """
        if self._meter is None or not self._any_shape:
            return None
        line = self._line()
        limit = self._meter.limit()
        if line is None or limit is None:
            return None
        base, per_row = line
        return max(0.0, _FILLED * limit - base) / per_row / self._batch_of(1)[1][0]

    def _predicted(self, rows):
        """Bytes that so many rows will need, or None."""
        line = self._line()
        return line and line[0] + line[1] * rows

    def _line(self):
        """(bytes, bytes per row) from two parts of the batch, or None if they do not differ."""
        (small, few), (large, more) = (self._batch_of(share) for share in _SHARES)
        if few[0] == more[0]:
            return None
        self._peak(small, few)  # what the first update needs besides is no matter of rows
        first, second = self._peak(small, few), self._peak(large, more)
        per_row = max(1.0, (second - first) / (more[0] - few[0]))
        return second - per_row * more[0], per_row

    def _peak(self, batch, shape):
        if self._meter:
            self._meter.reset_peak()
        try:
            # Read, so that it has ended.
            float(self._update(batch).loss)
        except tf.errors.ResourceExhaustedError as error:
            reason = str(error.message or error).strip().splitlines()[0]
            raise _too_large(shape, reason) from error
        return self._meter and self._meter.peak()


def _too_large(shape, reason):
    return TooLarge(
        f"The largest batch must fit in memory. Received: {shape[0]} rows of up to {shape[1]} ids: "
        f"{reason}. Take a smaller batch_size or max_length."
    )


def _gigabytes(count):
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"
