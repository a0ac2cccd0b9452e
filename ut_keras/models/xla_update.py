"""Decides how XLA compiles the update of a model in `fit`, and its evaluation.

    compile(jit_compile=…)   one replica        several replicas
    False                    WITHOUT_XLA        WITHOUT_XLA
    True                     ONE_PROGRAM        EACH_REPLICA
    "auto"                   the update: as True if `suits_update` selects XLA, otherwise as False
                             the evaluation: as False, because its data may have any shapes

With "auto", Keras' attribute `model.jit_compile` is False. Each call of `fit` stores the result of
`suits_update` in `model.auto_uses_xla`. If XLA then cannot compile the update,
`TrainFunctionWithFallback` continues without XLA, and later calls of `fit` do not use XLA either.
"""

import contextlib
import enum
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.ops import autotuning, devices, xla_errors

_LOG = logging.getLogger("ut_keras")


class Compilation(enum.Enum):
    """How XLA compiles the update or the evaluation of a batch."""

    WITHOUT_XLA = enum.auto()
    ONE_PROGRAM = enum.auto()  # XLA compiles the function that Keras makes of the step
    # XLA compiles programs for one device, so it cannot compile Keras' function. It compiles the
    # step of each replica, without the sums over the replicas.
    EACH_REPLICA = enum.auto()


def of_update(model: Any) -> Compilation:
    """Return how XLA compiles the update of a compiled model."""
    return _compilation(model, model.jit_compile or model.auto_uses_xla)


def of_evaluation(model: Any) -> Compilation:
    """Return how XLA compiles the evaluation of a batch."""
    return _compilation(model, model.jit_compile)


def _compilation(model, uses_xla):
    if not uses_xla:
        return Compilation.WITHOUT_XLA
    return Compilation.EACH_REPLICA if _has_several_replicas(model) else Compilation.ONE_PROGRAM


def _has_several_replicas(model):
    return model.distribute_strategy.num_replicas_in_sync > 1


def suits_update(model: Any, x: Any) -> bool:
    """Return whether `jit_compile="auto"` uses XLA to train on the data of `fit`.

    XLA compiles the update once for every shape of a batch. So all batches must have the same
    lengths. If there is a GPU, but the model or the data do not allow XLA, a log line says why.

    Args:
        model: a model that was compiled with `jit_compile="auto"`.
        x: the data: arrays, tensors, a `tf.data.Dataset` or others, as for `fit`.
    """
    if not devices.has_gpu() or model.run_eagerly:
        return False
    if reason := _why_not(model, x):
        _LOG.info("jit_compile='auto' does not use XLA: %s.", reason)
        return False
    with warnings.catch_warnings():  # Keras warns if it does not support XLA for this model
        warnings.simplefilter("ignore")
        with jit_compile_set_to(model, True):
            return model.jit_compile


@contextlib.contextmanager
def jit_compile_set_to(model: Any, value: bool) -> Iterator[None]:
    """Return a context in which Keras' `model.jit_compile` has the given value.

    Keras reads this attribute when it makes a train function or a test function, and has no
    argument for it. Keras stores False instead of True if it does not support XLA for this model.
    """
    before = model.jit_compile
    model.jit_compile = value
    try:
        yield
    finally:
        model.jit_compile = before


def _why_not(model, x):
    if _has_several_replicas(model) and (reason := why_not_on_replicas(model)):
        return reason
    if model.steps_per_execution > 1:
        return f"steps_per_execution is {model.steps_per_execution}"
    if isinstance(x, tf.data.Dataset):
        specs = tf.nest.flatten(x.element_spec)
        if all(isinstance(spec, tf.TensorSpec) and _has_length(spec.shape) for spec in specs):
            return ""
        return "the batches of the dataset have no fixed shapes"
    if all(isinstance(part, np.ndarray | tf.Tensor) for part in keras.tree.flatten(x)):
        return ""
    return "the data are neither arrays nor a tf.data.Dataset"


def why_not_on_replicas(model: Any) -> str:
    """Return why XLA cannot compile the update of each replica, or "" if it can.

    XLA compiles programs for one device. Only the update of ut_keras is split into programs without
    sums over the replicas.
    """
    for name in ("train_step", "call", "compute_loss"):
        if model.overrides(name):
            return f"{type(model).__name__} overrides {name}, and XLA compiles for one device"
    if not model.has_default_loss:
        return f"the loss is {model.loss!r} instead of the default, and XLA compiles for one device"
    return ""


def _has_length(shape):
    """Return whether all sizes except the number of examples are known."""
    return shape.rank is not None and shape[1:].is_fully_defined()


class TrainFunctionWithFallback:
    """A train function that continues without XLA if XLA cannot compile the update.

    Keras calls a train function with an iterator over batches. The train function returns logs.

    Args:
        compiled: Keras' train function, which XLA compiles at the first call.
        without_xla: function without arguments. Returns the same train function without XLA.
    """

    def __init__(
        self, compiled: Callable[[Any], Any], without_xla: Callable[[], Callable[[Any], Any]]
    ) -> None:
        self._compiled = compiled
        self._without_xla = without_xla
        self._is_compiled = False

    def __call__(self, iterator: Any) -> Any:
        # `_iterator_of` cannot make an iterator over a batch of several replicas. So each of these
        # batches is passed in a list iterator, not only the first one. With iterators of two types,
        # XLA would compile the update twice.
        is_distributed = isinstance(iterator, tf.distribute.DistributedIterator)
        if self._is_compiled:
            return self._compiled(iter([next(iterator)]) if is_distributed else iterator)
        # The first batch is kept, because a failed attempt must not skip it.
        batch = next(iterator)

        def one_batch():
            if isinstance(iterator, tf.data.Iterator):
                return _iterator_of(batch, iterator.element_spec)
            return iter([batch])  # for several replicas, and for the generator of `train_on_batch`

        try:
            logs = self._compiled(one_batch())
            self._is_compiled = True
            return logs
        except xla_errors.NOT_COMPILED as error:
            _LOG.warning(
                "jit_compile='auto': training without XLA, because XLA cannot compile the "
                "update: %s",
                xla_errors.why_not_compiled(error),
            )
        return self._without_xla()(one_batch())


def _iterator_of(batch, element_spec):
    """Return an iterator over one batch.

    It has the same type as the iterator that gave the batch.
    """
    dataset = tf.data.Dataset.from_generator(lambda: [batch], output_signature=element_spec)
    return iter(autotuning.disable(dataset))
