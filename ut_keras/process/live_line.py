"""A line that says how far something is, again and again.

On a terminal it is written over; elsewhere a new one appears every few seconds.
"""

import dataclasses
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, Self, TextIO

_LIVE_SECONDS = 0.5


@dataclasses.dataclass(eq=False)
class LiveLine:
    """Where the line is written, and when the next one is due."""

    stream: TextIO | None = None  # standard output if None; whether it is a terminal decides
    log_seconds: float = 10.0  # between lines where it is none
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._stream = self.stream or sys.stdout
        self.is_live = self._stream.isatty()
        self._interval = _LIVE_SECONDS if self.is_live else self.log_seconds
        self._shown_at = self.clock()
        self._width = 0

    @property
    def is_due(self) -> bool:
        """Whether it is time to write something."""
        return self.clock() - self._shown_at >= self._interval

    def write(self, text: str) -> None:
        """Writes the line, over the last one on a terminal."""
        self._shown_at = self.clock()
        if self.is_live:
            width_limit = shutil.get_terminal_size().columns - 1  # of two lines one would stay
            if len(text) > width_limit:  # what matters most is at both ends
                start = width_limit // 2
                text = f"{text[:start]}…{text[len(text) - width_limit + start + 1 :]}"
            self._put("\r" + text.ljust(self._width))
            self._width = max(self._width, len(text))
        else:
            self._put(text + "\n")

    def end(self) -> None:
        """Leaves the line on a terminal as it is, so that other text can follow."""
        if self._width:
            self._put("\n")
        self._width = 0

    def clear(self) -> None:
        """Takes the line off a terminal."""
        if self._width:
            self._put("\r" + " " * self._width)
            self._put("\r")
        self._width = 0

    def _put(self, text):
        self._stream.write(text)
        self._stream.flush()


def clock_time(seconds: float) -> str:
    """Text of a number of seconds: 00:21, 3:14:05."""
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


_LOG_SECONDS = 30


@dataclasses.dataclass(eq=False)
class ProgressLine:
    """Counts, and says how far a long piece of work is.

        training-parallel-nc-v12.tgz: 84.2 MB of 168.4 MB (50 %), 5.1 MB/s, 00:16 left

    In a log a new line comes every half minute, so that short work leaves none.
    """

    title: str  # what the line begins with
    total: int | None = None  # how many units there will be, if that is known
    show: Callable[[int], str] = "{:,}".format  # a number of units as text
    clock: Callable[[], float] = time.monotonic
    stream: TextIO | None = None  # standard output if None

    def __post_init__(self) -> None:
        self._done = 0
        self._note = ""
        self._start = self.clock()
        self._line = LiveLine(self.stream, _LOG_SECONDS, self.clock)

    def add(self, count: int, note: str = "") -> None:
        """Counts `count` more units."""
        self.set(self._done + count, note)

    def set(self, done: int, note: str = "") -> None:
        """Says that `done` units are there, and what else the line is to say."""
        self._done, self._note = done, note
        if self._line.is_due:
            self._line.write(self.text(self.clock()))

    def show_message(self, text: str) -> None:
        """Shows a text where there is nothing to count, such as what is waited for."""
        self._line.write(f"{self.title}: {text}")

    def text(self, now: float) -> str:
        """The line at a time of the clock."""
        rate = self._done / max(now - self._start, 1e-9)
        parts = [f"{self.title}: {self.show(self._done)}"]
        if self.total:
            share = min(self._done / self.total, 1)
            parts[0] += f" of {self.show(self.total)} ({share:.0%})".replace("%", " %")
        parts.append(f"{self.show(int(rate))}/s")
        if self._note:
            parts.append(self._note)
        if self.total and rate > 0:
            parts.append(f"{clock_time(max(self.total - self._done, 0) / rate)} left")
        return ", ".join(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._line.clear()


def size(count: float) -> str:
    """Text of a number of bytes: 512 B, 1.5 kB, 84.2 MB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"
