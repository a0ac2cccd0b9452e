"""Recompute a part of a model in the gradient, to save memory.

    recomputed = recompute.Recomputation(layer)       # before a loop
    result = recomputed(function, *arguments)         # in the body of the loop

`recomputed` returns `function(*arguments)`. TensorFlow does not keep the intermediate tensors of
the function. For the gradient, it keeps only the tensors among the arguments. The gradient calls
the function again, with the same arguments, weights and random seeds, and differentiates the second
call.

`tf.recompute_grad` fails in the body of a `tf.while_loop`, because its gradient reads variables.
This module replaces the variables by tensors (see `stateless`). Therefore TensorFlow can compute
the gradient of the loop, and keeps only the arguments of every step.

References: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost; T2T
`common_layers.recompute_grad`.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic import stateless
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import state_layer
from ut_keras.ops import custom_gradient, private_api, tensor_copies


class Recomputation:
    """Calls functions, and calls them again to compute their gradients.

    Create the instance outside of loops. `__init__` then reads the weights once for all steps.

    Args:
        layer: a built layer. It must own all variables that the functions use.
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        self._layer = layer
        self._seeds = stateless.seeds(layer)
        seeds = {id(seed) for seed in self._seeds}
        self._weights = [variable for variable in layer.variables if id(variable) not in seeds]
        self._weight_values = [
            tf.convert_to_tensor(private_api.uncast_value(variable)) for variable in self._weights
        ]

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return `function(*arguments)`.

        Args:
            function: function that uses only its arguments and the variables of the layer. A second
                call must compute the same values.
            arguments: nests of tensors and other values.

        Raises:
            UserError: if a second call may compute other values. Also if the function uses tensors
                other than its arguments and the variables. See `stateless.check_repeatable`.
        """
        values = [
            *_tensors(arguments),
            *self._weight_values,
            *(tf.convert_to_tensor(seed.value) for seed in self._seeds),
        ]
        run = functools.partial(self._run, function, arguments)
        with private_api.stop_recording():  # an eager tape would keep the intermediate tensors
            call, computed = stateless.check_repeatable(self._layer, lambda: run(values), values)
        # In a branch of a `tf.cond`, all outputs must be tensors of this branch. An argument may be
        # a tensor from outside. Therefore an argument is copied if it is also an output.
        unchanged = {id(value) for value in values}
        computed = [tf.identity(y) if id(y) in unchanged else y for y in computed]
        is_used = [True] * len(_tensors(arguments)) + call.is_read
        gradients = functools.partial(_gradients, run, values, is_used)
        with_gradient = custom_gradient.wrap(lambda *_: (computed, gradients))
        outputs = with_gradient(*itertools.compress(values, is_used))
        # The outputs are in the order of `_run`: the result, the next seeds and the losses.
        num_results = len(_tensors(call.result))
        num_before_losses = num_results + len(self._seeds)
        next_seeds = outputs[num_results:num_before_losses]
        for seed, value in zip(self._seeds, next_seeds, strict=True):
            seed.assign(value)
        for loss in outputs[num_before_losses:]:
            self._layer.add_loss(loss)
        return _with_tensors(call.result, outputs[:num_results])

    def _run(self, function, arguments, values):
        """Call a function with other values of its arguments, the weights and the seeds.

        Args:
            function, arguments: as in `__call__`.
            values: list of tensors. They replace the tensors of the arguments, then the weights,
                then the seeds.

        Returns:
            (`stateless.Call`, list of the tensors that the function computed). The list has the
            tensors of the result, then the next seeds, then the losses.
        """
        num_tensors = len(_tensors(arguments))
        new_arguments = _with_tensors(arguments, values[:num_tensors])
        variables = self._weights + self._seeds
        pairs = list(zip(variables, values[num_tensors:], strict=True))
        call = stateless.call(lambda: function(*new_arguments), pairs)
        next_seeds = call.values[len(self._weights) :]
        return call, [*_tensors(call.result), *next_seeds, *call.losses]


def forward(layer: state_layer.StateLayer, state: tf.Tensor, inputs: StepInputs) -> Any:
    """Return `layer.forward(state, inputs)`, and recompute it in the gradient."""

    def function(state, inputs):
        return without_attention_weights(layer.forward(state, inputs), inputs)

    return Recomputation(layer)(function, state, inputs)


def without_attention_weights(result: Any, inputs: StepInputs) -> Any:
    """Remove the attention weights from the result of a layer or block.

    If `inputs.record_attention` is True, return the result unchanged.
    """
    if inputs.record_attention:
        return result
    return result._replace(attention_weights=(), memory_attention_weights=())


def _tensors(nest):
    return [leaf for leaf in tf.nest.flatten(nest) if tf.is_tensor(leaf)]


def _with_tensors(nest, tensors):
    """Return a copy of a nest in which `tensors` replace its tensors, in order."""
    rest = iter(tensors)
    leaves = [next(rest) if tf.is_tensor(leaf) else leaf for leaf in tf.nest.flatten(nest)]
    return tf.nest.pack_sequence_as(nest, leaves)


def _gradients(run, inputs, is_used, *upstream):
    """Call a function again, and return the gradients of its inputs.

    Args:
        run: function from a list of tensors to (any value, list of output tensors).
        inputs: list of tensors.
        is_used: list with a bool for each input: whether to return its gradient.
        *upstream: the upstream gradient of each output, or None.

    Returns:
        list with a tensor for each used input. The entry is None for an input that is not a float,
        or that has no gradient.
    """
    # With the tensors of the forward pass, TensorFlow and XLA could skip the second call.
    inputs = tensor_copies.copies_after(upstream, inputs)
    used = list(itertools.compress(inputs, is_used))
    sources = [x for x in used if x.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        _, outputs = run(inputs)
    pairs = [
        (y, dy)
        for y, dy in zip(outputs, upstream, strict=True)
        if dy is not None and y.dtype.is_floating
    ]
    gradients = iter(tape.gradient([y for y, _ in pairs], sources, [dy for _, dy in pairs]))
    found = [next(gradients) if x.dtype.is_floating else None for x in used]
    return [None if dx is None else tf.convert_to_tensor(dx) for dx in found]
