"""Python generators as the data of `fit`.

A generator yields each batch once. Keras reads its first two batches to learn their shapes, and
keeps them. In every later epoch, Keras finds only these two batches.
"""

import types
from collections.abc import Mapping
from typing import Any


def check_epochs(given: Mapping[str, Any]) -> None:
    """Raise `ValueError` if `fit` would read a generator again in a later epoch.

    If the number of steps is set, each epoch reads the next batches of the generator. Keras warns
    if there are too few.

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


def _check(given, name, steps_name, verb, times):
    """Check one argument of `fit`, which Keras would read `times` times."""
    is_generator = isinstance(given.get(name), types.GeneratorType)
    if is_generator and not given.get(steps_name) and times > 1:
        raise ValueError(
            f"{name} must be arrays, a tf.data.Dataset or a keras.utils.PyDataset, or {steps_name} "
            f"must be set. Received: a generator for {times} epochs. A generator yields its "
            f"batches only once. From the second epoch on, Keras would {verb} on its first two "
            "batches only."
        )
