"""Dropout with masks that may be shared along some axes."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic.layer import PositionWise
from ut_keras.ops import seed as seed_lib

RESOLUTION = 2**16  # rates are multiples of 1 / RESOLUTION


@keras.saving.register_keras_serializable(package="ut_keras")
class Dropout(PositionWise):
    """Sets a random share of the elements to zero and scales up the rest.

    Every call draws a new mask, also when a loop over recurrence steps calls the same layer again.
    The state of the random numbers is one variable, `seed_generator_state`.

    Args:
        rate: float in [0, 1). Probability of an element to become zero.
        broadcast_dims: ints. Axes along which all elements share one decision; T2T's
            `*_dropout_broadcast_dims`, which save memory.
    Call arguments:
        x: float tensor of any shape.
        training: bool. Without it nothing is dropped.
    Returns:
        Tensor like `x`.
    References: T2T `common_layers.dropout_with_broadcast_dims`.
    """

    def __init__(
        self,
        rate: float,
        broadcast_dims: Sequence[int] = (),
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(f"rate must be in [0, 1). Received: {rate}.")
        self.rate = rate
        self.broadcast_dims = tuple(broadcast_dims)
        self.seed = seed
        self.seed_generator: Any = keras.random.SeedGenerator(seed) if rate > 0 else None
        self.built = True

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training or self.rate == 0:
            return x
        threshold = min(round(self.rate * RESOLUTION), RESOLUTION - 1)  # something is always kept
        keep = self._random_int16(x) >= threshold - RESOLUTION // 2
        kept_share = 1 - threshold / RESOLUTION  # what is really kept, so that means stay true
        return x * (tf.cast(keep, x.dtype) * tf.constant(1 / kept_share, x.dtype))

    def _random_int16(self, x):
        """Uniform int16, of the shape of `x` but for the shared axes.

        Four are cut out of each random int64: drawing them is most of what dropout costs.
        """
        shape = tf.shape(x)
        if self.broadcast_dims:
            rank = x.shape.rank
            shared = {axis + rank if axis < 0 else axis for axis in self.broadcast_dims}
            shape = tf.stack([1 if axis in shared else shape[axis] for axis in range(rank)])
        count = tf.reduce_prod(shape)
        seed = seed_lib.per_replica(self.seed_generator)
        bits = tf.random.stateless_uniform([(count + 3) // 4], seed, None, None, tf.int64)
        return tf.reshape(tf.reshape(tf.bitcast(bits, tf.int16), [-1])[:count], shape)


def sublayer(layer: Any, broadcast_dims: Sequence[int] = ()) -> Dropout:
    """The `Dropout` of another layer, by its `dropout_rate` and dtype policy."""
    return Dropout(layer.dropout_rate, broadcast_dims, name="dropout", dtype=layer.dtype_policy)
