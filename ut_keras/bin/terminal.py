"""What a command prints: it outlives the terminal, and cannot command one.

A command whose terminal or pipe is closed goes on, unseen. What servers, files and models write,
and names of files, may hold escape sequences, which would move the cursor, rename the window or
worse, or turn a text round. They are shown as `\\x1b`, in a pipe or a log as well, which a terminal
may show later; so is what the encoding of the stream lacks. Text as it is stands in the files that
commands write.
"""

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

# Control characters but those of lines, of which a live line begins with one; marks that let a text
# run backwards.
_COMMANDS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
    r"|(?!\A)\r(?!\n)"
)


@contextlib.contextmanager
def may_go() -> Iterator[None]:
    """Context in which nothing fails because the terminal that it is printed to is gone."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    stdin: Any = sys.stdin
    with contextlib.suppress(AttributeError, ValueError):  # another kind; read from already
        stdin.reconfigure(errors="surrogateescape")  # That it is no text, the command says.
    with (
        contextlib.redirect_stdout(_Output(sys.stdout)),
        contextlib.redirect_stderr(_Output(sys.stderr)),
    ):
        yield


class _Output:
    """A text stream; what a terminal that is gone does not take, goes nowhere."""

    def __init__(self, stream):
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
        encoding = self._stream.encoding or "utf-8"
        shown = _COMMANDS.sub(_escaped, text).encode(encoding, "backslashreplace")
        return self._attempt(self._stream.write, shown.decode(encoding))

    def flush(self):
        return self._attempt(self._stream.flush)

    def _attempt(self, function, *arguments):
        try:
            return function(*arguments)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EPIPE):
                raise
        # What the stream still holds would fail again when Python ends.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())
        return function(*arguments)


def _escaped(match):
    return match[0].encode("unicode_escape").decode()
