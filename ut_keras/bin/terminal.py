"""Output that outlives its terminal: a command whose terminal is closed goes on, unseen."""

import contextlib
import errno
import os
import sys


@contextlib.contextmanager
def may_go():
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

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
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
