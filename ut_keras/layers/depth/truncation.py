"""Truncated backpropagation: a gradient through only the last k steps.

The gradient treats the loop state before the last k steps as a constant. Earlier steps keep no
intermediate tensors, so the memory of training depends on k and not on the number of steps. The
random numbers and the output are the same as in training without truncation.

- With a fixed number of steps N (`without_gradient`), a first loop runs N - k steps without a
  gradient. A second loop runs the last k steps.
- With adaptive halting (`start_of_last_steps`), the number N of steps that the batch takes is known
  only when all positions have halted. Therefore a first loop runs all N steps without a gradient,
  and stores the loop state before each of its last k steps. A second loop repeats the last k steps
  with a gradient. The second loop samples the same random numbers, because the first loop also
  stores the states of the seeds.

In each encoder and in each decoder, the following tensors have a gradient:

- The weights, and the memory that a decoder attends to. Only the last k steps contribute to this
  gradient.
- The input of the recurrence, but only if the last k steps read it: by input injection, by a gate,
  or because k = N.
- The halting probabilities of the last k steps. The halting probabilities of earlier steps are
  constants in the output, in the remainder and in the ponder cost.
- The auxiliary losses of the last k steps.

References: Geiping et al. 2025, Scaling up Test-Time Compute with Latent Reasoning, section 3.3.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ut_keras.layers.basic import stateless
from ut_keras.layers.basic.layer import check_least
from ut_keras.ops import private_api


def check(backprop_steps: int | None, num_steps: int) -> None:
    """Check k against the number of steps.

    Raises:
        ValueError: if k < 1 or k > num_steps.
    """
    if backprop_steps is None:
        return
    check_least("backprop_steps", backprop_steps, 1)
    if backprop_steps > num_steps:
        raise ValueError(
            f"backprop_steps must be at most {num_steps}, the number of steps. "
            f"Received: {backprop_steps}."
        )


def without_gradient(function: Callable[[], Any]) -> Any:
    """Return `function()`, a nest whose tensors are constants for the gradient."""
    with private_api.stop_recording():  # an eager tape would keep the intermediate tensors
        result = function()
    return _map_tensors(tf.stop_gradient, result)


def start_or_constant(is_start: tf.Tensor, start: Any, constant: Any) -> Any:
    """Return `start`, with its gradient, if `is_start`, and otherwise `constant`.

    Args:
        is_start: bool scalar, whether the gradient passes through all steps. If `is_start` is True,
            `constant` has the same values as `start`.
        start: nest of tensors and TensorArrays, the loop state before the first step.
        constant: nest like `start`, the result of `without_gradient`.
    """
    return tf.nest.map_structure(
        lambda x, y: y if isinstance(y, tf.TensorArray) else tf.where(is_start, x, y),
        start,
        constant,
    )


def start_of_last_steps(
    layer: keras.layers.Layer,
    loop: Any,
    should_continue: Callable[[Any], tf.Tensor],
    take_step: Callable[[Any], Any],
    max_steps: int,
    backprop_steps: int,
) -> Any:
    """Run a loop without gradient, and return its state before the last k steps.

    The function also resets the random seeds of the layer to their states before these steps.

    Args:
        layer: the layer that takes the steps.
        loop: nest of tensors and TensorArrays, the state before the first step.
        should_continue: function from the loop state to a bool scalar.
        take_step: function from a loop state to the next loop state.
        max_steps: int.
        backprop_steps: int k.

    Returns:
        Nest like `loop`. If the loop takes at most k steps, its tensors are the tensors of `loop`,
        with their gradient. Otherwise, its tensors are constants for the gradient. The TensorArrays
        have the values after the last step.

    Raises:
        UserError: if a step cannot be repeated. See `stateless`.
    """
    num_steps, start = without_gradient(
        lambda: _run_all_steps(layer, loop, should_continue, take_step, max_steps, backprop_steps)
    )
    return start_or_constant(num_steps <= backprop_steps, loop, start)


def _run_all_steps(layer, loop, should_continue, take_step, max_steps, backprop_steps):
    """Run a loop, and reset the layer's seeds to their values before the last k steps.

    The arguments are those of `start_of_last_steps`.

    Returns:
        (number of steps, loop state before the last k steps). If the loop takes at most k steps,
        this is the loop state before the first step.
    """
    seeds = stateless.seeds(layer)
    seed_values = [tf.convert_to_tensor(seed.value) for seed in seeds]

    def body(step, loop, seed_values, history):
        history = _write_tensors(history, step % backprop_steps, loop, seed_values)
        pairs = list(zip(seeds, seed_values, strict=True))
        take_this_step = functools.partial(take_step, loop)
        call = stateless.check_repeatable(
            layer, functools.partial(stateless.call, take_this_step, pairs)
        )
        return step + 1, call.result, call.values, history

    # The loop states and seeds before each of the last k steps: one TensorArray for each tensor.
    # The values before step n are in entry n % k. The first step writes entry 0 a second time.
    history = [
        tf.TensorArray(x.dtype, backprop_steps, element_shape=x.shape, clear_after_read=False)
        for x in (*_leaves(loop), *seed_values)
    ]
    history = _write_tensors(history, 0, loop, seed_values)
    num_steps, last, _, history = tf.while_loop(
        lambda step, loop, *_: should_continue(loop),
        body,
        (tf.constant(0), loop, seed_values, history),
        maximum_iterations=max_steps,
    )
    entry = tf.maximum(num_steps - backprop_steps, 0) % backprop_steps
    found = [array.read(entry) for array in history]
    num_loop_tensors = len(_leaves(loop))
    for seed, value in zip(seeds, found[num_loop_tensors:], strict=True):
        seed.assign(value)
    return num_steps, _with_leaves(last, found[:num_loop_tensors])


def _write_tensors(arrays, index, loop, seed_values):
    """Write the tensors of a loop state and of the seeds, one into each TensorArray."""
    tensors = [*_leaves(loop), *seed_values]
    return [array.write(index, x) for array, x in zip(arrays, tensors, strict=True)]


def _leaves(nest):
    """Return the leaves of a nest except TensorArrays. A leaf may be a NumPy array."""
    return [leaf for leaf in tf.nest.flatten(nest) if not isinstance(leaf, tf.TensorArray)]


def _with_leaves(nest, leaves):
    """Return a copy of a nest with other leaves. TensorArrays stay unchanged."""
    rest = iter(leaves)
    return _map_tensors(lambda _: next(rest), nest)


def _map_tensors(function, nest):
    """Apply a function to the tensors of a nest, in order.

    TensorArrays stay unchanged.
    """
    return tf.nest.map_structure(
        lambda leaf: leaf if isinstance(leaf, tf.TensorArray) else function(leaf), nest
    )
