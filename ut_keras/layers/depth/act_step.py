"""One step of Adaptive Computation Time (ACT), shared by all loops over steps.

    x^n = s^{n-1} + P_n
    s^n = Block(x^n)
    The halting rule decides which positions halt, and computes the weight w^n of s^n in the output.

Four modules call `apply_step` in a loop. They differ only in the positions that they pass:

- `act` passes all positions.
- `act_skipping` passes only the positions, or only the examples, that have not halted.
- `act_decoding` passes columns of a decoding cache.
- `act_static_decoding` passes the new columns of a decoding cache, under XLA.

In every function here, `act_layer` is the `AdaptiveComputationTime` layer. The functions use its
sublayers `block`, `timing`, `halting` and `injection`.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import step_recording
from ut_keras.layers.depth.stack import BlockOutput
from ut_keras.layers.halting.halting import HaltingState, Step, TrackedEpsilon


class ACTLoopState(NamedTuple):
    """The state that every ACT loop carries from step to step, for [B, S] positions."""

    step: tf.Tensor  # int32 scalar n, the number of steps taken
    state: tf.Tensor  # [B, S, D], s^n in the paper
    halting: HaltingState
    output: tf.Tensor  # [B, S, D], the combination of s^1 .. s^n (`previous_state` in T2T)


class StepContext(NamedTuple):
    """The inputs of a step that are not part of the loop state.

    These inputs are the same at every step. A loop over a subset of the positions selects the
    entries of that subset from these inputs.
    """

    inputs: StepInputs  # `inputs.cache` is the cache of the block
    # [B, S, D], the input of the recurrence, for input injection. None without input injection.
    recurrence_input: tf.Tensor | None
    signals: Any  # `StepSignals`
    max_steps: int
    epsilon: float
    # int32 [S]: for each position of the state, the index of its signal in `signals`. None:
    # position i of the state has the signal i.
    signal_index: tf.Tensor | None = None
    signal_cache: Any = None  # `LayerCache` of the `timing` layer
    copy_halted: bool = False  # whether halted positions among the [B, S] keep their state
    # int32 scalar, only in decoding. The first `num_earlier` positions of the state are earlier
    # tokens, which have already halted. The step computes new states for these positions, but it
    # does not change their halting state or their output. None: the state has no earlier tokens.
    num_earlier: tf.Tensor | None = None
    # An upper limit for the number of steps, at most `max_steps`: int32 scalar, or int32 that
    # broadcasts to the shape U of the halting state. None: `max_steps`.
    limit: tf.Tensor | None = None


class StepResult(NamedTuple):
    """The result of one step."""

    loop_state: ACTLoopState
    block_output: BlockOutput
    update_weights: tf.Tensor  # float32, w^n


def start(act_layer: Any, state: tf.Tensor, padding_mask: tf.Tensor | None = None) -> ACTLoopState:
    """Return the loop state before the first step."""
    halting = act_layer.halting.start(state, padding_mask)
    return ACTLoopState(tf.constant(0), state, halting, tf.zeros_like(state))


def should_continue(act_layer: Any, loop_state: ACTLoopState, context: StepContext) -> tf.Tensor:
    """Return whether any position must take another step, bool scalar."""
    limit: Any = context.max_steps
    if context.limit is not None:
        limit = tf.cast(context.limit, tf.float32)
    return act_layer.halting.should_continue(loop_state.halting, limit, context.epsilon)


def apply_step(act_layer: Any, loop_state: ACTLoopState, context: StepContext) -> StepResult:
    """Apply one step: signals, block, halting rule and output.

    Args:
        loop_state: `ACTLoopState` before the step. If `context.num_earlier` is set, only the field
            `state` contains the earlier positions. The fields `halting` and `output` do not.
        context: `StepContext`.

    Returns:
        `StepResult`.

    Raises:
        ValueError: if the call sets `exit_threshold`, but the halting rule did not read
            `step.epsilon`.
    """
    rule, inputs, before = act_layer.halting, context.inputs, loop_state.state
    running = _running(rule, loop_state.halting, context) if context.copy_halted else None
    x, block_output = apply_block(act_layer, before, loop_state.step, running, context)
    state = step_recording.patch(block_output.output, loop_state.step + 1, inputs.patches)
    state.set_shape(before.shape)

    num_earlier, output = context.num_earlier, loop_state.output
    step = Step(
        number=loop_state.step,
        max_steps=context.max_steps,
        tracked_epsilon=TrackedEpsilon(context.epsilon),
        padding_mask=inputs.padding_mask,
        training=inputs.training,
        before=_without_earlier(before, num_earlier, output),
        x=_without_earlier(x, num_earlier, output),
        after=_without_earlier(state, num_earlier, output),
        limit=context.limit,
    )
    halting, update_weights = rule.halt(step, loop_state.halting)
    if inputs.exit_threshold is not None and not inputs.training:
        _check_epsilon_was_read(step, rule)
    if context.limit is not None:
        halting = _halt_at_limit(halting, context.limit)
    output = rule.mix(step.after, loop_state.output, update_weights)
    output.set_shape(loop_state.output.shape)
    loop_state = ACTLoopState(loop_state.step + 1, state, halting, output)
    return StepResult(loop_state, block_output, update_weights)


def _running(rule, halting, context):
    """Return where the block changes the state: bool, broadcastable to [B, S]."""
    running = halting.running
    if context.num_earlier is not None:
        # The LiteRT converter of TensorFlow 2.19 cannot pad booleans.
        padded = tf.pad(tf.cast(running, tf.int32), [[0, 0], [context.num_earlier, 0]])
        running = tf.cast(padded, tf.bool)
    return tf.expand_dims(running, 1) if rule.per_example else running


def _check_epsilon_was_read(step, rule):
    """Raise `ValueError` if a rule ignored the epsilon that `exit_threshold` sets."""
    if not step.tracked_epsilon.was_read:
        raise ValueError(
            "exit_threshold requires a halting rule whose `halt` reads `step.epsilon`. "
            f"Received: {type(rule).__name__}."
        )


def _halt_at_limit(halting, limit):
    """Halt the positions that have reached the limit, which T2T's rule does not read."""
    reached = halting.n_updates >= tf.cast(limit, tf.float32)
    probability = tf.where(reached, 1.0, halting.halting_probability)
    return halting._replace(halting_probability=probability)


def apply_block(
    act_layer: Any,
    state: tf.Tensor,
    step: tf.Tensor,
    running: tf.Tensor | None,
    context: StepContext,
) -> tuple[tf.Tensor, BlockOutput]:
    """Apply the signals and the block of one step, without the halting rule.

    Args:
        state: float tensor [B, S, D], s^{n-1}.
        step: int32 scalar, the number of steps taken before.
        running: bool, broadcastable to [B, S]. Where it is False, the state does not change. None:
            the block transforms all states.
        context: `StepContext`.

    Returns:
        (x^n [B, S, D], the `BlockOutput` of the step).
    """
    x, inputs = state, context.inputs
    if act_layer.injection is not None:
        x = act_layer.injection(state, context.recurrence_input)
    x = act_layer.timing(x, step, context.signals, context.signal_index, cache=context.signal_cache)
    if running is not None:
        x = tf.where(tf.expand_dims(running, -1), x, state)
        inputs = inputs._replace(running=running)
    return x, act_layer.block.forward(x, inputs)


def _without_earlier(x, num_earlier, like):
    """Return x [B, A, D] without its first `num_earlier` positions.

    The result gets the static shape of `like`.
    """
    if num_earlier is None:
        return x
    x = x[:, num_earlier:]
    x.set_shape(like.shape)
    return x
