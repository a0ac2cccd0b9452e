"""Call layers as functions of tensors that replace the layers' variables.

    seeds = stateless.seeds(layer)
    call = stateless.call(lambda: layer(x, training=True), [(seed, value) for ...])
    call.result, call.values       # the seeds are unchanged; `values` are their next values

If two calls of a layer get the same seed values, both calls sample the same random numbers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.errors import UserError


class Call(NamedTuple):
    """The result of `call`."""

    result: Any  # the result of the function
    values: list[tf.Tensor]  # for each pair of `mapping`, the value of the variable after the call
    is_read: list[bool]  # for each pair of `mapping`, whether the function read the variable
    losses: list[tf.Tensor]  # the losses that layers added with `add_loss`


def seeds(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Return the states of the random number generators of a layer and its sublayers."""
    states = layer.non_trainable_variables
    return [variable for variable in states if not _is_float(variable)]


def call(function: Callable[[], Any], mapping: Sequence[tuple[keras.Variable, tf.Tensor]]) -> Call:
    """Call a function, and replace variables by tensors during the call.

    Args:
        function: function without arguments.
        mapping: pairs of a variable and its value before the call.

    Raises:
        UserError: if the function changes a variable that is not a seed.
    """
    scope = _Scope(mapping, collect_losses=True)
    with scope:
        result = function()
    for variable in filter(_is_float, scope.changed):
        raise _error("layers that change no variables except seeds", f"a change of {variable.path}")
    values: list[Any] = [scope.get_current_value(variable) for variable, _ in mapping]
    is_read = [id(variable) in scope.read for variable, _ in mapping]
    return Call(result, values, is_read, scope.losses)


def check_repeatable(
    layer: keras.layers.Layer,
    function: Callable[[], Any],
    inputs: Iterable[tf.Tensor] | None = None,
) -> Any:
    """Return `function()`, and check that a second call would have the same result.

    Args:
        layer: the layer that the function calls.
        inputs: the tensors that the function may use. The function must use no other tensors and
            must not read variables. None: the function may use all tensors and variables.

    Raises:
        UserError: if the function creates variables. In a graph, also if the function samples
            random numbers that do not depend on a Keras seed. With `inputs`, also if the function
            uses a tensor that is not allowed.
    """
    before = {id(variable) for variable in layer.variables}
    if tf.executing_eagerly():
        result = function()
    else:
        graph = tf.compat.v1.get_default_graph()
        num_operations = len(graph.get_operations())
        result = function()
        added = graph.get_operations()[num_operations:]
        _check_random_numbers(added)
        if inputs is not None:
            known = {id(tensor) for tensor in inputs}
            # In the body of a loop, placeholders stand for the tensors outside of the loop.
            captures = getattr(graph, "captures", ())
            _check_inputs(
                added, known | {id(inner) for outer, inner in captures if id(outer) in known}
            )
    for variable in layer.variables:
        if id(variable) not in before:
            raise _error("layers whose `build` creates all weights", variable.path)
    return result


def _check_random_numbers(operations):
    for operation in operations:
        if "seed2" in operation.node_def.attr or operation.type in _GENERATOR_OPERATIONS:
            raise _error("random numbers from a keras.random.SeedGenerator", operation.type)


def _check_inputs(operations, known):
    """Check that operations use only known tensors.

    Args:
        operations: list of operations, in the order in which they were added to their graph.
        known: set of the ids of the tensors that the operations may use.
    """
    for operation in operations:
        # A new placeholder stands for a tensor outside of the loop.
        used = operation.outputs if operation.type == "Placeholder" else operation.inputs
        for tensor in (tensor for tensor in used if id(tensor) not in known):
            if tensor.dtype == tf.resource:  # the gradient of a loop cannot use other resources
                raise _error("layers whose variables are Keras variables", tensor.name)
            if tensor.dtype.is_floating and tensor.op.type != "Const":
                raise _error("layers that use only the arguments of their call", tensor.name)
        known.update(id(tensor) for tensor in operation.outputs)


# The operations of `tf.random.Generator`.
_GENERATOR_OPERATIONS = ("RngReadAndSkip", "RngSkip", "StatefulUniform")


def _error(expected, received):
    return UserError(
        f"recompute_grad and recurrence_backprop_steps require {expected}. Received: {received}."
    )


def _is_float(variable):
    return tf.as_dtype(variable.dtype).is_floating


class _Scope(keras.StatelessScope):
    """A `StatelessScope` that records reads and changes of variables."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.read, self.changed = set(), []

    def get_current_value(self, variable):
        self.read.add(id(variable))
        return super().get_current_value(variable)

    def add_update(self, update):
        self.changed.append(update[0])
        super().add_update(update)
