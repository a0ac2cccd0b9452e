"""Whether the folder of a run is still the one that the run began in."""

import os
from typing import Any

from ut_keras.checkpoints.checkpoint import CheckpointError
from ut_keras.training import train_step

_CHECKPOINT = ("checkpoint", "model.ckpt-", ".checkpoint.", ".model.ckpt-")


class FolderLost(CheckpointError):
    """The folder of a run was removed while it trained."""


class OutputFolder(train_step.Hook):
    """Knows a folder again, which a path alone does not: another run may have made one there.

    Args:
        path: str, an existing folder.
        enabled: bool. False checks nothing: where nothing is trained, and of several workers one
            writes.
    """

    def __init__(self, path: str, enabled: bool = True) -> None:
        self._path = path
        self._enabled = enabled
        self._status: Any = os.stat(path) if enabled else None

    @property
    def is_lost(self) -> bool:
        """Whether something else, or nothing, is at the path."""
        try:
            return not os.path.samestat(os.stat(self._path), self._status)
        except FileNotFoundError:
            return True
        except OSError:  # A disk of the network that does not answer for now.
            return False

    @property
    def is_of_others(self) -> bool:
        """Whether more is at the path than a checkpoint that was being written meanwhile."""
        try:
            return not all(name.startswith(_CHECKPOINT) for name in os.listdir(self._path))
        except FileNotFoundError:
            return False

    def before_save(self, step: int) -> None:
        self.check(step)

    def check(self, step: int) -> None:
        """Ends a run whose folder is gone, before it makes another one there.

        Raises:
            FolderLost: if it is.
        """
        if self._enabled and self.is_lost:
            raise FolderLost(
                f"--output_dir must stay where it is while training. Received: {self._path} was "
                f"removed, and the checkpoints, records and results up to step {step} are lost."
            )

    def saved_anew(self, error: Any, saver: Any, step: int) -> FolderLost:
        """Saves what the memory still holds, if nobody else has the place now.

        Args:
            error: the `FolderLost` of `check`.
            saver: `Saver`.
            step: int.

        Returns:
            `FolderLost`, which says so besides.
        """
        if self.is_of_others:
            return FolderLost(f"{error} Nothing is written to what is there now.")
        saver.start(step)
        saver.finish()
        return FolderLost(f"{error} The state of step {step} was saved anew; {saver.newest()}.")
