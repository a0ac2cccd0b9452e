"""All private interfaces of TensorFlow and Keras that this library uses.

Everything else in `ut_keras` uses public interfaces. Each entry here names:

- the promise to users that requires the private interface,
- the public alternative that we tried,
- the test that fails without the entry.

Check this file before you allow a new version of TensorFlow or Keras. We checked it with TensorFlow
2.19 to 2.21 and Keras 3.15.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common.symbolic_scope import in_symbolic_scope
from keras.src.backend.common.variables import AutocastScope
from tensorflow.python.eager import context, record
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_util

# TensorFlow

_IS_COMPILED = contextvars.ContextVar[bool | None]("is_compiled", default=None)


def is_compiled_by_xla() -> bool:
    """Return whether XLA will compile the operations that are traced now.

    Promise: several layers have one form that is fast under XLA, and one that is fast without XLA.
    Examples are dropout, attention and the depthwise convolution. Public alternative: no public
    function returns this information. A flag of the model would have to reach every layer, and a
    caller's own `tf.function(jit_compile=True)` would not set this flag.
    Test: `tests/layers/transition/separable_convolution_test.py`.
    """
    is_compiled = _IS_COMPILED.get()
    if is_compiled is not None:
        return is_compiled
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


@contextlib.contextmanager
def compiled_by_xla(is_compiled: bool) -> Iterator[None]:
    """Set the result of `is_compiled_by_xla` in this context.

    XLA also compiles the gradient of a function that it compiles. But TensorFlow may trace this
    gradient outside of the function, and `is_compiled_by_xla` would then return False. Therefore
    `custom_gradient.wrap` traces each gradient with the result of its forward pass.
    """
    before = _IS_COMPILED.set(is_compiled)
    try:
        yield
    finally:
        _IS_COMPILED.reset(before)


def may_record_gradients() -> bool:
    """Return whether a gradient tape could record the current operations.

    Promise: inference skips halted positions with operations that have no gradient, and a caller's
    own `tf.GradientTape` still gets correct gradients. Public alternative: none. The argument
    `training` is not sufficient, because a caller may compute gradients in inference mode.
    Test: `tests/layers/depth/act_skipping_test.py`.
    """
    return record.could_possibly_record()


def stop_recording() -> contextlib.AbstractContextManager[None]:
    """Return a context in which no gradient tape records operations.

    Promise: a step that is recomputed or has no gradient keeps no intermediate tensors, also in
    eager mode. Public alternative: `GradientTape.stop_recording` requires the tape, which the
    caller of the model owns.
    Test: `tests/layers/depth/recompute_test.py`.
    """
    return record.stop_recording()


def has_random_seed() -> bool:
    """Return whether `keras.utils.set_random_seed` or `tf.random.set_seed` was called.

    Promise: `fit` logs that the epochs have the same order. Public alternative:
    `tf.compat.v1.random.get_seed` returns the seed, but it also changes later random numbers.
    Test: `tests/models/epoch_order_test.py`.
    """
    return context.global_seed() is not None


def limit_gpu_memory(fraction: float) -> None:
    """Limit the share of each GPU's memory that TensorFlow allocates.

    Promise: `--worker_gpu_memory_fraction` limits the memory that TensorFlow allocates as needed.
    Public alternative: `LogicalDeviceConfiguration(memory_limit=…)` takes a number of megabytes.
    No public function returns the memory of a GPU, and TensorFlow rejects the combination with
    `set_memory_growth`. Test: `tests/ops/private_api_test.py`.

    Raises:
        RuntimeError: if TensorFlow's runtime has already started.
    """
    eager_context = context.context()
    if eager_context._context_handle is not None:
        raise RuntimeError("The limit must be set before TensorFlow's runtime starts.")
    config = eager_context._config or tf.compat.v1.ConfigProto()
    config.gpu_options.per_process_gpu_memory_fraction = fraction
    eager_context._config = config


def gradient_registry() -> MutableMapping[str, Any]:
    """Return TensorFlow's table from the name of a custom gradient to its entry.

    Promise: a graph with custom gradients is freed with its model. Public alternative: none.
    `tf.custom_gradient` adds an entry to this table on every call in a graph, and no public
    function removes an entry. Test: `tests/ops/custom_gradient_test.py`.
    """
    return ops.gradient_registry._registry


# Keras layers and models


def uncast_value(variable: keras.Variable) -> Any:
    """Return the value of a variable in the variable's own dtype.

    Promise: under the policy mixed_bfloat16, layers that compute in float32 get exact weights when
    steps are recomputed. Public alternative: Keras casts `variable.value` in a call of a layer with
    this policy, and a cast back to float32 cannot restore the lost bits.
    Test: `tests/layers/depth/recompute_test.py`.
    """
    with AutocastScope(None):
        return variable.value


def assign(variable: keras.Variable, value: Any) -> None:
    """Set the value of a variable, also inside a `keras.StatelessScope`.

    Promise: in a search with bfloat16, layers sample new random numbers in each iteration. Public
    alternative: inside a `keras.StatelessScope`, `variable.assign` only records the new value, and
    a loop cannot pass this value out of its body.
    Test: `tests/ops/cast_once_test.py`.
    """
    variable._direct_assign(value)


def is_shape_inference() -> bool:
    """Return whether Keras runs a call only to compute the shapes of its results.

    Promise: a user's `keras.Model` that contains layers of ut_keras can be loaded from a file. To
    build such a model, Keras calls it with floats, because the file contains no dtypes. Public
    alternative: none. The layers would have to accept floats in every call.
    Test: `tests/layers/basic/embedding_test.py`.
    """
    return in_symbolic_scope()


def flatten_layers(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """Iterate over a layer and all layers inside it.

    Promise: a call of a layer checks the width of the attention inside the layer, and frozen layers
    stay frozen in files. Public alternative: `Model.layers` has only the first level of sublayers,
    and `Layer` has no public list of sublayers.
    Tests: `tests/layers/depth/state_layer_test.py`, `tests/models/frozen_layers_test.py`.
    """
    return layer._flatten_layers()


def sublayers(layer: keras.layers.Layer) -> Sequence[keras.layers.Layer]:
    """Return the layers of the first level inside a layer.

    Promise: as for `set_own_trainable` and `BuildHook`. Public alternative: `Model.layers` works
    only for models.
    Test: `tests/models/frozen_layers_test.py`.
    """
    return layer._layers


def set_own_trainable(layer: keras.layers.Layer, value: bool) -> None:
    """Set `trainable` of a layer and its own weights, without its sublayers.

    Promise: `model.trainable = True` unfreezes all parts, and visits each part once. Public
    alternative: an assignment to `trainable` visits all parts inside the layer. A loop over all
    layers would then take a time that doubles with each level of layers.
    Test: `tests/models/frozen_layers_test.py`.
    """
    layer._trainable = value
    for weight in layer._trainable_variables:
        weight.trainable = value


def attributes(layer: keras.layers.Layer) -> dict[str, Any]:
    """Return the attributes of a layer, without Keras' own list of its sublayers.

    This list also contains layers whose attribute has another value now.

    Promise: `with_steps` works after a layer attribute was replaced, as in a notebook cell that
    runs again. Public alternative: `Model.layers` also contains the replaced layers.
    Test: `tests/models/with_steps_test.py`.
    """
    return {name: value for name, value in vars(layer).items() if name != "_layers"}


def clear_losses(layer: keras.layers.Layer) -> None:
    """Remove the losses that earlier calls of a layer have added.

    Promise: a call of a layer before `fit` does not change the loss of `fit`. Public alternative:
    Keras removes these losses when a model is called, but the `fit` of ut_keras calls `forward`.
    Test: `tests/models/fit_test.py`.
    """
    layer._clear_losses()


def compile_arguments(model: keras.Model) -> dict[str, Any]:
    """Return the arguments with which a model was compiled, without copying them.

    Promise: `with_steps` returns a model that shares optimizer and metrics with the original.
    Public alternative: `get_compile_config` returns the configs of optimizer and metrics. Objects
    made from these configs do not have the state of the originals.
    Test: `tests/models/with_steps_test.py`.
    """
    return model._compile_config.config


def train_function_of(model: keras.Model, train_step: Callable[[Any], Any]) -> Any:
    """Return a train function that calls the given function as its train step.

    Promise: `fit` applies `class_weight` to each token, also if a subclass overrides `train_step`.
    Public alternative: Keras' `make_train_function` always calls the method `train_step`. To add
    the class weights, ut_keras would have to replace this method of the model.
    Test: `tests/models/sample_weight_test.py`.
    """
    return model._make_function(train_step)


def set_loss_tracker(model: keras.Model, tracker: keras.metrics.Metric) -> None:
    """Set the metric that `fit` resets and shows as "loss".

    Promise: `fit` shows a loss in which batches are weighted by their number of tokens. Public
    alternative: a metric with another name, but Keras would still show its own mean over batches.
    The metric is not set as an attribute, because Keras would then list it a second time.
    Test: `tests/models/fit_test.py`.
    """
    model.__dict__["_loss_tracker"] = tracker


def loss_tracker(model: keras.Model) -> Any:
    """Return the metric that `set_loss_tracker` set."""
    return model._loss_tracker


def forget_restored_epoch(model: keras.Model) -> None:
    """Let the next `fit` begin at its own `initial_epoch`.

    Promise: if `BackupAndRestore` resumed one call of `fit`, the next call trains all its epochs.
    Public alternative: none. Keras stores the epoch in the model and never removes it, so every
    later `fit` of the model skips the epochs before it.
    Test: `tests/models/fit_test.py`.
    """
    model._initial_epoch = None


class BuildHook(keras.layers.Layer):
    """A layer with a method that runs after `build`.

    Promise: `trainable=False` also freezes the sublayers that `build` makes. Public alternative:
    every `build` method, also in users' subclasses, would have to end with the same call.
    Test: `tests/models/frozen_layers_test.py`.
    """

    def _post_build(self) -> None:
        super()._post_build()
        self.after_build()

    def after_build(self) -> None:
        """Do nothing. Subclasses override this hook, which runs after the layer was built."""


class ReplicaModel(keras.Model):
    """A model that `fit` can build from replicas with unequal numbers of examples.

    Keras concatenates the replicas' parts of the first batch to get its shape. This concatenation
    fails if the parts are unequal, so this class passes only the part of the first replica.

    Promise: `fit` works under `MirroredStrategy` with a last batch of any size. Public
    alternative: the caller could build the model before `fit`, but Keras would still concatenate
    the parts.
    Test: `tests/training/fit_two_replicas_test.py`.
    """

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self.distribute_strategy
        if iterator is not None and strategy.num_replicas_in_sync > 1:
            # The tuple has two elements before Keras 3.15, and three elements since Keras 3.15.
            *_, batches = next(iter(iterator))
            data_batch = keras.tree.map_structure(
                lambda x: strategy.experimental_local_results(x)[0], next(batches)
            )
            iterator = None
        super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)


# Keras optimizers


def rate_or_schedule(optimizer: keras.optimizers.Optimizer) -> Any:
    """Return the learning rate of an optimizer: a variable or a schedule.

    Promise: `fit` uses a schedule that the user assigns between two calls of `fit`. If a callback
    sets the learning rate, an error names the schedule. Public alternative:
    `optimizer.learning_rate` returns only the schedule's value at the current step.
    Tests: `tests/models/fit_test.py`.
    """
    return optimizer._learning_rate


class GradientHook(keras.optimizers.Optimizer):
    """An optimizer with a hook between summing gradients over replicas and the update.

    Promise: clipping and weight decay use the gradients of the global batch. Public alternative:
    Keras clips the gradients of each replica before it sums them, and has no hook between the sum
    and the update.
    Tests: `tests/optimizers/optimizer_test.py`, `tests/training/distribution_test.py`.
    """

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> list[tuple[Any, Any]]:
        # Keras calls this method in each replica's context and passes the result to `update_step`.
        return self.process_gradients(list(grads_and_vars))

    def process_gradients(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Sum the gradients over replicas. Subclasses also change the sums.

        Args:
            pairs: list of (gradient, variable) of one replica.

        Returns:
            list of (gradient, variable).
        """
        return self.sum_over_replicas(pairs)

    def sum_over_replicas(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Return (gradient summed over all replicas, variable) for each pair."""
        return super()._all_reduce_sum_gradients(pairs)

    @property
    def updated_variables(self) -> Sequence[keras.Variable]:
        """The variables for which this optimizer was built, in the order of `build`.

        Public alternative: `optimizer.variables` contains only the optimizer's own variables.
        """
        return self._trainable_variables

    def index_of(self, variable: Any) -> int:
        """Return the position of a variable in `updated_variables`."""
        return self._get_variable_index(variable)

    def decays_weight(self, variable: Any) -> bool:
        """Return whether weight decay applies to a variable.

        The method `exclude_from_weight_decay` excludes variables.
        """
        return self._use_weight_decay(variable)

    @property
    def own_strategy(self) -> tf.distribute.Strategy:
        """The strategy in whose scope this optimizer was created."""
        return self._distribution_strategy
