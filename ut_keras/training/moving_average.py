"""A moving average of the weights.

It often gives better results than the last weights.

    average = average * d + weight * (1 - d),    d = min(decay, (1 + t) / (10 + t)) at update t

In the first updates, d is smaller than `decay`, so that the initial weights lose their influence
quickly. The formula is the same as in `tf.train.ExponentialMovingAverage` with `num_updates`.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from ut_keras.checkpoints import checkpoint


class MovingAverage:
    """Averages of a built model's trainable variables.

    Each average has the same type and devices as its variable.
    """

    def __init__(self, model: keras.Model, strategy: tf.distribute.Strategy, decay: float) -> None:
        self._strategy = strategy
        self._decay = decay
        named = checkpoint.model_variables(model)
        trainable = {id(variable.value) for variable in model.trainable_variables}
        self._weights = {name: v for name, v in named.items() if id(v) in trainable}
        with strategy.scope():
            self.variables = {
                name: tf.Variable(weight, trainable=False) for name, weight in self._weights.items()
            }

    def reset(self) -> None:
        """Set the averages to the current weights."""
        for name, weight in self._weights.items():
            self.variables[name].assign(weight)

    def update(self, iterations: Any) -> None:
        """Update the averages after update number `iterations`.

        Call this method outside the replica context.
        """
        count = tf.cast(iterations, tf.float32)
        decay = tf.minimum(self._decay, (1.0 + count) / (10.0 + count))

        def update_average(average, weight, decay):
            average.assign_sub((average - weight) * tf.cast(1.0 - decay, average.dtype))

        for name, weight in self._weights.items():
            self._strategy.extended.update(
                self.variables[name], update_average, args=(weight, decay), group=False
            )

    @contextlib.contextmanager
    def applied_to_model(self) -> Iterator[None]:
        """Return a context in which the averages replace the model's weights."""
        original = {name: weight.numpy() for name, weight in self._weights.items()}
        for name, weight in self._weights.items():
            weight.assign(self.variables[name])
        try:
            yield
        finally:
            for name, weight in self._weights.items():
                weight.assign(original[name])
