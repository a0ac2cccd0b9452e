"""The base class of the optimizers, which processes gradients before the update.

The base class differs from Keras' optimizers in two points:

- It processes the gradients *after* they were summed over all replicas. Keras instead clips the
  gradients of each replica before the sum.
- It supports T2T's weight decay. This decay is an L2 loss, so the optimizer clips its gradient and
  adds it to the moments, like the gradient of the other losses.

Other code can use the optimizers like any `keras.Optimizer`.
"""

import inspect
import random
import re
from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import keras
import tensorflow as tf

from ut_keras.ops import gather, private_api

_EXCLUDED = "excluded_from_weight_decay"  # the key in the config

LearningRate: TypeAlias = float | keras.optimizers.schedules.LearningRateSchedule


class Optimizer(private_api.GradientHook):
    """Processes gradients as T2T does before the update of any optimizer.

        g = sum over replicas + l2_rate * variable + noise,   then   g *= clip / max(clip, |g|)

    Args:
        learning_rate: float or `LearningRateSchedule`.
        clip_grad_norm: float. Upper bound of the norm of all gradients together. 0 means no bound.
        l2_rate: float. The rate of the weight decay, which is the gradient of
            l2_rate/2 * variable^2. As in T2T, the decay excludes 1-D variables whose name ends in
            "bias".
        grad_noise_scale: float. Scale of the noise, which has a normal distribution truncated at
            two standard deviations.
        zero_grads: bool. Whether a variable without a gradient gets the gradient 0, so that its
            moments decay. If False, the update skips the variable.
        **kwargs: the arguments of `keras.optimizers.Optimizer`.

    References: T2T `utils/optimize.py`; `tf.contrib.layers.optimize_loss`.
    """

    # NAME in the names of the slots in T2T's checkpoints: VARIABLE/NAME, VARIABLE/NAME_1, ...
    t2t_slot_name: str | None = None
    # The slots, such as moments, that the optimizer stores for every weight. Each dict maps the
    # name of a slot to its initial value. For each dict, `build` goes through the weights in order.
    # It creates all slots of the dict for a weight before it goes to the next weight.
    slot_groups: tuple[dict[str, float], ...] = ()
    _excluded: tuple[str, ...] = ()  # see `exclude_from_weight_decay`

    def __init__(
        self,
        learning_rate: LearningRate,
        clip_grad_norm: float = 0.0,
        l2_rate: float = 0.0,
        grad_noise_scale: float = 0.0,
        zero_grads: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.clip_grad_norm = clip_grad_norm
        self.l2_rate = l2_rate
        self.grad_noise_scale = grad_noise_scale
        self.zero_grads = zero_grads

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._is_decayed = [self._decays(variable) for variable in variables]
        if self.grad_noise_scale:
            # The seed is a variable, so that a resumed run samples the same noise.
            self._noise_seed = self.add_variable(
                shape=(),
                initializer=keras.initializers.Constant(random.randint(0, 2**30)),
                dtype="int32",
                name="noise_seed",
            )
        # One list per slot name. Each list has the order of the variables.
        self._slots_by_name: list[Any] = []
        for initial_values in self.slot_groups:
            initial = [keras.initializers.Constant(value) for value in initial_values.values()]
            self._slots_by_name += self.add_optimizer_variables(
                variables, list(initial_values), initial
            )

    def slots(self) -> dict[str, list]:
        """Return the slots of every variable by the variable's path, in T2T's order."""
        return {variable.path: self._slots_of(variable) for variable in self.updated_variables}

    def _slots_of(self, variable):
        """Return the slots of a variable."""
        index = self.index_of(variable)
        return [slots[index] for slots in self._slots_by_name]

    @keras.optimizers.Optimizer.learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        # Callbacks such as LearningRateScheduler and ReduceLROnPlateau set the learning rate.
        if not callable(value):
            check_has_no_schedule(self)
        keras.optimizers.Optimizer.learning_rate.fset(self, value)

    def apply(
        self, grads: Sequence[Any], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        variables = trainable_variables
        if variables is None:
            variables = self.updated_variables
        # With weight decay, a variable without a gradient still gets the gradient of the L2 loss.
        filled = [
            tf.zeros(variable.shape, variable.dtype)
            if gradient is None and (self.zero_grads or (self.l2_rate and self._decays(variable)))
            else gradient
            for gradient, variable in zip(grads, variables, strict=True)
        ]
        super().apply(filled, trainable_variables)

    def process_gradients(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        variables = [variable for _, variable in pairs]
        gradients = [dense_gradient(gradient, variable) for gradient, variable in pairs]
        if tf.distribute.get_strategy().num_replicas_in_sync > 1:
            # A single replica does not need the sum. There, computing the sum would leak memory,
            # because TensorFlow permanently stores a gradient function of the sum, which keeps the
            # graph in memory.
            pairs = list(zip(gradients, variables, strict=True))
            gradients = [gradient for gradient, _ in self.sum_over_replicas(pairs)]
        for index, variable in enumerate(variables):
            if self.l2_rate and self._is_decayed[self.index_of(variable)]:
                gradients[index] += self.l2_rate * variable
            if self.grad_noise_scale:
                gradients[index] += self.grad_noise_scale * self._noise(variable)
        if self.clip_grad_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_grad_norm)
        return list(zip(gradients, variables, strict=True))

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        dtype, slots = variable.dtype, self._slots_of(variable)
        self._update(variable, tf.cast(gradient, dtype), tf.cast(learning_rate, dtype), slots)

    def _update(self, variable, gradient, learning_rate, slots):
        """Apply the update rule of the class to a variable and its `slots`."""
        raise NotImplementedError

    def _decays(self, variable):
        """Return whether the L2 loss includes a variable.

        The method `exclude_from_weight_decay` can exclude further variables.
        """
        if len(variable.shape) == 1 and variable.name.endswith("bias"):
            return False
        # Keras compares the excluded names with the name of the TensorFlow variable, which equals
        # the path of the Keras variable.
        in_keras = isinstance(variable, keras.Variable)
        return self.decays_weight(variable.value if in_keras else variable)

    def exclude_from_weight_decay(
        self,
        var_list: Sequence[keras.Variable] | None = None,
        var_names: Sequence[str] | None = None,
    ) -> None:
        """Exclude variables from weight decay, also in copies and files of the optimizer.

        Keras does not store the exclusions in the config. So without this method, a loaded
        optimizer would also decay the excluded variables.

        Args:
            var_list: list of variables. Optional.
            var_names: list of regular expressions, which Keras searches in the paths of the
                variables. Optional.
        """
        super().exclude_from_weight_decay(var_list, var_names)
        paths = []
        for variable in var_list or ():
            # In a loaded `Sequential`, the paths do not begin with the name of the model.
            first, _, rest = variable.path.partition("/")
            path = f"({re.escape(first)}/)?{re.escape(rest)}" if rest else re.escape(first)
            paths.append(f"^{path}(:0)?$")
        self._excluded = (*(var_names or ()), *paths)

    def _noise(self, variable):
        """Return the noise of a variable.

        The noise depends only on the variable and the step, so it is the same on all replicas.
        """
        seed = tf.convert_to_tensor(self._noise_seed) + self.index_of(variable)
        step = tf.cast(self.iterations, tf.int32)
        return tf.random.stateless_truncated_normal(
            variable.shape, tf.stack([seed, step]), dtype=variable.dtype
        )

    def get_config(self) -> dict[str, Any]:
        """Return the config, which contains each argument of `__init__`.

        Each argument must be an attribute of the same name. The config also contains the
        patterns for the variables that `exclude_from_weight_decay` excluded.
        """
        config = super().get_config()
        own_classes = [cls for cls in type(self).__mro__ if issubclass(cls, Optimizer)]
        names = [name for cls in own_classes for name in inspect.signature(cls.__init__).parameters]
        config |= {
            name: getattr(self, name)
            for name in names
            if name not in config and hasattr(self, name)
        }
        if self._excluded:
            config[_EXCLUDED] = list(self._excluded)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        arguments = {name: value for name, value in config.items() if name != _EXCLUDED}
        optimizer = super().from_config(arguments, custom_objects)
        if names := config.get(_EXCLUDED):
            optimizer.exclude_from_weight_decay(var_names=names)
        return optimizer


def weight_optimizers(optimizer: keras.optimizers.Optimizer) -> list[keras.optimizers.Optimizer]:
    """Return the optimizers that update weights.

    These are the optimizers inside a `LossScaleOptimizer` or a `MultiOptimizer`, or otherwise the
    optimizer itself.
    """
    inner = getattr(optimizer, "inner_optimizer", None)
    if inner is not None:
        return weight_optimizers(inner)
    return list(getattr(optimizer, "optimizers", ())) or [optimizer]


def check_has_no_schedule(optimizer: keras.optimizers.Optimizer) -> None:
    """Check that a number can replace the learning rate of an optimizer.

    Args:
        optimizer: one of `weight_optimizers`.

    Raises:
        TypeError: if the optimizer has a schedule.
    """
    if callable(private_api.rate_or_schedule(optimizer)):
        raise TypeError(
            "A learning rate that callbacks set requires an optimizer without a schedule: "
            "from ut_keras import optimizers; model.compile(optimizer=optimizers.get("
            "model.hparams, learning_rate=0.001)). Received: an optimizer with a schedule, "
            "which determines the learning rate of every step."
        )


def dense_gradient(gradient: Any, variable: keras.Variable) -> Any:
    """Convert the gradient of a gather to a tensor of the variable's shape.

    The gradient of a gather has one row for each id. Clipping needs the sum of the rows of equal
    ids, and so does each optimizer that squares the gradient.

    Returns:
        Tensor, or None if `gradient` is None.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return gather.sum_rows(gradient.values, gradient.indices, variable.shape[0])
