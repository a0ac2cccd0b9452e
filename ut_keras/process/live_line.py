"""Shows a progress line that is updated repeatedly.

On a terminal, each update overwrites the line. In a log, in a notebook, and on a terminal that
cannot overwrite (TERM=dumb), an update writes a new line every few seconds.

This module does not use tqdm or rich. In a log, tqdm separates updates by carriage returns, and
rich writes only the last update. Both packages cut a line that is too long, while `fit` omits the
least important parts of the line.
"""

import dataclasses
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self, TextIO

_LIVE_SECONDS = 0.5


@dataclasses.dataclass(eq=False)
class LiveLine:
    """A progress line on a stream, which records when its next update is due.

    Args:
        stream: text stream. None means standard output. On a terminal, updates overwrite the line.
        log_seconds: float. Seconds between lines if the stream is not a terminal.
        clock: function that returns seconds.
    """

    stream: TextIO | None = None  # None means standard output
    log_seconds: float = 10.0  # used if the stream is not a terminal
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._stream = self.stream or sys.stdout
        self.is_live = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._interval = _LIVE_SECONDS if self.is_live else self.log_seconds
        self._shown_at = self.clock()
        self._width = 0

    @property
    def is_due(self) -> bool:
        """Whether it is time for an update."""
        return self.clock() - self._shown_at >= self._interval

    @property
    def width(self) -> int | None:
        """The maximum number of characters on a line. None: a log, which has no limit.

        A text that needs a second line of a terminal cannot be overwritten completely.
        """
        return shutil.get_terminal_size().columns - 1 if self.is_live else None

    def write(self, text: str) -> None:
        """Write the text. On a terminal, overwrite the previous text."""
        self._shown_at = self.clock()
        if self.is_live:
            width = self.width or 0
            if len(text) > width:  # the middle is the least important part
                start = width // 2
                text = f"{text[:start]}…{text[len(text) - width + start + 1 :]}"
            self._put("\r" + text.ljust(self._width))
            self._width = max(self._width, len(text))
        else:
            self._put(text + "\n")

    def end(self) -> None:
        """End the line on a terminal, so that other output can follow."""
        if self._width:
            self._put("\n")
        self._width = 0

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._width:
            self._put("\r" + " " * self._width)
            self._put("\r")
        self._width = 0

    def _put(self, text):
        self._stream.write(text)
        self._stream.flush()


def fit(parts: Sequence[tuple[int, str]], width: int | None) -> str:
    """Return the parts of a line that fit, separated by two spaces.

    Args:
        parts: list of (importance, text). Parts with the lowest importance are omitted first. Of
            several parts with the same importance, the last part is omitted first. At least one
            part is always shown.
        width: int. The maximum number of characters. None means no limit.
    """
    shown = dict(enumerate(parts))
    while width is not None and len(shown) > 1 and len(_joined(shown)) > width:
        del shown[min(shown, key=lambda index: (shown[index][0], -index))]
    return _joined(shown)


def _joined(parts):
    return "  ".join(text for _, text in parts.values())


@dataclasses.dataclass(eq=False)
class Stopwatch:
    """Context that shows a text and the seconds since the context began.

        Compiling the first step… 12 s

    A separate thread writes the line, because the work in the context may be a single long call. At
    the end, the line shows how long the work took.
    """

    text: str
    done: str  # the text to show after the work
    stream: TextIO | None = None  # None means standard output
    log_seconds: float = 30.0  # seconds between lines if the stream is not a terminal
    tick_seconds: float = 1.0  # seconds between updates on a terminal

    def __enter__(self) -> Self:
        self._line = LiveLine(self.stream, self.log_seconds)
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._line.write(self.text)
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: Any, *exception: Any) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None:
            self._line.write(f"{self.done} in {self._seconds()} s")
        self._line.end()

    def _seconds(self):
        return round(time.monotonic() - self._started)

    def _show(self):
        interval = self.tick_seconds if self._line.is_live else self.log_seconds
        while not self._ended.wait(interval):
            self._line.write(f"{self.text} {self._seconds()} s")


def clock_time(seconds: float) -> str:
    """Return a number of seconds as text: 00:21, 3:14:05."""
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


_LOG_SECONDS = 30


@dataclasses.dataclass(eq=False)
class ProgressLine:
    """Counts units of work and shows the progress.

        training-parallel-nc-v12.tgz: 84.2 MB of 168.4 MB (50 %), 5.1 MB/s, 00:16 left

    In a log, a line is written every 30 seconds, so shorter work writes no line.
    """

    title: str  # the beginning of the line
    total: int | None = None  # the total number of units, if known
    show: Callable[[int], str] = "{:,}".format  # function that formats a number of units
    clock: Callable[[], float] = time.monotonic
    stream: TextIO | None = None  # None means standard output

    def __post_init__(self) -> None:
        self._done = 0
        self._note = ""
        self._start = self.clock()
        self._line = LiveLine(self.stream, _LOG_SECONDS, self.clock)

    def add(self, count: int, note: str = "") -> None:
        """Count `count` more units."""
        self.set(self._done + count, note)

    def set(self, done: int, note: str = "") -> None:
        """Set the number of finished units, and a note that is shown after the rate."""
        self._done, self._note = done, note
        if self._line.is_due:
            self._line.write(self.text(self.clock()))

    def show_message(self, text: str) -> None:
        """Show a text in place of a count, such as the reason why the program waits."""
        self._line.write(f"{self.title}: {text}")

    def text(self, now: float) -> str:
        """Return the text of the line, where `now` is the present time of `clock`."""
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


def counted(count: int, noun: str) -> str:
    """Return a number and a noun with a regular plural: "1 file", "1,000 files"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: float) -> str:
    """Return a number of bytes as text: 512 B, 1.5 kB, 84.2 MB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"
