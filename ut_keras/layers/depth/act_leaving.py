"""Adaptive Computation Time at inference, where all positions of an example halt together.

Nothing of an example that has halted is seen by the others. So it leaves the loop: a step takes the
examples alone that are still running. With a mean ponder time of p, the cost of N steps is that of
p.
"""

import tensorflow as tf

from ut_keras.layers.depth import act_step


def run(
    layers: act_step.StepLayers, start: act_step.Pondering, given: act_step.Given
) -> act_step.Pondering:
    """The loop.

    Args:
        layers: `StepLayers`.
        start: `Pondering` of the B examples.
        given: `Given`, of an encoder.
    Returns:
        `Pondering`, of which `halting` and `output` count.
    """
    num_examples = tf.shape(start.state)[0]
    of_rows = (given.first, given.inputs.attention_mask, given.inputs.padding_mask)
    whole = [x if x is None else _of_all(x, num_examples) for x in of_rows]

    def body(rows, loop, results):
        first, may_attend, real = (x if x is None else tf.gather(x, rows) for x in whole)
        inputs = given.inputs._replace(attention_mask=may_attend, padding_mask=real)
        loop = act_step.take(layers, loop, given._replace(inputs=inputs, first=first)).loop
        results = tf.nest.map_structure(
            lambda all_of_them, some: tf.tensor_scatter_nd_update(
                all_of_them, rows[:, tf.newaxis], some
            ),
            results,
            (loop.halting, loop.output),
        )
        running = tf.where(loop.halting.running)[:, 0]
        kept = tf.nest.map_structure(lambda x: tf.gather(x, running), loop[1:])
        return tf.gather(rows, running), act_step.Pondering(loop.step, *kept), results

    first = (tf.range(num_examples), start, (start.halting, start.output))
    shapes = tf.nest.map_structure(lambda x: x.shape, first)
    some = tf.nest.map_structure(lambda x: tf.TensorShape([None, *x.shape[1:]]), start[1:])
    loop_shapes = act_step.Pondering(start.step.shape, *some)
    _, last, (halting, output) = tf.while_loop(
        lambda rows, loop, results: layers.halting.may_step(loop.halting, given.max_steps),
        body,
        first,
        shape_invariants=(tf.TensorShape([None]), loop_shapes, shapes[2]),
        maximum_iterations=given.max_steps,
    )
    return last._replace(halting=halting, output=output)


def _of_all(x, num_examples):
    """[B, ...] of what may be the same for all, [1, ...]."""
    return tf.broadcast_to(x, (num_examples, *tf.unstack(tf.shape(x))[1:]))
