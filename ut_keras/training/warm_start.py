"""Weights to begin with, from another run: all that have the same name and shape."""

import os

import keras

from ut_keras.checkpoints import checkpoint, checkpoint_files


def warm_start(model: keras.Model, path: str) -> str:
    """Fills a new model's variables.

    Args:
        model: a built Keras model.
        path: str. Folder of a run (its newest checkpoint is taken), or one checkpoint.

    Returns:
        str, a line that says what was taken over and what was not.

    Raises:
        CheckpointError: if there is no checkpoint of ours, or nothing in it fits.
    """
    path = os.path.expanduser(path)
    found = checkpoint_files.newest(path) if os.path.isdir(path) else path
    if found is None:
        raise checkpoint.CheckpointError(
            f"warm_start_from must be a checkpoint or a folder with one. Received: {path!r}."
        )
    weights = checkpoint.read_weights(found)
    left, count = [], 0
    for name, variable in checkpoint.model_variables(model).items():
        value = weights.get(name)
        if value is None or value.shape != tuple(variable.shape):
            there = "absent" if value is None else f"{value.shape} there"
            left.append(f"{name} {tuple(variable.shape)} ({there})")
            continue
        variable.assign(value)
        count += 1
    if not count:
        raise checkpoint.CheckpointError(
            f"warm_start_from must hold variables of this model's names and shapes. Received: "
            f"{found}, where none fits, such as {left[0]}."
        )
    kept = f"; begun anew: {', '.join(left)}" if left else ""
    return f"Warm start: {count} of {count + len(left)} variables from {found}{kept}"
