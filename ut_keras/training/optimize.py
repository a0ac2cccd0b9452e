"""The optimizer that the hparams name, as a Keras optimizer.

    optimizer = optimize.get(hp, train_steps=250000)
    optimizer.apply(gradients, model.trainable_variables)

An optimizer here does three things that Keras' own do not: it clips by the global norm *after* the
gradients of all replicas were summed (Keras clips each replica's before), it knows T2T's weight
decay (an L2 loss, so it passes through the moments and the clipping), and it updates a variable by
one fused kernel. The rest of the library sees a plain `keras.Optimizer`.

To add an optimizer, subclass `Optimizer` and register a function (hp, schedule) -> optimizer.
"""

import keras
import tensorflow as tf

from ut_keras import registry
from ut_keras.training import learning_rate

_OPTIMIZERS = registry.Registry("optimizer")


def get(hp, train_steps=None):
    """Returns the Keras optimizer of `hp.optimizer`, with the hparams' learning rate schedule.

    Args:
        hp: `BasicHParams`.
        train_steps: int or None. Length of the run, which some schedules need.

    Raises:
        UnknownNameError: if there is no such optimizer.
    """
    make = _OPTIMIZERS.get(hp.optimizer)
    return make(hp, learning_rate.from_hparams(hp, train_steps))


def names():
    """Returns the names of all optimizers, sorted."""
    return _OPTIMIZERS.names()


class Optimizer(keras.optimizers.Optimizer):
    """What T2T does between the gradients and any optimizer's update.

        g = sum over replicas + l2_rate * variable,  then  g *= clip / max(clip, |g|)

    Args:
        learning_rate: float or `LearningRateSchedule`.
        clip_grad_norm: float. Bound on the norm of all gradients together; 0 = no bound.
        l2_rate: float. Weight decay as the gradient of l2_rate/2 * variable^2; 1-D variables whose
            name ends in "bias" are left out, as in T2T.
        name: str.
        **kwargs: those of `keras.optimizers.Optimizer`.
    """

    def __init__(self, learning_rate, clip_grad_norm=0.0, l2_rate=0.0, name=None, **kwargs):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.clip_grad_norm = clip_grad_norm
        self.l2_rate = l2_rate

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._is_decayed = [
            not (len(variable.shape) == 1 and variable.name.endswith("bias"))
            for variable in variables
        ]

    def _all_reduce_sum_gradients(self, grads_and_vars):
        # Keras calls this in each replica's context; what it returns goes to `update_step`.
        variables = [variable for _, variable in grads_and_vars]
        gradients = [_dense(gradient, variable) for gradient, variable in grads_and_vars]
        reduced = super()._all_reduce_sum_gradients(list(zip(gradients, variables, strict=True)))
        gradients = [gradient for gradient, _ in reduced]
        if self.l2_rate:
            gradients = [
                gradient + self.l2_rate * variable
                if self._is_decayed[self._get_variable_index(variable)]
                else gradient
                for gradient, variable in zip(gradients, variables, strict=True)
            ]
        if self.clip_grad_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_grad_norm)
        return list(zip(gradients, variables, strict=True))

    def get_config(self):
        config = super().get_config()
        config.update({"clip_grad_norm": self.clip_grad_norm, "l2_rate": self.l2_rate})
        return config


def _dense(gradient, variable):
    """A gather's gradient (rows and their indices) as a tensor of the variable's shape."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])


@keras.saving.register_keras_serializable(package="ut_keras")
class Adam(Optimizer):
    """Adam as TensorFlow 1 and T2T have it: epsilon stands outside the bias correction.

        m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2
        w -= lr sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps)         (t = 1 at first)

    `keras.optimizers.Adam` computes the same in a dozen operations per variable; this one in one.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        beta_1: float. Decay of the first moment.
        beta_2: float. Decay of the second moment.
        epsilon: float.
        name: str.
        **kwargs: those of `Optimizer`.

    References: Kingma and Ba 2015, the formulation before section 2.1; `tf.train.AdamOptimizer`.
    """

    def __init__(
        self, learning_rate=0.001, beta_1=0.9, beta_2=0.997, epsilon=1e-9, name="adam", **kwargs
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(
            variables, ["momentum", "velocity"]
        )

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        dtype = variable.dtype
        t = tf.cast(self.iterations + 1, dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].handle,
            v=self._velocities[index].handle,
            beta1_power=tf.pow(tf.cast(self.beta_1, dtype), t),
            beta2_power=tf.pow(tf.cast(self.beta_2, dtype), t),
            lr=tf.cast(learning_rate, dtype),
            beta1=tf.cast(self.beta_1, dtype),
            beta2=tf.cast(self.beta_2, dtype),
            epsilon=tf.cast(self.epsilon, dtype),
            grad=tf.cast(gradient, dtype),
        )

    def get_config(self):
        config = super().get_config()
        config.update(
            {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}
        )
        return config


# T2T's "adam" is LazyAdam, which leaves the moments of embedding rows that a batch does not use
# alone. With tied embeddings every row has a gradient, and both names mean the same.
@_OPTIMIZERS.register("adam")
@_OPTIMIZERS.register("true_adam")
def adam(hp, schedule):
    return Adam(
        learning_rate=schedule,
        beta_1=hp.optimizer_adam_beta1,
        beta_2=hp.optimizer_adam_beta2,
        epsilon=hp.optimizer_adam_epsilon,
        clip_grad_norm=hp.clip_grad_norm,
        l2_rate=hp.weight_decay,
    )
