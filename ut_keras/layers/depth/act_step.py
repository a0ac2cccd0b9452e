"""One step of Adaptive Computation Time: the same whatever runs it, and on whichever rows.

    x^n = s^{n-1} + P_n;   s^n = Block(x^n);   who halts, and by which w^n the output mixes s^n

A loop says which rows take the step: all (`act`), the positions or whole examples that are still
running (`act_skipping`), or columns over a cache (`act_decoding`). `layers` is everywhere the
`AdaptiveComputationTime`, which has block, timing, halting, injection and hidden_size.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth.stack import BlockOutput
from ut_keras.layers.halting.halting import Halting, Step


class Pondering(NamedTuple):
    """What every loop carries of its rows, [B, S] of them."""

    step: tf.Tensor  # int32 scalar n, from 0
    state: tf.Tensor  # [B, S, D], s^n in the paper
    halting: Halting
    output: tf.Tensor  # [B, S, D], the mix of the states so far (`previous_state` in T2T)


class Given(NamedTuple):
    """What a step reads besides: the same at every step, but for the rows that are left."""

    inputs: StepInputs  # its `cache` is of the block
    first: tf.Tensor | None  # [B, S, D], the states before all steps; None without an injection
    signals: Any  # `StepSignals`
    max_steps: int
    epsilon: float
    places: tf.Tensor | None = None  # int32 [S], which of the positions of `signals`; None: all
    signal_cache: Any = None  # `LayerCache` of what `timing` keeps
    copies: bool = False  # whether a halted position is left as it is, where it is among the rows
    # Rows in front that halted in an earlier pass, and whose states alone are wanted: int32 scalar.
    earlier: tf.Tensor | None = None


class Taken(NamedTuple):
    """A step that was taken."""

    loop: Pondering
    block_output: BlockOutput
    update_weights: tf.Tensor  # float32, w^n


def start(layers: Any, state: tf.Tensor, padding_mask: tf.Tensor | None = None) -> Pondering:
    """Before the first step."""
    halting = layers.halting.start(state, padding_mask)
    return Pondering(tf.constant(0), state, halting, tf.zeros_like(state))


def take(layers: Any, loop: Pondering, given: Given) -> Taken:
    """Signals, transforms, decides who halts, mixes into the output.

    Args:
        loop: `Pondering`. Of earlier rows it has the state alone.
    Raises:
        ValueError: if a pass has a threshold of its own, and the rule does not look at it.
    """
    rule, inputs, before = layers.halting, given.inputs, loop.state
    x = before if layers.injection is None else layers.injection(before, given.first)
    x = layers.timing(x, loop.step, given.signals, given.places, cache=given.signal_cache)
    if given.copies:
        running = loop.halting.running
        if given.earlier is not None:
            running = tf.pad(running, [[0, 0], [given.earlier, 0]])
        running = tf.expand_dims(running, 1) if rule.by_example else running
        x = tf.where(tf.expand_dims(running, -1), x, before)
        inputs = inputs._replace(running=running)
    transformed = layers.block.forward(x, inputs)
    state = transformed.output
    state.set_shape(before.shape)

    seen = (_last(part, given.earlier, loop.output) for part in (before, x, state))
    reads = []

    def epsilon():
        reads.append(given.epsilon)
        return given.epsilon

    limits = (given.max_steps, epsilon)
    step = Step(loop.step, *limits, inputs.padding_mask, inputs.training, *seen)
    halting, update_weights = rule.halt(step, loop.halting)
    if inputs.exit_threshold is not None and not reads and not inputs.training:
        raise ValueError(
            "exit_threshold needs a halting rule whose `halt` reads `step.epsilon`. "
            f"Received: {type(rule).__name__}."
        )
    output = rule.mix(step.after, loop.output, update_weights)
    output.set_shape(loop.output.shape)
    loop = Pondering(loop.step + 1, state, halting, output)
    return Taken(loop, transformed, update_weights)


def _last(x, earlier, like):
    """[B, A, D] without its earlier rows."""
    if earlier is None:
        return x
    x = x[:, earlier:]
    x.set_shape(like.shape)
    return x
