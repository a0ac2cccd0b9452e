"""Handles signals, which end a command immediately or request that a loop stops.

    with RaiseOnSignal():                 encloses a command: `command.run`
        with StopRequest() as stop:       encloses a loop that has state to save
            while not stop.requested: ...

Ctrl-C, SIGTERM and SIGHUP have the same effect. SIGHUP is sent when a terminal is closed. This
module imports only the standard library.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

_NAMES: dict[int, str] = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "SIGHUP",
}


class Interrupted(Exception):
    """The state was saved and training stopped, because of a signal.

    Attributes:
        exit_code: int. The exit code by shell convention: 128 + the signal number.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StoppedBySignal(KeyboardInterrupt):
    """A signal ended the work immediately, without saving it.

    Attributes:
        exit_code: int. 128 + the signal number.
    """

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"{_NAMES[number]}: stopped.")
        self.exit_code = 128 + number


_STOPPING = "stopping…"
_STOPPING_LATER = "stopping after the current step. A second Ctrl-C stops at once."
# The time between a signal and its acknowledgement. Most commands end within this time.
_GRACE_SECONDS = 0.3


@contextlib.contextmanager
def acknowledged(stderr: int = 2) -> Iterator[None]:
    """Context that acknowledges a signal soon, even during a long call of C++ code.

    Python calls its signal handlers only after the main thread has returned from C++ code, which
    may take seconds. So a separate thread prints a line, unless the context ends within
    `_GRACE_SECONDS` after the signal.

    Args:
        stderr: int. File descriptor for the line.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    previous = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    ended = threading.Event()

    def print_signals():
        seen = set()
        while number := os.read(receiver, 1):
            name = _NAMES.get(number[0])
            if name and name not in seen and not ended.wait(_GRACE_SECONDS):
                seen.add(name)
                with contextlib.suppress(OSError):
                    start = "\n" if os.isatty(stderr) else ""  # the terminal has already printed ^C
                    line = _STOPPING_LATER if _handler_waits(number[0]) else _STOPPING
                    os.write(stderr, f"{start}{name}: {line}\n".encode())

    thread = threading.Thread(target=print_signals, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(previous)
        os.close(sender)
        thread.join()
        os.close(receiver)


def _handler_waits(number):
    """Return whether the handler of a signal lets the current step end."""
    handler = signal.getsignal(number)
    return isinstance(handler, StopRequest) and handler.waits


class _Handlers:
    """Context that sets the handler of each signal.

    Under nohup, SIGHUP remains ignored.

    Args:
        handler: function (number, frame) that Python calls for a signal, or `signal.SIG_DFL`.
    """

    def __init__(self, handler):
        self._handler = handler
        self._previous = {}

    def __enter__(self):
        # Python runs signal handlers only in the main thread.
        if threading.current_thread() is threading.main_thread():
            for number in _NAMES:
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handler)
        return self

    def __exit__(self, *exception):
        for number, handler in self._previous.items():
            signal.signal(number, handler)


class RaiseOnSignal(_Handlers):
    """Context in which a signal raises `StoppedBySignal`, so that cleanup code runs.

    At a second signal, the process exits immediately, because code such as a bare `except:` may
    have caught and dropped the first exception.

    Args:
        stderr: int. File descriptor for the message that is printed if the process exits
            immediately.
        raises: bool. If False, the process already exits immediately at the first signal. Use False
            if C++ calls Python, for example during the import of TensorFlow. An exception in such a
            call may abort the process.
        is_last: bool. If True, the process has no more work to do, and a signal after the context
            kills the process. Without this option, Python would print a stack trace for a signal
            after the context and continue to wait for its threads.
    """

    def __init__(self, stderr: int = 2, raises: bool = True, is_last: bool = False) -> None:
        super().__init__(self)
        self._stderr = stderr
        self._raises = raises
        self._is_last = is_last
        self._signal: signal.Signals | None = None

    def __exit__(self, kind: type[BaseException] | None, *exception: Any) -> None:
        if self._is_last:
            self._previous = dict.fromkeys(self._previous, signal.SIG_DFL)
        super().__exit__(kind, *exception)
        if self._signal and not issubclass(kind or Exception, (StoppedBySignal, Interrupted)):
            # Other code has replaced the exception or dropped it.
            raise StoppedBySignal(self._signal)

    def __call__(self, number: int, frame: Any) -> None:
        """Handle a signal. Python calls this method."""
        stopped = StoppedBySignal(signal.Signals(number))
        if not self._raises or self._signal is not None:
            self._exit(str(stopped), stopped.exit_code)
        self._signal = signal.Signals(number)
        raise stopped

    def _exit(self, line, exit_code):
        with contextlib.suppress(Exception):  # for example, the stream may be in use
            sys.stdout.flush()
        with contextlib.suppress(OSError):
            os.write(self._stderr, f"{line}\n".encode())
        os._exit(exit_code)


class DefaultSignalActions(_Handlers):
    """Context in which a signal kills the process, even inside blocking C++ code.

    Signal handlers that C++ code installs inside the context are removed at its end. With several
    workers, TensorFlow installs a handler for SIGTERM that ignores the signal.
    """

    def __init__(self) -> None:
        super().__init__(signal.SIG_DFL)


class StopRequest(_Handlers):
    """Context that records the first signal, so that a loop can save its state.

    A second signal is passed to the outer handler.

        with StopRequest() as stop:
            while not stop.requested: ...

    Args:
        waits: bool. If False, the first signal is also passed to the outer handler, until the
            attribute `waits` is set to True. Use False as long as there is nothing to save.
    """

    def __init__(self, waits: bool = True) -> None:
        super().__init__(self)
        self.waits = waits
        self._signal: Any = None

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived."""
        return self._signal is not None

    def stopped(self, text: str) -> Interrupted:
        """Return the `Interrupted` error to raise. `text` describes the saved state."""
        return Interrupted(f"{_NAMES[self._signal]}: {text}", exit_code=128 + self._signal)

    def __call__(self, number: int, frame: Any) -> None:
        """Handle a signal. Python calls this method."""
        if self.requested or not self.waits:
            previous = self._previous[number]
            if callable(previous):
                previous(number, frame)
            raise StoppedBySignal(signal.Signals(number))
        self._signal = signal.Signals(number)
