"""Python generators and `PyDataset`s as the data of `fit`.

A generator yields each batch once. Keras reads its first two batches to learn their shapes, and
keeps them. In every later epoch, Keras finds only these two batches.

A `PyDataset` can have several workers, which load batches in advance. If a validation does not use
all of these batches, Keras begins the next validation with the unused batches.
"""

import logging
import types
from collections.abc import Mapping
from typing import Any

import keras

_LOG = logging.getLogger("ut_keras")


def check_epochs(given: Mapping[str, Any]) -> None:
    """Raise `ValueError` if `fit` would read a generator again in a later epoch.

    With `steps_per_epoch`, each epoch reads the next batches of the generator. With
    `validation_steps`, each validation reads the first two batches again, and then the next ones.
    A log line says so. Another log line reports a `PyDataset` whose validations use different data.

    Args:
        given: dict, the arguments of `fit` that the caller passed.
    """
    epochs = range(given.get("initial_epoch", 0) + 1, given.get("epochs", 1) + 1)
    if not given.get("steps_per_epoch"):
        _check(given, "x", ", or steps_per_epoch must be set", "train", len(epochs))
    frequency = given.get("validation_freq", 1)
    if isinstance(frequency, int):
        validations = sum(epoch % frequency == 0 for epoch in epochs)
    else:
        validations = sum(epoch in frequency for epoch in epochs)
    if not given.get("validation_steps"):
        _check(given, "validation_data", "", "validate", validations)
    elif validations > 1:
        _log_different_data(given.get("validation_data"))


def _log_different_data(validation_data):
    """Log data whose validations use different batches if `validation_steps` is set."""
    if isinstance(validation_data, types.GeneratorType):
        _LOG.warning(
            "validation_data should be arrays, a tf.data.Dataset or a keras.utils.PyDataset. "
            "Received: a generator. Keras begins each validation with the first two batches of "
            "the generator, so the validations use different data."
        )
    elif isinstance(validation_data, keras.utils.PyDataset):
        workers, in_processes = validation_data.workers, validation_data.use_multiprocessing
        if workers > 1 or (workers > 0 and in_processes):
            _LOG.warning(
                "validation_data should have workers=1 and use_multiprocessing=False, or "
                "validation_steps should not be set. Received: workers=%s, use_multiprocessing=%s. "
                "Keras continues each validation where the previous one stopped, so the "
                "validations use different data.",
                workers,
                in_processes,
            )


def _check(given, name, other_remedy, verb, times):
    """Check one argument of `fit`, which Keras would read `times` times."""
    if isinstance(given.get(name), types.GeneratorType) and times > 1:
        raise ValueError(
            f"{name} must be arrays, a tf.data.Dataset or a keras.utils.PyDataset{other_remedy}. "
            f"Received: a generator for {times} epochs. A generator yields its "
            f"batches only once. From the second epoch on, Keras would {verb} on its first two "
            "batches only."
        )
