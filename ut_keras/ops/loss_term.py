"""A part of a loss as a numerator and a denominator."""

from typing import NamedTuple

import tensorflow as tf


class LossTerm(NamedTuple):
    """A part of the loss: numerator / denominator, or 0 if the denominator is 0.

    Layers, models, `fit` and the trainer exchange losses in this form. With several replicas,
    `metrics.losses.of_all_replicas` first sums the denominators of all replicas.
    """

    numerator: tf.Tensor  # float32 scalar
    denominator: tf.Tensor  # float32 scalar

    def value(self) -> tf.Tensor:
        """Return the quotient, a float32 scalar."""
        return tf.math.divide_no_nan(self.numerator, self.denominator)
