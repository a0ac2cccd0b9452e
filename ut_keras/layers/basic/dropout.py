"""Dropout with a mask that may be shared along some axes."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic.layer import PositionWise
from ut_keras.ops import custom_gradient, devices, private_api
from ut_keras.ops import seed as seed_lib

RESOLUTION = 2**16  # rates are multiples of 1 / RESOLUTION


@keras.saving.register_keras_serializable(package="ut_keras")
class Dropout(PositionWise):
    """Sets random elements to zero and scales up the others.

    Every call samples a new mask, also in a loop over recurrence steps. The variable
    `seed_generator_state` stores the state of the random number generator.

    Args:
        rate: float in [0, 1). Probability that an element becomes zero.
        broadcast_dims: ints. Axes along which all elements share one dropout decision. Sharing
            saves memory. T2T's name is `*_dropout_broadcast_dims`.
        seed: int, the seed of the random number generator. Optional.

    Call arguments:
        x: float tensor of any shape.
        training: bool. If it is not True, the layer returns `x`.

    Returns:
        Tensor like `x`.

    Raises:
        ValueError: if rate is not in [0, 1).

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
        seed = seed_lib.per_replica(self.seed_generator)
        if not private_api.is_compiled_by_xla():
            return x * self._factors(x, seed)

        @custom_gradient.wrap
        def dropped(x):
            def gradient(upstream):
                # Under XLA, sampling is cheap. The gradient samples the same factors again, so a
                # loop over recurrence steps need not store them for each step.
                return upstream * self._factors(upstream, seed)

            return x * self._factors(x, seed), gradient

        return dropped(x)

    def after_relu(self, x: tf.Tensor) -> tf.Tensor:
        """Apply ReLU, and then dropout as in training.

        The gradient reads only the result of dropout. TensorFlow's own gradients would read the
        result of ReLU and the mask, and a loop over recurrence steps would store both for each
        step.
        """
        if self.rate == 0:
            return tf.nn.relu(x)
        seed = seed_lib.per_replica(self.seed_generator)

        @custom_gradient.wrap
        def rectified_and_dropped(x):
            y = tf.nn.relu(x) * self._factors(x, seed)

            def gradient(upstream):
                return tf.where(y > 0, upstream * tf.constant(scale(self.rate), x.dtype), 0)

            return y, gradient

        return rectified_and_dropped(x)

    def _factors(self, x, seed):
        """Return the factors by which dropout multiplies the elements of `x`.

        The factors depend only on the seed, and on the shape and dtype of `x`. A gradient function
        passes the upstream gradient as `x`, which has the same shape. XLA needs a constant shape.
        In the gradient of a loop, a shape that the forward pass has computed is not a constant.
        Therefore this method reads the shape from its argument.
        """
        return factors(sample_kept(self._shape(x), seed, self.rate), self.rate, x.dtype)

    def _shape(self, x):
        """Return the shape of the mask: the shape of `x`, with size 1 along shared axes.

        Known sizes are ints, so that TensorFlow need not compute the number of elements.
        """
        shape = tf.shape(x) if x.shape.num_elements() is None else x.shape.as_list()
        if self.broadcast_dims:
            rank = x.shape.rank
            shared = {axis + rank if axis < 0 else axis for axis in self.broadcast_dims}
            shape = [1 if axis in shared else shape[axis] for axis in range(rank)]
        return shape


def sample_kept(shape: Any, seed: tf.Tensor, rate: float) -> tf.Tensor:
    """Sample a mask of the elements that dropout keeps.

    Without XLA, sampling dominates the cost of dropout. To reduce this cost, the function splits
    each random int64 into four int16 numbers. Under XLA, the function computes one number for each
    element. See `seed.hashed_indices`.

    Args:
        shape: list of ints and int32 scalars, or int32 tensor.
        seed: int32 or int64 [2].
        rate: float in (0, 1).

    Returns:
        bool tensor of the given shape, False where an element becomes zero.
    """
    if private_api.is_compiled_by_xla():
        least = _threshold(rate) * (2**32 // RESOLUTION)
        return seed_lib.hashed_indices(shape, seed) >= tf.constant(least, tf.uint32)
    if isinstance(shape, list) and all(isinstance(size, int) for size in shape):
        count: Any = math.prod(shape)
        is_exact = count % 4 == 0
    else:
        count, is_exact = tf.reduce_prod(shape), False
    bits = seed_lib.random_int64([(count + 3) // 4], seed)
    numbers = tf.reshape(tf.bitcast(bits, tf.int16), [-1])
    kept = tf.reshape(numbers if is_exact else numbers[:count], shape)
    return kept >= _threshold(rate) - RESOLUTION // 2


def factors(keep: tf.Tensor, rate: float, dtype: tf.DType) -> tf.Tensor:
    """Return dropout's factor for each element: 0 or `scale(rate)`.

    Args:
        keep: bool tensor, the result of `sample_kept`.
        rate: float in (0, 1).
        dtype: a floating-point dtype.

    Returns:
        Tensor like `keep`, with the given dtype.
    """
    factor = tf.constant(scale(rate), dtype)
    if devices.has_gpu():  # one kernel instead of two
        return tf.where(keep, factor, tf.zeros([], dtype))
    return tf.cast(keep, dtype) * factor


def scale(rate: float) -> float:
    """Return the factor of the elements that dropout keeps.

    The factor depends on the rounded rate, so that dropout does not change the expected values.
    """
    return 1 / (1 - _threshold(rate) / RESOLUTION)


def _threshold(rate):
    """Return the rate as a multiple of 1 / RESOLUTION, an int less than RESOLUTION."""
    return min(round(rate * RESOLUTION), RESOLUTION - 1)


def sublayer(layer: Any, broadcast_dims: Sequence[int] = ()) -> Dropout:
    """Return a `Dropout` with the `dropout_rate` and dtype policy of a layer.

    Args:
        layer: the layer that will contain the `Dropout`.
        broadcast_dims: as for `Dropout`.
    """
    return Dropout(layer.dropout_rate, broadcast_dims, name="dropout", dtype=layer.dtype_policy)
