"""Python generators as the data of `fit`.

A generator yields each batch once. Keras reads the first two batches to learn their shapes, and
keeps them. In every later epoch, it reads these two batches again, and then finds no others.
"""

import types
from collections.abc import Mapping
from typing import Any


def check_epochs(given: Mapping[str, Any]) -> None:
    """Raise `ValueError` if `fit` would read a generator again in a later epoch.

    With a number of steps, Keras reads the generator only once, and warns when it has no more
    batches.

    Args:
        given: dict, the arguments of `fit` that the caller passed.
    """
    epochs = range(given.get("initial_epoch", 0) + 1, given.get("epochs", 1) + 1)
    _check(given, "x", "steps_per_epoch", "train", len(epochs))
    frequency = given.get("validation_freq", 1)
    if isinstance(frequency, int):
        validations = sum(epoch % frequency == 0 for epoch in epochs)
    else:
        validations = sum(epoch in frequency for epoch in epochs)
    _check(given, "validation_data", "validation_steps", "validate", validations)


def _check(given, name, steps, verb, times):
    if isinstance(given.get(name), types.GeneratorType) and not given.get(steps) and times > 1:
        raise ValueError(
            f"{name} must be arrays, a tf.data.Dataset or a keras.utils.PyDataset, or {steps} must "
            "be set. A generator yields its batches only once. From the second epoch on, Keras "
            f"would {verb} on its first two batches only. "
            f"Received: a generator for {times} epochs."
        )
