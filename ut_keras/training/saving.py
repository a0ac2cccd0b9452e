"""Saves the checkpoints of a run during training.

No checkpoint is saved if a weight is not finite, or if the output folder was moved or removed.
"""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ut_keras.checkpoints import checkpoint
from ut_keras.checkpoints.checkpoint import CheckpointError
from ut_keras.errors import UserError


class FolderLost(CheckpointError):
    """The output folder of a run was renamed, moved or removed during training."""


def check_folder(path: str, status: os.stat_result, step: int) -> None:
    """Check that the output folder of a run is still at its path.

    Without this check, the run would create another folder at the path.

    Args:
        path: str, path of the folder.
        status: `os.stat_result` of the folder at the start of the run. It identifies the original
            folder, even if another folder is now at the path.
        step: int, the current step of training.

    Raises:
        FolderLost: if the path does not exist or is another folder.
    """
    try:
        is_same_folder = os.path.samestat(os.stat(path), status)
    except OSError as error:  # for example, a network disk may be temporarily unavailable
        is_same_folder = not isinstance(error, FileNotFoundError)
    if is_same_folder:
        return
    expected = "--output_dir must not be moved or removed during training."
    if renamed := _new_path(path, status):
        raise FolderLost(
            f"{expected} Received: {path} was renamed to {renamed}, which contains everything "
            "that was saved before. To resume from its newest checkpoint, run the same command "
            f"with --output_dir={renamed}, or rename the folder back."
        )
    raise FolderLost(
        f"{expected} Received: {path} no longer exists. Unless the folder was moved, "
        f"the checkpoints, records and results up to step {step} are lost."
    )


def _new_path(path, status):
    """Return a folder's new path after it was renamed within its parent, or None."""
    parent = os.path.dirname(os.path.abspath(path))
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            is_inode = entry.inode() == status.st_ino
            if is_inode and os.path.samestat(entry.stat(follow_symlinks=False), status):
                return os.path.join(os.path.dirname(path.rstrip(os.sep)), entry.name)
    return None


class NonFiniteError(UserError, ArithmeticError):
    """The loss or a weight is no longer finite."""


def non_finite_weight(model: keras.Model) -> str | None:
    """Return the path of a trainable weight that is not finite, or None."""
    variables = model.trainable_variables
    finite = tf.stack([tf.reduce_all(tf.math.is_finite(variable)) for variable in variables])
    pairs = zip(variables, finite.numpy(), strict=True)
    return next((variable.path for variable, is_finite in pairs if not is_finite), None)


@dataclasses.dataclass
class Saver:
    """Saves checkpoints when they are due.

    If writing a checkpoint fails, training continues, and the saver tries again when the next
    checkpoint is due.
    """

    checkpoints: Any  # `Checkpoints`
    is_chief: bool  # whether this process writes the checkpoints
    # Function that takes the step and is called before the state is copied. If it raises an error,
    # the state is not saved.
    before_save: Callable[[int], Any]
    print_line: Callable[[str], Any]  # prints a message to the user
    every_steps: int = 1  # number of updates between checkpoints
    # Number of seconds between checkpoints. If it is not 0, `every_steps` is ignored.
    every_seconds: float = 0
    saved_step: int | None = None  # the last step whose state was saved or is being saved
    failed_step: int | None = None  # the step whose state the last save could not write
    _interval_start: float = 0.0

    def restart_clock(self) -> None:
        """Start a new interval of `every_seconds`."""
        self._interval_start = time.monotonic()

    def save_if_due(self, step: int) -> None:
        """Save the state of `step` if a save is due, and report if an earlier save failed."""
        self.finish(wait=False)
        if self._is_due(step):
            self.save(step)
            self.restart_clock()

    def save(self, step: int) -> None:
        """Start to save the state of `step`.

        If this state was already saved, or if saving it failed, the method does nothing.
        """
        if step in (self.saved_step, self.failed_step):
            return
        self.before_save(step)
        self.finish()
        if self.is_chief:
            self.checkpoints.start_saving()
        self.saved_step, self.failed_step = step, None

    def finish(self, wait: bool = True) -> None:
        """Wait for the current save, and report if it failed.

        With `wait=False`, a failure is reported only if the save has already ended.
        """
        try:
            self.checkpoints.finish_saving(wait)
        except checkpoint.SaveError as error:
            self.saved_step, self.failed_step = None, self.saved_step
            self.print_line(f"{error}. Training continues; {self.newest()}.")

    def finish_or_raise(self) -> None:
        """Wait for the last save of the run, and save again if it failed.

        Raises:
            SaveError: if the state of the last step cannot be saved.
        """
        self.finish()
        if self.failed_step is not None and self.is_chief:
            self.checkpoints.save()

    def newest(self) -> str:
        """Return a phrase that names the newest checkpoint, for messages."""
        return f"newest checkpoint: {self.checkpoints.newest or 'none'}"

    def _is_due(self, step):
        if self.every_seconds:
            return time.monotonic() - self._interval_start >= self.every_seconds
        return step % max(1, self.every_steps) == 0
