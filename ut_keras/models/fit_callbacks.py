"""Checks of the callbacks that `fit` gets."""

from typing import Any

import keras

from ut_keras.optimizers import optimizer as optimizer_lib

_SETS_LEARNING_RATE = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)


def check_learning_rate(optimizer: keras.optimizers.Optimizer, callbacks: Any) -> None:
    """Check that the callbacks of `fit` can set the learning rate.

    Keras raises an error only when a callback sets the rate, for example after the first epoch.

    Args:
        optimizer: the optimizer of the model.
        callbacks: the argument of `fit`.

    Raises:
        TypeError: if a callback sets a learning rate that has a schedule.
    """
    callbacks = keras.tree.flatten(getattr(callbacks, "callbacks", callbacks))
    if any(isinstance(callback, _SETS_LEARNING_RATE) for callback in callbacks):
        for one in optimizer_lib.weight_optimizers(optimizer):
            optimizer_lib.check_has_no_schedule(one)
