"""Decodes many rows, batch by batch, and gives the results in the rows' order.

    batches = plan([len(row) for row in rows], tokens=8192, most_rows=128)
    results = decode_rows(batches, decode_batch, journal, progress)     one for each row

What a row or a result is, only `decode_batch` knows.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from ut_keras.inference.journal import Journal
from ut_keras.process.live_line import LiveLine, clock_time


def plan(
    lengths: Sequence[int], tokens: int, most_rows: int, same_length: bool = False
) -> list[list[int]]:
    """Groups rows into batches, those of like length together, the longest first.

        plan([3, 9, 2, 8], tokens=20, most_rows=64)  ->  [[1, 3], [0, 2]]

    So no work is wasted on padding, and if memory is too small, the first batch tells.

    Args:
        lengths: list of int, of the rows.
        tokens: int. A batch, padded to its longest row, has at most so many positions, unless it
            is a single row. 0 for any number.
        most_rows: int. Rows of a batch.
        same_length: bool. Only rows of equal length go together, so that none is padded.
    Returns:
        list of lists of indices into `lengths`: every row once.
    """
    batches: list[list[int]] = []
    # Rows of one length stay in their order: the same rows give the same batches.
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        batch = batches[-1] if batches else []
        longest = lengths[batch[0]] if batch else 0
        fits = batch and len(batch) < most_rows
        fits = fits and (not tokens or (len(batch) + 1) * longest <= tokens)
        if fits and (not same_length or lengths[row] == longest):
            batch.append(row)
        else:
            batches.append([row])
    return batches


def decode_rows(
    batches: Sequence[Sequence[int]],
    decode_batch: Callable[[int, Sequence[int]], Sequence[Any]],
    journal: Journal | None = None,
    progress: "RowProgress | None" = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[int, Any] | None:
    """Decodes the batches that are not finished.

    Args:
        batches: list of lists of row numbers.
        decode_batch: function (number of the batch, row numbers) -> list of results, one per row.
        journal: `Journal` to note results in and to go on from. Optional.
        progress: `RowProgress`. Optional.
        should_stop: function that says, after each batch, whether to give up.
    Returns:
        dict from row number to result; None if given up.
    """
    results: dict[int, Any] = {}
    finished = journal.finished if journal else {}
    for number, rows in enumerate(batches):
        is_new = number not in finished
        batch_results = decode_batch(number, rows) if is_new else finished[number]
        results.update(zip(rows, batch_results, strict=True))
        if is_new and journal:
            journal.add(number, batch_results)
        if progress:
            progress.add(rows, is_new)
        if is_new and should_stop() and len(results) < sum(map(len, batches)):
            return None
    return results


class RowProgress:
    """The progress line: `decoded 1,200/3,003 lines  85.2 lines/s  00:21 left`.

    On a terminal the line is written over; elsewhere a new one appears every few seconds.

    Args:
        lengths: list of int, of the rows: long ones take longer.
        what: str, what a row is called, in the plural.
        stream: text stream.
        log_seconds: float. Time between lines where the stream is no terminal.
        clock: function to the time in seconds.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        what: str = "lines",
        stream: TextIO | None = None,
        log_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lengths = lengths
        self._what = what
        self._clock = clock
        self._started = clock()
        self._live = LiveLine(stream, log_seconds, clock)
        self._is_shown = True
        self.rows = 0  # those that are done
        self._new_rows = self._new_length = 0
        self._length_left = sum(lengths)

    def add(self, rows: Sequence[Any], is_new: bool = True) -> None:
        """Counts rows that are done; those of an earlier run say nothing about the speed."""
        length = sum(self._lengths[row] for row in rows)
        self.rows += len(rows)
        self._length_left -= length
        if is_new:
            self._new_rows += len(rows)
            self._new_length += length
        self._is_shown = False
        if is_new and self._live.is_due:
            self.show()

    def show(self) -> None:
        """Writes the line, over the last one on a terminal."""
        self._is_shown = True
        self._live.write(self._line())

    def end(self) -> None:
        """Writes the last line, if it is not there yet."""
        if not self._is_shown:
            self.show()
        self._live.end()

    def _line(self):
        seconds = max(self._clock() - self._started, 1e-9)
        parts = [f"decoded {self.rows:,}/{len(self._lengths):,} {self._what}"]
        if self._new_length:
            parts.append(f"{self._new_rows / seconds:,.1f} {self._what}/s")
            parts.append(f"{clock_time(self._length_left * seconds / self._new_length)} left")
        return "  ".join(parts)
