"""T2T's Adam, and its variants with weight decay and with accumulated gradients."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_keras.optimizers import optimizer
from ut_keras.optimizers.optimizer import LearningRate


class _Shared:
    """The tensors that the variables of one update share.

    TensorFlow would save a dict that is an attribute of an optimizer, but not this object.
    """

    def __init__(self):
        self.powers = {}  # (dtype, device, id of the graph) -> (b1^t, b2^t)


@keras.saving.register_keras_serializable(package="ut_keras")
class Adam(optimizer.Optimizer):
    """Adam as in TensorFlow 1 and T2T: epsilon is outside the bias correction.

        m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2
        w -= lr sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps)     (t = 1 in the first update)

    `keras.optimizers.Adam` executes a dozen operations per variable. This class executes only one.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        beta_1: float. Decay of the first moment.
        beta_2: float. Decay of the second moment.
        epsilon: float. Added to the denominator.
        **kwargs: the arguments of `Optimizer`.

    Raises:
        ValueError: if a decay is 1 in the dtype of a weight, such as 0.999 in bfloat16.

    References: Kingma and Ba 2015, the formulation before section 2.1; `tf.train.AdamOptimizer`.
    """

    _shared: Any = None  # `_Shared` during `apply`
    t2t_slot_name = "Adam"
    slot_groups: tuple[dict[str, float], ...] = ({"momentum": 0.0, "velocity": 0.0},)

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.997,
        epsilon: float = 1e-9,
        name: str = "adam",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def build(self, variables: Sequence[keras.Variable]) -> None:
        for variable in variables:
            self._check_betas(variable)
        super().build(variables)

    def _check_betas(self, variable):
        """Check that both decays stay below 1 in the dtype of a weight.

        With a decay of 1, a moment or the bias correction would stay 0.
        """
        for name in ("beta_1", "beta_2"):
            beta = getattr(self, name)
            if tf.as_dtype(variable.dtype).as_numpy_dtype(beta) >= 1:
                raise ValueError(
                    f"{name} must be below 1 in the dtype of each weight. Received: {name}={beta}, "
                    f"which is 1 in {variable.dtype}, the dtype of {variable.path}. Use a layer "
                    "with the dtype policy mixed_bfloat16, whose weights are float32."
                )

    def apply(
        self, grads: Sequence[Any], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        self._shared = _Shared()
        try:
            super().apply(grads, trainable_variables)
        finally:
            self._shared = None  # the tensors would keep their graph in memory

    def _update(self, variable, gradient, learning_rate, slots):
        momentum, velocity, *_ = slots
        beta1_power, beta2_power = self._powers(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=momentum.handle,
            v=velocity.handle,
            beta1_power=beta1_power,
            beta2_power=beta2_power,
            lr=learning_rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )

    def _powers(self, variable):
        """Return b1^t and b2^t, which all variables of one device and graph share."""
        shared = self._shared
        if shared is None:
            return self._new_powers(variable.dtype)
        # A variable may be updated in a branch of `tf.cond`, which has its own graph.
        graph = id(tf.compat.v1.get_default_graph())
        key = (variable.dtype, variable.handle.device, graph)
        if key not in shared.powers:
            shared.powers[key] = self._new_powers(variable.dtype)
        return shared.powers[key]

    def _new_powers(self, dtype):
        t = tf.cast(self._num_updates(), dtype)
        return tuple(tf.pow(tf.cast(beta, dtype), t) for beta in (self.beta_1, self.beta_2))

    def _num_updates(self):
        """Return the number of updates, including the current one."""
        return self.iterations + 1


@keras.saving.register_keras_serializable(package="ut_keras")
class AdamW(Adam):
    """Adam that reduces all weights by a fixed fraction before each update.

        w -= decay * w,   then the update of Adam

    As in T2T, the decay applies to all weights, including biases, and does not depend on the
    learning rate.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        decay: float. Fraction by which every update reduces the weights.
        **kwargs: the arguments of `Adam`.

    References: Loshchilov and Hutter 2019; `tf.contrib.opt.AdamWOptimizer`.
    """

    t2t_slot_name = "AdamW"

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        decay: float = 0.0,
        name: str = "adam_w",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.decay = decay

    def _update(self, variable, gradient, learning_rate, slots):
        if self.decays_weight(variable):
            self.assign_sub(variable, self.decay * tf.convert_to_tensor(variable))
        super()._update(variable, gradient, learning_rate, slots)


@keras.saving.register_keras_serializable(package="ut_keras")
class MultistepAdam(Adam):
    """Adam that updates at every n-th call, with the mean of the last n gradients.

    `iterations` counts calls. Under two conditions, the update equals the update of Adam for one
    large batch that consists of the n batches. First, the learning rate does not depend on the
    step. Second, all n batches have the same number of target tokens. The loss of the large batch
    is then the mean of the n losses. As in T2T, clipping and noise apply to each of the n
    gradients.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        accumulate_steps: int n.
        **kwargs: the arguments of `Adam`.

    Raises:
        ValueError: if n < 1.

    References: Saunders et al. 2018; T2T `utils/multistep_optimizer.py`.
    """

    slot_groups = (*Adam.slot_groups, {"accumulated": 0.0})

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        accumulate_steps: int = 1,
        name: str = "multistep_adam",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        if accumulate_steps < 1:
            raise ValueError(
                "accumulate_steps must be at least 1. "
                f"Received: accumulate_steps={accumulate_steps}."
            )
        self.accumulate_steps = accumulate_steps

    def _update(self, variable, gradient, learning_rate, slots):
        accumulated, adam = slots[-1], super()._update

        def update():
            mean = (tf.convert_to_tensor(accumulated) + gradient) / self.accumulate_steps
            adam(variable, mean, learning_rate, slots)
            self.assign(accumulated, tf.zeros_like(gradient))
            return True

        def accumulate():
            self.assign_add(accumulated, gradient)
            return True

        is_last = tf.equal((self.iterations + 1) % self.accumulate_steps, 0)
        tf.cond(is_last, update, accumulate)

    def _num_updates(self):
        return (self.iterations + 1) // self.accumulate_steps
