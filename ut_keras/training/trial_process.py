"""A trial of a search: the trainer in its own process, with its own output folder.

The process of the trial holds a lock on the folder while it runs. If the search is killed on Linux,
the system sends SIGTERM to the trial. The trial then saves its state and stops. A search that
resumes waits until the trial has stopped.
"""

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from ut_keras.files import file_error, path_lock, whole_file

_PR_SET_PDEATHSIG = 1  # the constant in linux/prctl.h
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


class TrialProcess:
    """A running trial.

    Args:
        command: list of str, the command of the trainer.
        directory: str, the output folder of the trial. The output of the process is appended to
            the file log.txt in this folder.
        gpus: str, the value of CUDA_VISIBLE_DEVICES. If it is None, the variable is not changed.
        lock: the return value of `try_lock(directory)`.
    """

    def __init__(self, command: Sequence[str], directory: str, gpus: str | None, lock: Any) -> None:
        self._directory = directory
        self._stop_requested = False
        environment = dict(os.environ)
        if gpus is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpus
        # The trial has a separate session, so Ctrl-C in the terminal reaches only the search.
        whole_file.break_hard_links(os.path.join(directory, "log.txt"))
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
        """The exit code, an int, or None while the process runs.

        The exit code is -N if signal N ended the process.
        """
        return self._process.poll()

    def stop(self) -> None:
        """Send SIGTERM to the process, so that it saves its state and stops.

        The signal is sent only once, because a second signal would end the process immediately.
        """
        if not self._stop_requested and self.exit_code is None:
            self._process.send_signal(signal.SIGTERM)
        self._stop_requested = True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def last_line(self) -> str:
        """Return the last line that the process printed, without the prefix "error: "."""
        path = os.path.join(self._directory, "log.txt")
        with file_error.named(path), open(path, "rb") as log:
            log.seek(max(0, os.path.getsize(log.name) - 4096))
            lines = log.read().decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "").removeprefix("error: ")


def try_lock(directory: str) -> Any:
    """Return an open file that holds the lock on a folder.

    The folder is created if it is missing. The result is None if another process holds the lock.
    """
    os.makedirs(directory, exist_ok=True)
    # The trainer acquires a different lock after it has started.
    return path_lock.try_lock(path_lock.beside(os.path.join(directory, "trial"), "lock"))


def _stop_with_parent():
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
