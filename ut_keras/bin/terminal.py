"""What a command prints to a terminal: it outlives the terminal, and cannot command it.

A command whose terminal is closed goes on, unseen. What servers, files and models write may hold
escape sequences, which would move the cursor, rename the window or worse: a terminal shows them as
`\\x1b`. A file or a pipe gets what there is.
"""

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator

# Control characters but those of lines; marks that let a text run backwards.
_COMMANDS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


@contextlib.contextmanager
def may_go() -> Iterator[None]:
    """Context in which nothing fails because the terminal that it is printed to is gone."""
    with (
        contextlib.redirect_stdout(_Output(sys.stdout)),
        contextlib.redirect_stderr(_Output(sys.stderr)),
    ):
        yield


class _Output:
    """A text stream; what a terminal that is gone does not take, goes nowhere."""

    def __init__(self, stream):
        self._stream = stream
        self._is_terminal = stream.isatty()

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
        if self._is_terminal:
            text = _COMMANDS.sub(_escaped, text)
        return self._attempt(self._stream.write, text)

    def flush(self):
        return self._attempt(self._stream.flush)

    def _attempt(self, function, *arguments):
        try:
            return function(*arguments)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        # What the stream still holds would fail again when Python ends.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())
        return function(*arguments)


def _escaped(match):
    return match[0].encode("unicode_escape").decode()
