"""Gradient descent and its simple relatives, as TensorFlow 1 has them; a fused kernel each."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras.optimizers import optimizer
from ut_keras.optimizers.optimizer import LearningRate


@keras.saving.register_keras_serializable(package="ut_keras")
class GradientDescent(optimizer.Optimizer):
    """w -= lr g"""

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle,
            alpha=tf.cast(learning_rate, variable.dtype),
            delta=tf.cast(gradient, variable.dtype),
        )


@keras.saving.register_keras_serializable(package="ut_keras")
class Momentum(optimizer.Optimizer):
    """m = momentum m + g,   w -= lr m;   with Nesterov's momentum   w -= lr (g + momentum m)

    Args:
        momentum: float.
        nesterov: bool.
        **kwargs: those of `Optimizer`.
    """

    t2t_slot_name = "Momentum"
    options = ("momentum", "nesterov")
    statistics = {"momentum": 0.0}

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        momentum: float = 0.9,
        nesterov: bool = False,
        name: str = "momentum",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.momentum = momentum
        self.nesterov = nesterov

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        dtype = variable.dtype
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=self._kept(variable)[0].handle,
            lr=tf.cast(learning_rate, dtype),
            grad=tf.cast(gradient, dtype),
            momentum=tf.cast(self.momentum, dtype),
            use_nesterov=self.nesterov,
        )


@keras.saving.register_keras_serializable(package="ut_keras")
class Adagrad(optimizer.Optimizer):
    """v += g^2,   w -= lr g / sqrt(v);   v starts at 0.1"""

    t2t_slot_name = "Adagrad"
    statistics = {"accumulator": 0.1}

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        tf.raw_ops.ResourceApplyAdagrad(
            var=variable.handle,
            accum=self._kept(variable)[0].handle,
            lr=tf.cast(learning_rate, variable.dtype),
            grad=tf.cast(gradient, variable.dtype),
        )


@keras.saving.register_keras_serializable(package="ut_keras")
class RMSProp(optimizer.Optimizer):
    """v = 0.9 v + 0.1 g^2,   w -= lr g / sqrt(v + 1e-10);   v starts at 1"""

    t2t_slot_name = "RMSProp"
    statistics = {"velocity": 1.0}

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        # The kernel wants it, and T2T has it, though hparams cannot give RMSProp a momentum.
        self._statistics.append(self.add_optimizer_variables(variables, "momentum"))

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        dtype = variable.dtype
        velocity, momentum = self._kept(variable)
        tf.raw_ops.ResourceApplyRMSProp(
            var=variable.handle,
            ms=velocity.handle,
            mom=momentum.handle,
            lr=tf.cast(learning_rate, dtype),
            rho=tf.cast(0.9, dtype),
            momentum=tf.cast(0.0, dtype),
            epsilon=tf.cast(1e-10, dtype),
            grad=tf.cast(gradient, dtype),
        )
