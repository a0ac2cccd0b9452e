"""Logs a warning if all epochs of `fit` have the same order of examples.

Keras shuffles arrays with a random operation inside a `tf.data.Dataset`. If a random seed was set,
this operation samples the same random numbers each time that Keras reads all data.
"""

import logging
import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.ops import private_api

_LOG = logging.getLogger("ut_keras")


def log_equal_epochs(given: Mapping[str, Any]) -> None:
    """Log a warning if `fit` reads arrays several times in the same order.

    Args:
        given: dict, the arguments of `fit` that the caller passed.
    """
    shuffle = given.get("shuffle", True)
    is_shuffled = bool(shuffle) and shuffle != "batch"
    if is_shuffled and private_api.has_random_seed() and _reads_arrays_again(given):
        _LOG.warning(
            "shuffle=True gives each pass over the data the same order of examples, because Keras "
            "shuffles arrays with the random seed that was set. For a new order in each epoch, "
            "call fit(tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(y)).batch(batch_size))"
            "."
        )


def _reads_arrays_again(given):
    """Return whether `fit` reads several batches of arrays more than once.

    With `steps_per_epoch`, an epoch continues where the previous epoch stopped.
    """
    leaves = keras.tree.flatten(given.get("x"))
    are_arrays = [isinstance(leaf, np.ndarray) or tf.is_tensor(leaf) for leaf in leaves]
    if not leaves or not all(are_arrays) or not len(leaves[0].shape):
        return False
    size = leaves[0].shape[0]
    if given.get("validation_data") is None:
        size = math.floor(size * (1 - (given.get("validation_split") or 0)))
    if not size:  # Keras raises an error
        return False
    steps = given.get("steps_per_epoch")
    batch_size = given.get("batch_size") or (math.ceil(size / steps) if steps else 32)
    num_batches = math.ceil(size / batch_size)
    epochs = given.get("epochs", 1) - given.get("initial_epoch", 0)
    in_epoch = min(steps or num_batches, num_batches)  # an epoch ends at the end of the data
    return num_batches > 1 and epochs * in_epoch > num_batches
