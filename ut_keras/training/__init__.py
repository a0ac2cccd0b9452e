"""The trainer: the loop over updates, evaluations, checkpoints and several workers."""
