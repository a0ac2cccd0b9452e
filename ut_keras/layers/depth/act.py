"""Adaptive Computation Time (ACT): each position decides when it halts.

At every step, each position gets a halting probability. A position halts at the step at which the
sum of its halting probabilities exceeds 1 - epsilon. The remainder of a position is 1 minus the sum
before that step. At this last step, the remainder replaces the halting probability. The output
combines the states of all steps, with the resulting probabilities as weights. The ponder cost is
the mean of (number of steps + remainder). The loss includes the ponder cost, so the model learns to
take only the steps that it needs (Graves 2016; Dehghani et al. 2019, section 2.2).

The defaults follow T2T. T2T differs from both papers in four ways. The following arguments select
the behaviour of the papers instead:

- `halted_state="copy"`: a halted position keeps its state.
- `act_type="accumulated"` of `halting.ACTHalting`: the output is the weighted sum of the states.
- `force_final_remainder=True` of `ACTHalting`: a position that reaches the maximum number of steps
  gets a remainder.
- `mask_padding=True` of `ACTHalting`: padding has no ponder cost and does not prolong the loop.
"""

import functools
from typing import Any, NamedTuple, Self

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic.layer import check_choice
from ut_keras.layers.basic.signature import PLAIN, Config, Shape, StepInputs
from ut_keras.layers.depth import (
    act_decoding,
    act_skipping,
    act_static_decoding,
    act_step,
    attention_recording,
    depth,
    fixed_point,
    recompute,
    recurrence_arguments,
    segments,
    stack,
    state_layer,
    step_recording,
    step_sampling,
    supervised_recording,
    truncation,
)
from ut_keras.layers.depth import initial_state as initial_state_lib
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.halting import halting as halting_lib
from ut_keras.ops import litert, private_api, step_loop
from ut_keras.ops.loss_term import LossTerm

HALTED_STATES = ("transform", "copy")


class RecordingLoopState(NamedTuple):
    """The state of the loop over all positions, with optional records."""

    loop_state: act_step.ACTLoopState
    attention_record: tuple  # `AttentionRecord`. Empty if attention weights are not recorded.
    supervised_record: tuple  # `SupervisedRecord`. Empty if the loss uses only the output.
    auxiliary_loss_stats: tuple  # In training, one entry per layer. Empty at inference.
    fixed_point_record: fixed_point.Record
    step_record: tuple = ()  # The record of `step_recording`. Empty without `record_steps`.


@keras.saving.register_keras_serializable(package="ut_keras")
class AdaptiveComputationTime(depth.Depth):
    """Applies one block repeatedly until every position has halted.

        x^n = s^{n-1} + P_n
        s^n = Block(x^n)
        output = the states s^1 .. s^N, combined with the weights w^1 .. w^N

    The halting rule (`halting.Rule`) decides at which step N a position halts, and computes w^n.

    The output of a position depends only on the states up to the step at which the position halts.
    It depends neither on the other examples of the batch nor, with a causal mask, on later
    positions. `act_type="global"` is an exception: all positions of an example halt together, so
    the output of a position also depends on later positions and on padding.

    Args:
        block: a `TransformerBlock`. Every step applies the same block.
        timing: a `StepTimingSignal`. It adds the position and step signal P_n.
        halting: an `ACTHalting`, or another layer that is a `halting.Rule`.
        halted_state: "transform" (T2T): the block continues to transform the state of a halted
            position, and other positions attend to the new states. Only the output of the halted
            position stays the same. "copy" (paper): a halted position keeps its state. Inference
            then skips halted positions (`act_skipping`). This fast path has no gradient.
        injection: an `InputInjection` or a `ConcatInjection`. With it, every step reads the input
            of the recurrence. With None, only the first step reads this input.
        act_loss_weight: float. Weight of the mean ponder cost in the loss.
        recompute_grad: bool. Whether training keeps only the loop state before each step, and
            recomputes the step in the gradient. See `recompute`.
        backprop_steps: int k. In training, the gradient passes only through the last k steps of the
            batch. See `truncation`. With None, the gradient passes through all steps.
        steps_sampling: a `StepSampling`, or "uniform" for `UniformSteps`. It sets an upper limit
            for the number of steps. All positions halt when they reach the limit. With None, the
            limit is `halting.max_steps`.
        initial_state: a `NormalInitialState`. It returns the state before the first step. With
            None, the state before the first step is the input.
        fixed_point_loss_weight: float. Weight of the fixed-point loss, which is the relative change
            of the state in the last step of each position. See `fixed_point`.
        num_segments: int M. In training, a forward pass takes the steps of one segment, and carries
            the state to the next segment. At inference, the largest number of steps is
            M · `halting.max_steps`. See `segments`. If M > 1, `timing` must have `repeats=True`.

    Call arguments and returns: as for `StateLayer`.

    Raises:
        ValueError: in these cases. N is the largest number of steps.

            - `halted_state` is unknown.
            - `backprop_steps` is not in [1, N], or is combined with `StepsByLength`.
            - The halting rule computes a loss for every step, and `backprop_steps` or
              `steps_sampling` is set.
            - `initial_state` is set, and `injection` is None.
            - `num_segments` is less than 1. If it is more than 1, also if `timing` does not repeat
              its signals, or if the halting rule does not implement `confidence`.

    References: T2T `universal_transformer_util.universal_transformer_act`.

    ```python
    layer = layers.TransformerLayer(layers.MultiHeadAttention(4, 32), layers.FeedForward(64, 32))
    block = layers.TransformerBlock([layer])
    timing, halting = layers.StepTimingSignal(6), layers.ACTHalting(max_steps=6)
    act = layers.AdaptiveComputationTime(block, timing, halting)
    output = act(tf.random.normal([2, 10, 32]))  # [2, 10, 32]
    ```
    """

    layer_attributes = ("timing", "halting", "block", "injection", "initial_state")
    hidden_size = 0  # D; `build` sets it

    def __init__(
        self,
        block: stack.TransformerBlock,
        timing: keras.layers.Layer,
        halting: halting_lib.Rule,
        halted_state: str = "transform",
        act_loss_weight: float = 0.01,
        injection: keras.layers.Layer | None = None,
        recompute_grad: bool = False,
        backprop_steps: int | None = None,
        steps_sampling: step_sampling.StepSampling | str | None = None,
        initial_state: keras.layers.Layer | None = None,
        fixed_point_loss_weight: float = 0.0,
        num_segments: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("halted_state", halted_state, HALTED_STATES)
        _check_halting(halting, backprop_steps, steps_sampling)
        truncation.check(backprop_steps, halting.max_steps)
        initial_state_lib.check(initial_state, injection)
        segments.check_arguments(num_segments, timing, steps_sampling, halting)
        self.block = block
        self.timing = timing
        self.initial_state = initial_state
        self.halting = halting
        self.injection = injection
        self.steps_sampling = step_sampling.from_argument(steps_sampling, halting.max_steps)
        step_sampling.check_gradient(self.steps_sampling, backprop_steps)
        self.halted_state = halted_state
        self.act_loss_weight = act_loss_weight
        self.fixed_point_loss_weight = fixed_point_loss_weight
        self.recompute_grad = recompute_grad
        self.backprop_steps = backprop_steps
        self.num_segments = num_segments
        self.trains_by_steps = halting.expected_loss

    def build(self, state_shape: Shape) -> None:
        super().build(state_shape)
        self.hidden_size = state_shape[-1]

    @property
    def rule(self) -> halting_lib.Rule:
        return self.halting

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        """Apply steps until every position has halted. See `Depth.forward`.

        The shape U is [B, S], or [B] if all positions of an example halt together.

        Returns:
            `StackOutput` with output [B, S, D], ponder_times (in steps), remainders (in [0, 1]) and
            ponder_cost. The last three have the shape U. In training, if the halting rule computes
            a loss for every step (`expected_loss`), `steps` contains the states of all steps. In
            training with several segments, `carried` contains the values for the next segment.
        """
        carried, inputs = inputs.carried, inputs._replace(carried=None)  # no sublayer reads it
        context = self._step_context(state, inputs)
        state = initial_state_lib.start(self.initial_state, state, inputs.training)
        limit = self._sampled_limit(state, inputs)
        if limit is not None:
            start = act_step.start(self, state, inputs.padding_mask)
            return self._loop_over_all_positions(start, context._replace(limit=limit))
        if self._can_skip_halted_positions(state, inputs):
            halting, output = act_skipping.forward_running_positions(self, state, context)
            return _stack_output(output, halting)
        start = act_step.start(self, state, inputs.padding_mask)
        if self._can_skip_halted_examples(state, inputs):
            last = act_skipping.forward_running_examples(self, start, context)
            return _stack_output(last.output, last.halting)
        return self._loop_over_all_positions(segments.resume(start, carried), context, carried)

    def _sampled_limit(self, state, inputs):
        """Return the largest number of steps that `steps_sampling` allows.

        Returns:
            int32 scalar, or int32 that broadcasts to the shape U of the halting state (see
            `forward`). None if the limit is `context.max_steps`.
        """
        sampling = self.steps_sampling
        mask, num_steps = inputs.padding_mask, inputs.num_steps
        limit = step_sampling.example_steps(sampling, state, mask, num_steps)
        if limit is not None:
            return limit if self.halting.per_example else limit[:, tf.newaxis]
        if inputs.training and sampling is not None and inputs.num_steps is None:
            return sampling.sample()
        return None

    def _loop_over_all_positions(self, start, context, carried=None):
        """Run the loop in which every step computes all positions.

        Args:
            start: `ACTLoopState` before the first step.
            context: `StepContext`.
            carried: the `Carried` of the previous segment. Optional.
        """
        inputs, max_steps = context.inputs, context.max_steps
        first = self._with_empty_records(start, context)
        should_continue = functools.partial(self._loop_condition, context=context)
        take_step = functools.partial(self._loop_body, context=context, apply_step=self._apply_step)
        if self.backprop_steps is not None and inputs.training:
            truncation.check(self.backprop_steps, max_steps)
            first = truncation.start_of_last_steps(
                self, first, should_continue, take_step, max_steps, self.backprop_steps
            )
            max_steps = self.backprop_steps
        if self.recompute_grad and inputs.training:
            apply_step = functools.partial(recompute.Recomputation(self), self._apply_step)
            take_step = functools.partial(self._loop_body, context=context, apply_step=apply_step)
        last = step_loop.run(self, should_continue, take_step, first, max_steps)
        output = self._output_with_records(last, inputs)
        if inputs.training and self.num_segments > 1:
            output = segments.with_carried(self.halting, output, start, last.loop_state, carried)
        return output

    def _with_empty_records(self, start, context):
        """Return the `RecordingLoopState` before the first step.

        Args:
            start: `ACTLoopState` before the first step.
            context: `StepContext`.
        """
        inputs, max_steps = context.inputs, context.max_steps
        supervised_record: tuple = ()
        auxiliary_loss_stats: tuple = ()
        if inputs.training:
            auxiliary_loss_stats = self.block.start_auxiliary_loss_stats(start.state)
            if self.halting.expected_loss:
                supervised_record = supervised_recording.start(start.state, max_steps)
        return RecordingLoopState(
            start,
            attention_record=attention_recording.start(inputs, self.block, max_steps),
            supervised_record=supervised_record,
            auxiliary_loss_stats=auxiliary_loss_stats,
            fixed_point_record=fixed_point.start(
                start.state,
                inputs.record_attention,
                has_loss=bool(inputs.training and self.fixed_point_loss_weight),
                max_steps=max_steps,
            ),
            step_record=step_recording.start(
                inputs, start.state, start.output, max_steps, start.halting
            ),
        )

    def _output_with_records(self, last, inputs):
        """Return the `StackOutput` of the last `RecordingLoopState`."""
        steps = supervised_recording.stack(last.supervised_record)
        if steps is not None:
            confidence = self.halting.confidence(steps.states, inputs.padding_mask)
            steps = steps._replace(confidence=confidence)
        num_steps = last.loop_state.step
        weights = attention_recording.stack(last.attention_record, self.block, num_steps)
        output = _stack_output(last.loop_state.output, last.loop_state.halting, *weights, steps)
        return output._replace(
            auxiliary_loss_stats=last.auxiliary_loss_stats,
            recorded=step_recording.stack(last.step_record, num_steps),
            **fixed_point.finish(last.fixed_point_record, num_steps),
        )

    def _loop_condition(self, loop, context):
        """Return whether any position must take another step, bool scalar."""
        return act_step.should_continue(self, loop.loop_state, context)

    def _apply_step(self, loop_state, context):
        """Apply one step without records, and return its `StepResult`."""
        result = act_step.apply_step(self, loop_state, context)
        block_output = recompute.without_attention_weights(result.block_output, context.inputs)
        return result._replace(block_output=block_output)

    def _loop_body(self, loop, context, apply_step):
        """Apply one step, and return the `RecordingLoopState` after it.

        Args:
            loop: `RecordingLoopState` before the step.
            context: `StepContext`.
            apply_step: `_apply_step`, or a function with the same arguments and result.
        """
        result = apply_step(loop.loop_state, context)
        step, block_output = loop.loop_state.step, result.block_output
        supervised_record = loop.supervised_record
        if supervised_record:
            supervised_record = self._record_supervised_step(
                supervised_record, step, result, context.inputs.padding_mask
            )
        return RecordingLoopState(
            result.loop_state,
            attention_record=attention_recording.add(loop.attention_record, step, block_output),
            supervised_record=supervised_record,
            auxiliary_loss_stats=stack.add_auxiliary_loss_stats(
                loop.auxiliary_loss_stats, block_output
            ),
            fixed_point_record=self._record_residual(loop, result),
            step_record=step_recording.add(
                loop.step_record,
                result.loop_state.step,
                result.loop_state.state,
                result.loop_state.output,
                result.loop_state.halting,
            ),
        )

    def ponder_terms(
        self,
        result: Any,
        padding_mask: tf.Tensor | None,
        example_weights: tf.Tensor | None = None,
    ) -> list[LossTerm]:
        """Return the mean ponder cost. See `StateLayer.ponder_terms`.

        If the halting rule has `mask_padding=True`, the mean does not include padding.
        """
        if not self.act_loss_weight:
            return []
        mask = self.halting.pondering_mask(padding_mask)
        term = state_layer.ponder_term(
            result.ponder_cost, self.act_loss_weight, mask, example_weights
        )
        return [term]

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        max_steps = size.num_steps or self.num_segments * self.halting.max_steps
        stores = super().start_cache(size._replace(num_steps=max_steps))
        if self.halted_positions_are_constant:
            return stores
        return act_decoding.start_cache(self, stores, size)

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        if not isinstance(cache, act_decoding.LazyDepthCache):
            return super().move_columns(cache, size, order)
        cache = cache._replace(stores=super().move_columns(cache.stores, size, order))
        return act_decoding.move_columns(self, cache, size, order)

    @property
    def cache_order_matters(self) -> bool:
        return self.block.cache_order_matters or not self.halted_positions_are_constant

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        """Compute the next positions with a decoding cache. See `Depth.extend`.

        `act_decoding` explains how the cache treats positions that have halted. Under XLA,
        `act_static_decoding` computes the same results.
        """
        if self.steps_sampling is not None and self.steps_sampling.per_example:
            raise ValueError("StepsByLength requires an encoder. Received: a decoding cache.")
        size = window.size
        inputs = StepInputs(window.attention_mask, memory=memory, training=False)
        inputs = inputs._replace(num_steps=size.num_steps, exit_threshold=size.exit_threshold)
        context = self._step_context(state, inputs, window.positions)
        state = initial_state_lib.start(self.initial_state, state, training=False)
        if private_api.is_compiled_by_xla():
            return act_static_decoding.extend(self, state, cache, window, context)
        if not self.halted_positions_are_constant:
            return act_decoding.extend_lazily(self, state, cache, window, context)
        _, output, stores = act_skipping.loop_over_running_positions(
            self, state, context, cache[:-1], window, has_store_per_step=True
        )
        return output, (*stores, cache[-1])

    def _step_context(self, state, inputs, positions=None):
        """Return the `StepContext` of a forward pass whose input is `state` [B, S, D]."""
        max_steps = segments.num_steps(inputs, self.halting.max_steps, self.num_segments)
        positions = tf.range(tf.shape(state)[1]) if positions is None else positions
        signals = self.timing.prepare(positions, max_steps)
        recurrence_input = None if self.injection is None else state
        threshold = inputs.exit_threshold
        epsilon = self.halting.epsilon if threshold is None else 1.0 - threshold
        copy_halted = self.halted_state == "copy"
        return act_step.StepContext(
            inputs=inputs,
            recurrence_input=recurrence_input,
            signals=signals,
            max_steps=max_steps,
            epsilon=epsilon,
            copy_halted=copy_halted,
        )

    @property
    def halted_positions_are_constant(self) -> bool:
        """Whether the keys and values of a halted position are the same at all steps.

        This requires that every step copies the state of a halted position, and that only attention
        mixes positions.
        """
        # A loop that skips halted positions has shapes that change from step to step. The LiteRT
        # interpreter of TensorFlow crashes on such shapes.
        if self.halted_state != "copy" or litert.is_traced():
            return False
        probed = initial_state_lib.probe_positions(self, self.hidden_size)
        return (
            self.block.mixes_by_attention_alone
            and not self.timing.cache_widths()
            and not any(reads.other_positions for _, reads in probed)
        )

    def _can_skip_halted_positions(self, state, inputs):
        """Return whether this forward pass can skip halted positions."""
        if not (self.halted_positions_are_constant and self.halting.halts_independently):
            return False
        # `act_skipping` writes keys and values in place. These writes have no gradient.
        return _allows_skipping(state, inputs) and not private_api.may_record_gradients()

    def _can_skip_halted_examples(self, state, inputs):
        """Return whether this forward pass can skip examples that have halted."""
        return (
            self.halting.per_example and inputs.memory is None and _allows_skipping(state, inputs)
        )

    def _record_residual(self, loop, result):
        record, before = loop.fixed_point_record, loop.loop_state
        running = None
        if record.last:
            running = self.halting.expand_to_state(before.halting.running)
        return fixed_point.add(record, before.step, before.state, result.loop_state.state, running)

    def _record_supervised_step(self, supervised_record, step, result, padding_mask):
        """Return the record with one more step.

        Positions that take no steps, such as padding with `mask_padding=True`, have the state 0 in
        the record and in the output. This matters for classification, because the classification
        head reads the states of all positions.
        """
        state, mask = result.loop_state.state, self.halting.pondering_mask(padding_mask)
        if mask is not None:
            state = tf.where(self.halting.expand_to_state(mask), state, 0)
        weights = self.halting.expand_to_state(result.update_weights)[..., 0]
        weights = tf.broadcast_to(weights, tf.shape(state)[:2])
        return supervised_recording.add(supervised_record, step, state, weights)

    def get_config(self) -> Config:
        config = super().get_config()
        if step_sampling.is_default_uniform(self.steps_sampling, self.halting.max_steps):
            config["steps_sampling"] = "uniform"
        return config

    @classmethod
    def from_config(cls, config: Config) -> Self:
        if "halting" not in config:  # ut_keras 0.1.0 wrote this config
            config = dict(config)
            rule = {new: config.pop(old) for old, new in _HALTING_ARGUMENTS_OF_0_1_0.items()}
            config["halting"] = halting_lib.ACTHalting(**rule)
        return super().from_config(config)


def _check_halting(halting, backprop_steps, steps_sampling):
    """Check that `halting` is a halting rule that allows the other two arguments.

    Raises:
        ValueError: if one of the two conditions is not met.
    """
    if not isinstance(halting, halting_lib.Rule):
        raise ValueError(f"halting must be a halting.Rule. Received: {type(halting).__name__}.")
    if not halting.expected_loss:
        return
    settings = {"backprop_steps": backprop_steps, "steps_sampling": steps_sampling}
    for name, value in settings.items():
        if value is not None:
            raise ValueError(
                f"{name} requires a halting rule without a loss for every step. "
                f"Received: {name}={value} with {type(halting).__name__}."
            )


def _stack_output(output, halting, attention=None, memory_attention=None, steps=None):
    return StackOutput(
        output,
        ponder_times=halting.n_updates,
        remainders=halting.remainders,
        ponder_cost=halting.ponder_cost,
        attention_weights=attention,
        memory_attention_weights=memory_attention,
        steps=steps,
    )


def _allows_skipping(state, inputs):
    """Return whether a forward pass may skip positions or examples.

    Skipping changes the shapes from step to step. It supports neither training nor records.
    """
    # XLA, TPUs and LiteRT need static shapes. By default, Keras traces a model with an unknown
    # batch size. Therefore, if the shape is fully static, the caller probably compiles the model
    # for XLA, a TPU or LiteRT.
    dynamic = tf.executing_eagerly() or not (
        private_api.is_compiled_by_xla() or state.shape[:2].is_fully_defined()
    )
    records = inputs.record_attention or inputs.record_steps or inputs.patches
    return dynamic and not (inputs.training or records or litert.is_traced())


# ut_keras 0.1.0 saved the arguments of the halting rule in the config of `AdaptiveComputationTime`.
# This dict maps their names in that config to their names as arguments of `ACTHalting`.
_HALTING_ARGUMENTS_OF_0_1_0 = {
    "max_steps": "max_steps",
    "epsilon": "epsilon",
    "act_type": "act_type",
    "halting_bias_init": "bias_init",
    "force_final_remainder": "force_final_remainder",
    "mask_padding": "mask_padding",
    "kernel_initializer": "kernel_initializer",
}


@parts.recurrences.register("act")
def _make(hp, side):
    arguments = recurrence_arguments.arguments(hp, side)
    halting = parts.haltings.get(hp.act_type)(hp, side)
    for name in ("recurrence_backprop_steps", "num_rec_steps_sampling"):
        value = getattr(hp, name)
        if value is not None and halting.expected_loss:
            raise HParamError(
                f"{name} requires an act_type without a loss for every step. "
                f"Received: {name}={value} with act_type={hp.act_type!r}."
            )
    return AdaptiveComputationTime(
        **arguments,
        halting=halting,
        halted_state=hp.act_halted_state,
        act_loss_weight=hp.act_loss_weight,
    )
