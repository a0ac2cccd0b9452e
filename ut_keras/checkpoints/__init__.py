"""Checkpoints on disk, with everything that a stopped run needs to resume."""
