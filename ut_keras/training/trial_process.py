"""A trial as a process of its own: the trainer on one set of hparams, in a folder of its own.

It holds a lock on the folder as long as it lives. If the search is killed, the trial is told to
stop (on Linux) and saves; a search that goes on waits until it has.
"""

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from ut_keras.files import file_error, path_lock, whole_file

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


class TrialProcess:
    """A running trial.

    Args:
        directory: str, made if missing. What the process prints is added to log.txt there.
        gpus: str for CUDA_VISIBLE_DEVICES, or None to leave it.
        lock: what `try_lock(directory)` returned.
    """

    def __init__(self, command: Sequence[str], directory: str, gpus: str | None, lock: Any) -> None:
        self._directory = directory
        self._stop_requested = False
        environment = dict(os.environ)
        if gpus is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpus
        # In a session of its own, Ctrl-C at the terminal reaches the search only.
        whole_file.unshare(os.path.join(directory, "log.txt"))
        with open(os.path.join(directory, "log.txt"), "ab") as log, lock:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=[lock.fileno()],
                start_new_session=True,
                preexec_fn=_stop_with_parent,
            )

    @property
    def exit_code(self) -> int | None:
        """int, or None as long as it runs; -N after signal N."""
        return self._process.poll()

    def stop(self) -> None:
        """Asks it to save and end; once, for a second signal would end it at once."""
        if not self._stop_requested and self.exit_code is None:
            self._process.send_signal(signal.SIGTERM)
        self._stop_requested = True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def last_line(self) -> str:
        """The last line that it has printed; without "error: "."""
        path = os.path.join(self._directory, "log.txt")
        with file_error.named(path), open(path, "rb") as log:
            log.seek(max(0, os.path.getsize(log.name) - 4096))
            lines = log.read().decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "").removeprefix("error: ")


def try_lock(directory: str) -> Any:
    """Returns an open file that holds the lock on a folder, or None if another process does."""
    os.makedirs(directory, exist_ok=True)
    # Not the trainer's own lock, which it takes when it has started.
    return path_lock.try_lock(path_lock.beside(os.path.join(directory, "trial"), "lock"))


def _stop_with_parent():
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
