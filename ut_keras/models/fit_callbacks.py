"""Checks of the callbacks that `fit` gets."""

from typing import Any

import keras

_SETS_LEARNING_RATE = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)


def check_learning_rate(model: keras.Model, callbacks: Any) -> None:
    """Raise Keras' error if a callback sets a learning rate that has a schedule.

    Keras raises this error when the learning rate is set. If there is such a callback, this
    function sets the current rate again. So Keras raises the error before the training.
    """
    callbacks = keras.tree.flatten(getattr(callbacks, "callbacks", callbacks))
    if any(isinstance(callback, _SETS_LEARNING_RATE) for callback in callbacks):
        rate = keras.ops.convert_to_numpy(model.optimizer.learning_rate)
        model.optimizer.learning_rate = float(rate)
