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
from ut_keras.layers.halting.halting import HaltingState, Step


class ACTLoopState(NamedTuple):
    """What every loop carries of its rows, [B, S] of them."""

    step: tf.Tensor  # int32 scalar n, from 0
    state: tf.Tensor  # [B, S, D], s^n in the paper
    halting: HaltingState
    output: tf.Tensor  # [B, S, D], the weighted states so far (`previous_state` in T2T)


class StepContext(NamedTuple):
    """What a step reads besides: the same at every step, but for the rows that are left."""

    inputs: StepInputs  # `inputs.cache` is the block's
    initial_state: tf.Tensor | None  # [B, S, D], the state before step 0; None without injection
    signals: Any  # `StepSignals`
    max_steps: int
    epsilon: float
    # int32 [S]: for each position of the state, its index in `signals`. None: they correspond.
    signal_index: tf.Tensor | None = None
    signal_cache: Any = None  # `LayerCache` of the `timing` layer
    copy_halted: bool = False  # whether halted positions among the [B, S] keep their state
    # int32 scalar. The first positions of the state, which halted when they were decoded. The step
    # computes their states, but no halting and no output. None: there are none.
    num_earlier: tf.Tensor | None = None


class StepResult(NamedTuple):
    """A step that was taken."""

    loop_state: ACTLoopState
    block_output: BlockOutput
    update_weights: tf.Tensor  # float32, w^n


def start(act_layer: Any, state: tf.Tensor, padding_mask: tf.Tensor | None = None) -> ACTLoopState:
    """Before the first step."""
    halting = act_layer.halting.start(state, padding_mask)
    return ACTLoopState(tf.constant(0), state, halting, tf.zeros_like(state))


def apply_step(act_layer: Any, loop_state: ACTLoopState, context: StepContext) -> StepResult:
    """Signals, transforms, decides who halts, mixes into the output.

    Args:
        loop: `Pondering`. Of earlier rows it has the state alone.
    Raises:
        ValueError: if a pass has a threshold of its own, and the rule does not look at it.
    """
    rule, inputs, before = act_layer.halting, context.inputs, loop_state.state
    x = before
    if act_layer.injection is not None:
        x = act_layer.injection(before, context.initial_state)
    signal_arguments = (context.signals, context.signal_index)
    x = act_layer.timing(x, loop_state.step, *signal_arguments, cache=context.signal_cache)
    if context.copy_halted:
        running = loop_state.halting.running
        if context.num_earlier is not None:
            running = tf.pad(running, [[0, 0], [context.num_earlier, 0]])
        running = tf.expand_dims(running, 1) if rule.per_example else running
        x = tf.where(tf.expand_dims(running, -1), x, before)
        inputs = inputs._replace(running=running)
    block_output = act_layer.block.forward(x, inputs)
    state = block_output.output
    state.set_shape(before.shape)

    num_earlier, output = context.num_earlier, loop_state.output
    step_states = (_without_earlier(part, num_earlier, output) for part in (before, x, state))
    epsilon_reads = []  # not empty once the rule has read `step.epsilon`

    def read_epsilon():
        epsilon_reads.append(context.epsilon)
        return context.epsilon

    limits = (context.max_steps, read_epsilon)
    step = Step(loop_state.step, *limits, inputs.padding_mask, inputs.training, *step_states)
    halting, update_weights = rule.halt(step, loop_state.halting)
    if inputs.exit_threshold is not None and not epsilon_reads and not inputs.training:
        raise ValueError(
            "exit_threshold needs a halting rule whose `halt` reads `step.epsilon`. "
            f"Received: {type(rule).__name__}."
        )
    output = rule.mix(step.after, loop_state.output, update_weights)
    output.set_shape(loop_state.output.shape)
    loop_state = ACTLoopState(loop_state.step + 1, state, halting, output)
    return StepResult(loop_state, block_output, update_weights)


def _without_earlier(x, num_earlier, like):
    """[B, A, D] without its earlier rows."""
    if num_earlier is None:
        return x
    x = x[:, num_earlier:]
    x.set_shape(like.shape)
    return x
