"""Saves a run as it goes, beside the updates, and what forbids it.

That is weights that are not finite, and a folder that is not the run's any more.
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
    """The folder of a run was renamed, moved or removed while it trained."""


def check_folder(path: str, status: os.stat_result, step: int) -> None:
    """Ends a run whose folder is no longer at its path, before it makes another one there.

    `status` is the folder's; by its path alone another run's would be taken for it.

    Raises:
        FolderLost: if something else, or nothing, is at the path.
    """
    try:
        is_same_folder = os.path.samestat(os.stat(path), status)
    except OSError as error:  # such as a disk of the network that does not answer for now
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
    """The path of a folder's new name, in the folder where it was; None without one."""
    parent = os.path.dirname(os.path.abspath(path))
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            is_inode = entry.inode() == status.st_ino
            if is_inode and os.path.samestat(entry.stat(follow_symlinks=False), status):
                return os.path.join(os.path.dirname(path.rstrip(os.sep)), entry.name)
    return None


class NonFiniteError(UserError, ArithmeticError):
    """The loss or a weight is not finite any more."""


def non_finite_weight(model: keras.Model) -> str | None:
    """The path of a trainable weight of a built model that is not finite, or None."""
    variables = model.trainable_variables
    finite = tf.stack([tf.reduce_all(tf.math.is_finite(variable)) for variable in variables])
    pairs = zip(variables, finite.numpy(), strict=True)
    return next((variable.path for variable, is_finite in pairs if not is_finite), None)


@dataclasses.dataclass
class Saver:
    """Saves when it is time; knows which step is saved, or could not be (the next time it is)."""

    checkpoints: Any  # `Checkpoints`
    is_chief: bool  # whether this process writes them
    # Of the step, before its state is taken: the last chance to find that it is no good.
    before_save: Callable[[int], Any]
    print_line: Callable[[str], Any]  # prints a line
    every_steps: int = 1  # updates from one checkpoint to the next …
    every_seconds: float = 0  # … or seconds, if not 0
    saved_step: int | None = None  # whose state is saved, or is being written
    failed_step: int | None = None  # whose state could not be
    _interval_start: float = 0.0

    def restart_clock(self) -> None:
        """Counts the seconds to the next checkpoint from here."""
        self._interval_start = time.monotonic()

    def save_if_due(self, step: int) -> None:
        """Saves the state of `step` if it is time; says what has failed meanwhile."""
        self.finish(wait=False)
        if self._is_due(step):
            self.save(step)
            self.restart_clock()

    def save(self, step: int) -> None:
        """Starts to save the state of `step`, unless it is saved or has been tried."""
        if step in (self.saved_step, self.failed_step):
            return
        self.before_save(step)
        self.finish()
        if self.is_chief:
            self.checkpoints.start_saving()
        self.saved_step, self.failed_step = step, None

    def finish(self, wait: bool = True) -> None:
        """Waits for what is written, and says if it failed; without `wait`, if that is known."""
        try:
            self.checkpoints.finish_saving(wait)
        except checkpoint.SaveError as error:
            self.saved_step, self.failed_step = None, self.saved_step
            self.print_line(f"{error}. Training continues; {self.newest()}.")

    def finish_or_raise(self) -> None:
        """As `finish`; nothing comes after this, so that what cannot be saved is an error now.

        Raises:
            SaveError: if the last step could not be.
        """
        self.finish()
        if self.failed_step is not None and self.is_chief:
            self.checkpoints.save()

    def newest(self) -> str:
        """Which checkpoint there is, as text."""
        return f"newest checkpoint: {self.checkpoints.newest or 'none'}"

    def _is_due(self, step):
        if self.every_seconds:
            return time.monotonic() - self._interval_start >= self.every_seconds
        return step % max(1, self.every_steps) == 0
