"""Signals: what ends a command at once, and what is a wish that a loop reads between two steps.

    with RaiseOnSignal():                    a whole command: `command.run`
        with StopRequest() as stop:       what has something to save
            while not stop.requested: ...

Ctrl-C, SIGTERM and SIGHUP, which comes when a terminal is closed, mean the same. Loads nothing.
"""

import contextlib
import os
import signal
import sys
import threading
from typing import Any

_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


class Interrupted(Exception):
    """Training stopped because it was told to; its state is saved.

    Attributes:
        exit_code: int. What a shell expects: 128 + the number of the signal.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StoppedBySignal(KeyboardInterrupt):
    """A signal came where nothing reads it later.

    Attributes:
        exit_code: int. 128 + the number of the signal.
    """

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"{_NAMES[number]}: stopped.")
        self.exit_code = 128 + number


class _Handlers:
    """Context that hands the signals to `_handle`; one that nohup ignores stays ignored."""

    _handle: Any  # what each kind does with one

    def __init__(self):
        self._previous = {}

    def __enter__(self):
        # Python delivers signals to the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in _NAMES:
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception):
        for number, handler in self._previous.items():
            signal.signal(number, handler)


class RaiseOnSignal(_Handlers):
    """Context in which a signal raises `StoppedBySignal`, so that what was begun is cleared away.

    At a second one the process exits where it is: the first may have been dropped, as by an
    `except:` of somebody's.

    Args:
        stderr: int. File descriptor that the line goes to, if there is nobody to raise to.
        raises: bool. If not, the process exits where it is: C++ that calls Python, as it does while
            TensorFlow is imported, may abort on what is raised.
        is_last: bool. Whether the process has nothing more to do: a signal while it ends, and
            waits for its threads, kills it, where Python would show a stack trace and wait on.
    """

    def __init__(self, stderr: int = 2, raises: bool = True, is_last: bool = False) -> None:
        super().__init__()
        self._stderr = stderr
        self._raises = raises
        self._is_last = is_last
        self._signal: signal.Signals | None = None

    def __exit__(self, kind: type[BaseException] | None, *exception: Any) -> None:
        if self._is_last:
            self._previous = dict.fromkeys(self._previous, signal.SIG_DFL)
        super().__exit__(kind, *exception)
        if self._signal and not issubclass(kind or Exception, (StoppedBySignal, Interrupted)):
            # Somebody has made another error of it.
            raise StoppedBySignal(self._signal)

    def _handle(self, number, frame):
        stopped = StoppedBySignal(signal.Signals(number))
        if not self._raises or self._signal is not None:
            self._exit(str(stopped), stopped.exit_code)
        self._signal = signal.Signals(number)
        raise stopped

    def _exit(self, line, exit_code):
        with contextlib.suppress(Exception):  # such as that of a stream that was just being flushed
            sys.stdout.flush()
        with contextlib.suppress(OSError):
            os.write(self._stderr, f"{line}\n".encode())
        os._exit(exit_code)


class DefaultSignalActions(_Handlers):
    """Context in which a signal kills the process, also within C++ that does not return.

    What C++ does with a signal meanwhile (TensorFlow takes SIGTERM where there are several workers,
    and drops it) ends with the context, too.
    """

    _handle: Any = signal.SIG_DFL


class StopRequest(_Handlers):
    """Context in which the first signal is noted and a second one acts as it would without.

    with StopRequest() as stop:
        while not stop.requested: ...

    Args:
        waits: bool. If not, the first one acts so too, until the attribute `waits` is set: as long
            as there is nothing to save.
    """

    def __init__(self, waits: bool = True) -> None:
        super().__init__()
        self.waits = waits
        self._signal: Any = None

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self._signal is not None

    def stopped(self, text: str) -> Interrupted:
        """The `Interrupted` to raise, with a text that says what is saved."""
        return Interrupted(f"{_NAMES[self._signal]}: {text}", exit_code=128 + self._signal)

    def _handle(self, number, frame):
        if self.requested or not self.waits:
            previous = self._previous[number]
            if callable(previous):
                previous(number, frame)
            raise StoppedBySignal(signal.Signals(number))
        self._signal = signal.Signals(number)
