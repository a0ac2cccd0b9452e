"""Adafactor, which stores second moments of matrices as row and column means."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras.optimizers import optimizer
from ut_keras.optimizers.optimizer import LearningRate

_EPSILON = 1e-30  # this term keeps the second moments above 0
_MIN_SCALE = 1e-3  # this lower bound lets weights move away from 0


@keras.saving.register_keras_serializable(package="ut_keras")
class Adafactor(optimizer.Optimizer):
    """Adafactor as in T2T.

        r = d r + (1 - d) rowmean(g^2),   c = d c + (1 - d) columnmean(g^2)
        u = g / sqrt(r c / mean(r)),      u = u / max(1, rms(u) / threshold)
        w -= lr max(0.001, rms(w)) u

    A variable with two or more dimensions is a collection of matrices, formed by its last two
    dimensions. Variables with one dimension, such as biases and scales, keep their full second
    moments.

    This class does not use `keras.optimizers.Adafactor`. That optimizer always limits the learning
    rate to 1/sqrt(t), and always multiplies it by the scale of the weights.

    T2T divides an embedding table into shards. Each shard is a variable with its own scale,
    threshold and column means. In ut_keras, the table is one variable. The argument `table_shards`
    makes the update equal to T2T's update.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        beta_1: float. Decay of the moving mean of the updates. With 0, the optimizer applies the
            updates directly, and needs no memory for their mean.
        decay_type: "pow" or "adam". "pow": d = 1 - t^-memory_exponent. "adam": d is Adam's b2 with
            bias correction.
        beta_2: float. b2 of decay_type "adam".
        memory_exponent: float. Exponent of decay_type "pow".
        clipping_threshold: float, or None. Upper bound of the root mean square of a variable's u.
            None means no bound.
        factored: bool. False keeps the full second moments of all variables.
        multiply_by_parameter_scale: bool. Whether the learning rate is relative to the scale of the
            weights.
        table_shards: int. Number of shards into which T2T divides variables named "weights".
        **kwargs: the arguments of `Optimizer`.

    Raises:
        ValueError: for an unknown decay_type.

    References: Shazeer and Stern 2018; T2T `utils/adafactor.py`.
    """

    t2t_slot_name = "Adafactor"

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        beta_1: float = 0.0,
        decay_type: str = "pow",
        beta_2: float = 0.999,
        memory_exponent: float = 0.8,
        clipping_threshold: float | None = 1.0,
        factored: bool = True,
        multiply_by_parameter_scale: bool = True,
        table_shards: int = 1,
        name: str = "adafactor",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        if decay_type not in ("pow", "adam"):
            raise ValueError(f"decay_type must be 'pow' or 'adam'. Received: {decay_type!r}.")
        self.beta_1 = beta_1
        self.decay_type = decay_type
        self.beta_2 = beta_2
        self.memory_exponent = memory_exponent
        self.clipping_threshold = clipping_threshold
        self.factored = factored
        self.multiply_by_parameter_scale = multiply_by_parameter_scale
        self.table_shards = table_shards

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._shardings = [self._make_sharding(variable) for variable in variables]
        if self.beta_1:
            self._slots_by_name.append(self.add_optimizer_variables(variables, "momentum"))
        self._moments = list(map(self._add_moments, variables, self._shardings))

    def _slots_of(self, variable):
        return super()._slots_of(variable) + self._moments[self.index_of(variable)]

    def _make_sharding(self, variable):
        is_table = variable.name == "weights" and len(variable.shape) == 2
        if is_table and self.table_shards > 1:
            return _Sharded(variable.shape[0], self.table_shards)
        return _Unsharded()

    def _add_moments(self, variable, parts):
        shape, path = tuple(variable.shape), variable.path.replace("/", "_")
        shapes = {"velocity": shape}
        if self.factored and len(shape) > 1:
            columns = (*parts.column_axes(shape[:-2]), shape[-1])
            shapes = {"row_velocity": shape[:-1], "column_velocity": columns}
        with self.own_strategy.extended.colocate_vars_with(variable.value):
            return [
                self.add_variable(shape=shape, dtype=variable.dtype, name=f"{path}_{name}")
                for name, shape in shapes.items()
            ]

    def _update(self, variable, gradient, learning_rate, slots):
        parts = self._shardings[self.index_of(variable)]
        mean, *moments = slots if self.beta_1 else [None, *slots]
        decay = tf.cast(self._decay(), variable.dtype)

        gradients = parts.split(gradient)
        old_moments = [parts.split(moments[0]), *map(parts.split_columns, moments[1:])]
        updates, new_moments = [], []
        for part, value, *old in zip(gradients, parts.split(variable), *old_moments, strict=True):
            direction, new = _direction(part, old, decay)
            if self.clipping_threshold is not None:
                rms = _rms(direction, parts.axes)
                direction /= tf.maximum(1.0, rms / self.clipping_threshold)
            rate = learning_rate
            if self.multiply_by_parameter_scale:
                rate *= tf.maximum(_rms(value, parts.axes), _MIN_SCALE)
            updates.append(rate * direction)
            new_moments.append(new)
        rows, *columns = zip(*new_moments, strict=True)
        self.assign(moments[0], parts.join(rows))
        for moment, new in zip(moments[1:], columns, strict=True):
            self.assign(moment, parts.join_columns(new))
        update = parts.join(updates)

        if mean is not None:
            update = self.beta_1 * tf.convert_to_tensor(mean) + (1.0 - self.beta_1) * update
            self.assign(mean, update)
        self.assign_sub(variable, update)

    def _decay(self):
        """Return d of this update. In the first update, d is 0."""
        t = tf.cast(self.iterations + 1, tf.float32)
        if self.decay_type == "pow":
            return 1.0 - tf.pow(t, -self.memory_exponent)
        return self.beta_2 * (1.0 - tf.pow(self.beta_2, t - 1.0)) / (1.0 - tf.pow(self.beta_2, t))


def _direction(gradient, moments, decay):
    """Return the gradient over the root of its second moments, and the new moments."""
    square = tf.square(gradient) + _EPSILON
    if len(moments) == 1:
        velocity = decay * moments[0] + (1.0 - decay) * square
        return gradient * tf.math.rsqrt(velocity), [velocity]
    row = decay * moments[0] + (1.0 - decay) * tf.reduce_mean(square, -1)
    column = decay * moments[1] + (1.0 - decay) * tf.reduce_mean(square, -2)
    row_factor = tf.math.rsqrt(row / tf.reduce_mean(row, -1, keepdims=True))[..., tf.newaxis]
    column_factor = tf.math.rsqrt(column)[..., tf.newaxis, :]
    return gradient * row_factor * column_factor, [row, column]


class _Unsharded:
    """The layout of a variable that T2T does not divide into shards."""

    axes = None  # the axes over which a root mean square is computed. None: all axes.

    def column_axes(self, axes):
        return axes

    def split(self, x):
        return [tf.convert_to_tensor(x)]

    def join(self, parts):
        return parts[0]

    split_columns = split
    join_columns = join


class _Sharded:
    """The layout of a table [V, D] as at most two stacks of shards, [S, rows, D].

    The numbers of rows of two shards differ by at most one. The shards with the same number of rows
    form a stack.

    Args:
        vocab_size: int V.
        shards: int. If there are more shards than rows, T2T's last shards are empty. This class
            omits the empty shards.
    """

    axes = (1, 2)

    def __init__(self, vocab_size, shards):
        shards = min(vocab_size, shards)
        rows, longer = divmod(vocab_size, shards)
        stacks = ((longer, rows + 1), (shards - longer, rows))
        self._stacks = [(count, size) for count, size in stacks if count]
        self._shards = shards

    def column_axes(self, axes):
        return (*axes, self._shards)

    def split(self, x):
        """Split [V, ...] into one [S, rows, ...] per stack."""
        pieces = tf.split(x, [math.prod(stack) for stack in self._stacks])
        return [
            tf.reshape(piece, [*stack, *piece.shape[1:]])
            for piece, stack in zip(pieces, self._stacks, strict=True)
        ]

    def join(self, parts):
        flat = [tf.reshape(part, [math.prod(part.shape[:2]), *part.shape[2:]]) for part in parts]
        return tf.concat(flat, axis=0)

    def split_columns(self, x):
        """Split [shards, D] into one [S, D] per stack."""
        return tf.split(x, [count for count, _ in self._stacks])

    def join_columns(self, parts):
        return tf.concat(parts, axis=0)


def _rms(x, axes):
    return tf.sqrt(tf.reduce_mean(tf.square(x), axes, keepdims=axes is not None))
