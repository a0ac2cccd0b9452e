"""Ctrl-C and SIGTERM as a wish that the train loop reads between two steps."""

import signal
import threading

_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Interrupted(Exception):
    """Training stopped because it was told to; its state is saved.

    Attributes:
        exit_code: int. What a shell expects: 128 + the number of the signal.
    """

    def __init__(self, message, exit_code):
        super().__init__(message)
        self.exit_code = exit_code


class StopRequest:
    """Context in which the first signal is noted and a second one acts at once.

    with StopRequest() as stop:
        while not stop.requested: ...
    """

    def __init__(self):
        self._signal = None
        self._previous = {}

    def __enter__(self):
        # Python delivers signals to the main thread only.
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._note) for number in _NAMES}
        return self

    def __exit__(self, *exception):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @property
    def requested(self):
        """Whether a signal has come."""
        return self._signal is not None

    def interrupted(self, step):
        """The `Interrupted` to raise once the state at `step` is saved."""
        return self.stopped(
            f"stopped at step {step}, a checkpoint is written. Run the same command again to go on."
        )

    def stopped(self, text):
        """The `Interrupted` to raise, with a text that says what is saved."""
        return Interrupted(f"{_NAMES[self._signal]}: {text}", exit_code=128 + self._signal)

    def _note(self, number, frame):
        if self.requested:
            raise KeyboardInterrupt
        self._signal = signal.Signals(number)
