"""How many steps a recurrence takes in training, where that is drawn anew for each batch."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.layers.basic.layer import Layer

KINDS = ("uniform", "lognormal_poisson")
_DEVIATION = 0.5
_TIMES_THE_MEAN = 4  # that many steps are drawn less than once in 100,000 batches


@keras.saving.register_keras_serializable(package="ut_keras")
class StepSampling(Layer):
    """Draws a number of steps.

        "uniform":            n in 1 .. N, each as often
        "lognormal_poisson":  n = 1 + Poisson(r),  log r ~ Normal(log N - 1/8, 1/2);  at most 4 N

    The mean of r is N. (As in the authors' code, but for the limit; their paper could not be
    checked against.)

    Args:
        kind: "uniform" or "lognormal_poisson".
        num_steps: int N.
    Raises:
        ValueError: if the kind is unknown.
    References: Geiping et al. 2025, Scaling up Test-Time Compute with Latent Reasoning; its code,
        `randomized_iteration_sampler`.
    """

    def __init__(self, kind: str, num_steps: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}. Received: {kind!r}.")
        self.kind = kind
        self.num_steps = num_steps
        self.seed_generator = keras.random.SeedGenerator()

    @property
    def most(self) -> int:
        """int, the most steps that are drawn."""
        return self.num_steps * (1 if self.kind == "uniform" else _TIMES_THE_MEAN)

    def draw(self) -> tf.Tensor:
        """int32 scalar n. (A Keras layer cannot be called with nothing.)"""
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        if self.kind == "uniform":
            return tf.random.stateless_uniform([], seed, 1, self.num_steps + 1, tf.int32)
        mean = np.log(self.num_steps) - _DEVIATION**2 / 2
        normal = tf.random.stateless_normal([], seed)
        log_rate = mean + _DEVIATION * normal
        counts = tf.range(self.most - 1, dtype=tf.float32)
        log_probs = counts * log_rate - tf.exp(log_rate) - tf.math.lgamma(counts + 1)
        below = tf.cumsum(tf.exp(log_probs))  # by its inverse: XLA has no Poisson
        drawn = tf.random.stateless_uniform([], seed + 1)
        return 1 + tf.math.count_nonzero(below < drawn, dtype=tf.int32)
