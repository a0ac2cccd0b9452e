"""Gradient descent, Momentum, Adagrad and RMSProp as in TensorFlow 1.

Each update is one fused kernel.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.optimizers import optimizer
from ut_keras.optimizers.optimizer import LearningRate


@keras.saving.register_keras_serializable(package="ut_keras")
class GradientDescent(optimizer.Optimizer):
    """Gradient descent: w -= lr g."""

    def _update(self, variable, gradient, learning_rate, slots):
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=learning_rate, delta=gradient
        )


@keras.saving.register_keras_serializable(package="ut_keras")
class Momentum(optimizer.Optimizer):
    """Gradient descent with momentum.

        m = momentum m + g,   w -= lr m;   with Nesterov's momentum   w -= lr (g + momentum m)

    Args:
        learning_rate: float or `LearningRateSchedule`.
        momentum: float.
        nesterov: bool. Whether the update uses Nesterov's momentum.
        **kwargs: the arguments of `Optimizer`.
    """

    t2t_slot_name = "Momentum"
    slot_groups = ({"momentum": 0.0},)

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

    def _update(self, variable, gradient, learning_rate, slots):
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=slots[0].handle,
            lr=learning_rate,
            grad=gradient,
            momentum=self.momentum,
            use_nesterov=self.nesterov,
        )


@keras.saving.register_keras_serializable(package="ut_keras")
class Adagrad(optimizer.Optimizer):
    """Adagrad: v += g^2, w -= lr g / sqrt(v). The initial value of v is 0.1."""

    t2t_slot_name = "Adagrad"
    slot_groups = ({"accumulator": 0.1},)

    def _update(self, variable, gradient, learning_rate, slots):
        tf.raw_ops.ResourceApplyAdagrad(
            var=variable.handle, accum=slots[0].handle, lr=learning_rate, grad=gradient
        )


@keras.saving.register_keras_serializable(package="ut_keras")
class RMSProp(optimizer.Optimizer):
    """RMSProp: v = 0.9 v + 0.1 g^2, w -= lr g / sqrt(v + 1e-10). Initially, v is 1."""

    t2t_slot_name = "RMSProp"
    # The kernel requires a momentum variable. T2T's checkpoints also contain this variable,
    # although no hparam sets the momentum coefficient, which is 0.
    slot_groups = ({"velocity": 1.0}, {"momentum": 0.0})

    def _update(self, variable, gradient, learning_rate, slots):
        velocity, momentum = slots
        tf.raw_ops.ResourceApplyRMSProp(
            var=variable.handle,
            ms=velocity.handle,
            mom=momentum.handle,
            lr=learning_rate,
            rho=0.9,
            momentum=0.0,
            epsilon=1e-10,
            grad=gradient,
        )
