"""The trainer: the loop over updates, evaluation, checkpoints, several workers."""
