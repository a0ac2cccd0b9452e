"""A line that says how far something is, again and again.

On a terminal it is written over; elsewhere a new one appears every few seconds.
"""

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

_LIVE_SECONDS = 0.5


class LiveLine:
    """Where the line is written, and when the next one is due.

    Args:
        stream: text stream; whether it is a terminal decides. Standard output if None.
        log_seconds: float. Time between lines where it is none.
        clock: function to the time in seconds.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        log_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream or sys.stdout
        self.is_live = self._stream.isatty()
        self._every = _LIVE_SECONDS if self.is_live else log_seconds
        self._clock = clock
        self._shown_at = clock()
        self._width = 0

    @property
    def is_due(self) -> bool:
        """Whether it is time to write something."""
        return self._clock() - self._shown_at >= self._every

    def write(self, text: str) -> None:
        """Writes the line, over the last one on a terminal."""
        self._shown_at = self._clock()
        if self.is_live:
            room = shutil.get_terminal_size().columns - 1  # of two lines one would stay
            if len(text) > room:  # what matters most is at both ends
                start = room // 2
                text = f"{text[:start]}…{text[len(text) - room + start + 1 :]}"
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
