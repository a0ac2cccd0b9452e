"""Adaptive Computation Time at inference, where all positions of an example halt together.

Nothing of an example that has halted is seen by the others. So it leaves the loop: a step takes the
examples alone that are still running. With a mean ponder time of p, the cost of N steps is that of
p.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

_RESULTS = ("output", "n_updates", "remainders", "ponder_cost")
_CARRIED = ("state", "halting_probability", *_RESULTS)


def run(
    may_step: Callable[[Any], tf.Tensor],
    take_step: Callable[..., Any],
    start: Any,
    inputs: Sequence[tf.Tensor | None],
    max_steps: int,
) -> Any:
    """The loop.

    Args:
        may_step: its condition, of what it carries.
        take_step: its body, function (what it carries, *inputs) -> what it carries then.
        start: `ACTState` of the B examples.
        inputs: what else a step takes: tensors [B, ...] or [1, ...], or None.
        max_steps: int. No example takes more.
    Returns:
        `ACTState`, of whose fields those that are results count.
    """

    num_examples = tf.shape(start.state)[0]
    whole_inputs = [x if x is None else _of_all(x, num_examples) for x in inputs]

    def body(rows, loop, results):
        taken = [None if x is None else tf.gather(x, rows) for x in whole_inputs]
        loop = take_step(loop, *taken)
        results = {
            name: tf.tensor_scatter_nd_update(whole, rows[:, tf.newaxis], getattr(loop, name))
            for name, whole in results.items()
        }
        running = tf.where(loop.halting_probability < 1.0)[:, 0]
        kept = {name: tf.gather(getattr(loop, name), running) for name in _CARRIED}
        return tf.gather(rows, running), loop._replace(**kept), results

    first = (
        tf.range(num_examples),
        start,
        {name: getattr(start, name) for name in _RESULTS},
    )
    some = {name: tf.TensorShape([None, *getattr(start, name).shape[1:]]) for name in _CARRIED}
    shapes = tf.nest.map_structure(lambda x: x.shape, first)
    _, last, results = tf.while_loop(
        lambda rows, loop, results: may_step(loop),
        body,
        first,
        shape_invariants=(tf.TensorShape([None]), shapes[1]._replace(**some), shapes[2]),
        maximum_iterations=max_steps,
    )
    return last._replace(**results)


def _of_all(x, num_examples):
    """[B, ...] of what may be the same for all, [1, ...]."""
    return tf.broadcast_to(x, (num_examples, *tf.unstack(tf.shape(x))[1:]))
