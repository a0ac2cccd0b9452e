"""Whether the folder of a run is still the one that the run began in."""

import os

from ut_keras.training.checkpoint import CheckpointError

_CHECKPOINT = ("checkpoint", "model.ckpt-")


class FolderLost(CheckpointError):
    """The folder of a run was removed while it trained."""


class OutputFolder:
    """Knows a folder again, which a path alone does not: another run may have made one there.

    Args:
        path: str, an existing folder.
    """

    def __init__(self, path):
        self._path = path
        self._status = os.stat(path)

    @property
    def is_lost(self):
        """Whether something else, or nothing, is at the path."""
        try:
            return not os.path.samestat(os.stat(self._path), self._status)
        except FileNotFoundError:
            return True
        except OSError:  # A disk of the network that does not answer for now.
            return False

    @property
    def is_of_others(self):
        """Whether more is at the path than a checkpoint that was being written meanwhile."""
        try:
            return not all(name.startswith(_CHECKPOINT) for name in os.listdir(self._path))
        except FileNotFoundError:
            return False
