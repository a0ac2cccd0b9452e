"""Saves a run as it goes: beside the updates, and what cannot be saved is left to the next time."""

import time
from collections.abc import Callable
from typing import Any

from ut_keras.checkpoints import checkpoint
from ut_keras.training import train_step
from ut_keras.training.train_step import StepResult


class Saver(train_step.Hook):
    """Saves when it is time; knows which step is saved, and which could not be.

    Args:
        checkpoints: `Checkpoints`.
        is_chief: bool. Whether this process writes them.
        before_save: function of the step, called before its state is taken.
        before_speaking: function to call before a line is printed.
        every_steps: int. Updates from one checkpoint to the next ...
        every_seconds: ... or seconds, if not 0.
    """

    def __init__(
        self,
        checkpoints: Any,
        is_chief: bool,
        before_save: Callable[[int], Any],
        before_speaking: Callable[[], Any],
        every_steps: int = 1,
        every_seconds: float = 0,
    ) -> None:
        self._checkpoints = checkpoints
        self._is_chief = is_chief
        self._before_save = before_save
        self._before_speaking = before_speaking
        self._every_steps = max(1, every_steps)
        self._every_seconds = every_seconds
        self._begun_at: Any = None
        self._saved_step: int | None = None
        self.failed_step: int | None = None

    def was_restored(self, step: int) -> None:
        """The state of `step` is what was read."""
        self._saved_step = step

    def begins(self, step: int) -> None:
        self._begun_at = time.monotonic()

    def after_update(self, step: int, result: StepResult) -> None:
        self.finish(wait=False)
        if self._is_due(step):
            self.save(step)
            self._begun_at = time.monotonic()

    def ends(self) -> None:
        self.finish()

    def save(self, step: int) -> None:
        """Starts to save the state of `step`, unless it is saved or has been tried."""
        if step not in (self._saved_step, self.failed_step):
            self._before_save(step)
            self.start(step)

    def start(self, step: int) -> None:
        """Starts to write the state of `step`; what fails is told by `finish`."""
        self.finish()
        if self._is_chief:
            self._checkpoints.start_saving()
        self._saved_step, self.failed_step = step, None

    def finish(self, wait: bool = True) -> None:
        """Waits for what is being written, and says if that failed.

        Args:
            wait: bool. If not, a failure is said only if it is known by now.
        """
        try:
            self._checkpoints.finish_saving(wait)
        except checkpoint.SaveError as error:
            self._saved_step, self.failed_step = None, self._saved_step
            self._before_speaking()
            print(f"{error}. Training goes on; {self.newest()}.", flush=True)

    def finish_for_good(self) -> None:
        """As `finish`; nothing comes after this, so that what cannot be saved is an error now.

        Raises:
            SaveError: if the last step could not be.
        """
        self.finish()
        if self.failed_step is not None and self._is_chief:
            self._checkpoints.save()

    def newest(self) -> str:
        """Which checkpoint there is, as text."""
        return f"newest checkpoint: {self._checkpoints.newest or 'none'}"

    def _is_due(self, step):
        if self._every_seconds:
            return time.monotonic() - self._begun_at >= self._every_seconds
        return step % self._every_steps == 0
