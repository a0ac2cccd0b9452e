"""The base class of recurrences with a fixed depth, and the basic recurrence."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic.layer import check_least
from ut_keras.layers.basic.signature import PLAIN, Config, StepInputs
from ut_keras.layers.depth import (
    attention_recording,
    depth,
    fixed_point,
    recompute,
    segments,
    stack,
    step_recording,
    step_sampling,
    supervised_recording,
    truncation,
)
from ut_keras.layers.depth import initial_state as initial_state_lib
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.depth.recurrence_arguments import arguments
from ut_keras.layers.depth.stack import BlockOutput
from ut_keras.ops import step_loop


class RecurrenceState(NamedTuple):
    """The state that the loop carries from step to step."""

    step: tf.Tensor  # int32 scalar t, the number of steps taken
    state: tf.Tensor  # [B, S, D], H_t in the paper
    # Further tensors that a subclass carries from step to step. Empty in `BasicRecurrence`.
    carried: tuple
    # The stores of the cache: one dict per layer and one dict for the signals. Empty if there is no
    # cache.
    stores: tuple = ()
    attention_record: tuple = ()  # `AttentionRecord`. Empty if attention weights are not recorded.
    auxiliary_loss_stats: tuple = ()  # In training, one entry per layer. Empty at inference.
    supervised_record: tuple = ()  # `SupervisedRecord`. Empty if the loss uses only the last state.
    fixed_point_record: tuple = ()  # `fixed_point.Record`. Empty in decoding with a cache.
    step_record: tuple = ()  # The record of `step_recording`. Empty without `record_steps`.


class Constants(NamedTuple):
    """The values that `take_step` of a subclass gets in addition to the loop state."""

    # Function (x [B, S, D], step) -> `BlockOutput` that applies injection, signals and block.
    transform: Callable
    inputs: tf.Tensor  # [B, S, D], the input of the recurrence
    padding_mask: tf.Tensor | None  # bool [B, S], True at real tokens
    training: bool | None


class RecurrenceContext(NamedTuple):
    """The values that `Recurrence` reads in every step in addition to the loop state."""

    recurrence_input: tf.Tensor  # [B, S, D]
    signals: Any  # `StepSignals`
    inputs: StepInputs  # `inputs.cache` is the cache of the block


class StepLimits(NamedTuple):
    """The number of steps of a loop."""

    num_steps: Any  # int, or int32 scalar. The loop stops after this step.
    max_steps: int  # the largest possible number of steps
    # int32 [B], the number of steps of each example. An example keeps its state after these steps.
    # None: all examples take `num_steps` steps.
    example_steps: tf.Tensor | None = None


class StepOutput(NamedTuple):
    """The result of one step."""

    state: tf.Tensor  # [B, S, D]
    carried: tuple  # the new value of `RecurrenceState.carried`
    block_output: BlockOutput


class Recurrence(depth.Depth):
    """Base class of recurrences that apply the same step `num_steps` times.

    A subclass implements `take_step`. If its loop carries more tensors than the state, the subclass
    also implements `start`.

    Args:
        block: a `TransformerBlock`. Every step applies the same block.
        timing: a `StepTimingSignal`. It adds the position and step signal P_t.
        num_steps: int N.
        injection: an `InputInjection` or a `ConcatInjection`. With it, every step reads the input
            of the recurrence. With None, only the first step reads this input.
        steps_sampling: a `StepSampling`, or "uniform" for `UniformSteps`. It determines the number
            of steps. With None, training takes N steps, as inference does.
        supervised_every: int k. If k = 0, the training loss is L(H_N), where L(H) is the loss of
            the predictions from the state H. Otherwise the training loss is the mean of the losses
            after every k-th step and after the last step (deep supervision):

                loss = (L(H_k) + L(H_2k) + ... + L(H_N)) / ceil(N / k)

            Training computes the logits of these ceil(N / k) steps at once.
        recompute_grad: bool. Whether training keeps only the state before each step, and recomputes
            the step in the gradient. See `recompute`.
        backprop_steps: int k. In training, the gradient passes through only the last k steps. See
            `truncation`. With None, the gradient passes through all steps.
        initial_state: a `NormalInitialState`. It returns the state before the first step. With
            None, the state before the first step is the input.
        fixed_point_loss_weight: float. Weight of the fixed-point loss, which is the relative change
            of the state in the last step. See `fixed_point`.

    Call arguments and returns: as `StateLayer`.

    Raises:
        ValueError: in these cases.

            - num_steps < 1, or supervised_every < 0.
            - `steps_sampling` is unknown.
            - `backprop_steps` is not in [1, num_steps], or is combined with `supervised_every` or
              `StepsByLength`.
            - `initial_state` is set, and `injection` is None.

    References: T2T `universal_transformer_util.universal_transformer_layer`. For
        `supervised_every`: Lee et al. 2015, Deeply-Supervised Nets. In that paper each layer has
        its own classifier. Here all steps share one classifier.
    """

    layer_attributes: tuple[str, ...] = ("timing", "block", "injection", "initial_state")

    def __init__(
        self,
        block: stack.TransformerBlock,
        timing: keras.layers.Layer,
        num_steps: int,
        injection: keras.layers.Layer | None = None,
        steps_sampling: step_sampling.StepSampling | str | None = None,
        supervised_every: int = 0,
        recompute_grad: bool = False,
        backprop_steps: int | None = None,
        initial_state: keras.layers.Layer | None = None,
        fixed_point_loss_weight: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_least("num_steps", num_steps, 1)
        check_least("supervised_every", supervised_every, 0)
        truncation.check(backprop_steps, num_steps)
        if backprop_steps and supervised_every:
            raise ValueError(
                "backprop_steps cannot be combined with supervised_every, because the losses of "
                "earlier steps need a gradient. "
                f"Received: backprop_steps={backprop_steps}, supervised_every={supervised_every}."
            )
        initial_state_lib.check(initial_state, injection)
        self.block = block
        self.timing = timing
        self.initial_state = initial_state
        self.fixed_point_loss_weight = fixed_point_loss_weight
        self.num_steps = num_steps
        self.injection = injection
        self.supervised_every = supervised_every
        self.recompute_grad = recompute_grad
        self.backprop_steps = backprop_steps
        self.trains_by_steps = supervised_every > 0
        self.steps_sampling = step_sampling.from_argument(steps_sampling, num_steps)
        step_sampling.check_gradient(self.steps_sampling, backprop_steps)

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        """Apply all steps. See `Depth.forward`.

        Returns:
            `StackOutput` without ponder times and remainders. In training with `supervised_every`,
            its `steps` are the supervised steps. In training with several segments, `carried` is
            the state for the next segment.
        """
        self.check_steps(inputs.num_steps)
        limits = self._limits(state, inputs)
        positions = tf.range(tf.shape(state)[1])
        signals = self.timing.prepare(positions, limits.max_steps)
        context = RecurrenceContext(state, signals, inputs._replace(carried=None))
        first = self._first_state(context, limits, inputs.carried)
        apply_step = self._apply_step
        if inputs.training and self.backprop_steps is not None:
            first = self._take_early_steps(first, context, limits)
            limits = limits._replace(max_steps=self.backprop_steps)
        if inputs.training and self.recompute_grad:
            apply_step = functools.partial(recompute.Recomputation(self), self._apply_step)
        last = self._loop(first, context, limits, apply_step)
        # If the number of steps is an int, XLA knows the shape of the records.
        num_steps = limits.num_steps if isinstance(limits.num_steps, int) else last.step
        attention, memory_attention = attention_recording.stack(
            last.attention_record, self.block, num_steps
        )
        has_next_segment = inputs.training and self.num_segments > 1
        return StackOutput(
            self.finish(last),
            attention_weights=attention,
            memory_attention_weights=memory_attention,
            auxiliary_loss_stats=last.auxiliary_loss_stats,
            steps=supervised_recording.stack(last.supervised_record),
            **fixed_point.finish(last.fixed_point_record, num_steps),
            carried=segments.carry(last.state) if has_next_segment else None,
            recorded=step_recording.stack(last.step_record, last.step),
        )

    def _limits(self, state, inputs):
        """Return the `StepLimits` of a forward pass over `state` [B, S, D]."""
        sampling, mask = self.steps_sampling, inputs.padding_mask
        max_steps = segments.num_steps(inputs, self.num_steps, self.num_segments)
        example_steps = step_sampling.example_steps(sampling, state, mask, inputs.num_steps)
        if example_steps is not None:
            return StepLimits(tf.reduce_max(example_steps), max_steps, example_steps)
        if inputs.training and sampling is not None and inputs.num_steps is None:
            return StepLimits(sampling.sample(), max_steps)
        return StepLimits(max_steps, max_steps)

    def _first_state(self, context, limits, carried):
        """Return the `RecurrenceState` before the first step, with empty records.

        Args:
            carried: the `Carried` of the previous segment, or None.
        """
        inputs, training = context.inputs, context.inputs.training
        recurrence_input = context.recurrence_input
        if carried is None:
            state = initial_state_lib.start(self.initial_state, recurrence_input, training)
        else:
            state = carried.state
        supervised_record: tuple = ()
        if training and self.supervised_every:
            num_entries = -(-limits.max_steps // self.supervised_every)
            supervised_record = supervised_recording.start(recurrence_input, num_entries)
        has_fixed_point_loss = bool(training and self.fixed_point_loss_weight)
        first = RecurrenceState(
            step=tf.constant(0),
            state=state,
            carried=self.start(state, limits.max_steps),
            attention_record=attention_recording.start(inputs, self.block, limits.max_steps),
            auxiliary_loss_stats=(
                self.block.start_auxiliary_loss_stats(recurrence_input) if training else ()
            ),
            supervised_record=supervised_record,
            fixed_point_record=fixed_point.start(
                recurrence_input,
                inputs.record_attention,
                has_fixed_point_loss,
                limits.max_steps,
            ),
        )
        output = self.finish(first)
        step_record = step_recording.start(inputs, state, output, limits.max_steps)
        return first._replace(step_record=step_record)

    def _take_early_steps(self, first, context, limits):
        """Take all steps except the last `backprop_steps`, without gradient."""
        truncation.check(self.backprop_steps, limits.max_steps)
        max_early = limits.max_steps - self.backprop_steps
        if not max_early:
            return first
        early = StepLimits(limits.num_steps - self.backprop_steps, max_early)
        state = truncation.without_gradient(
            lambda: self._loop(first, context, early, self._apply_step)
        )
        if not tf.is_tensor(limits.num_steps):
            return state
        # A sampled number of steps may be so small that all steps have a gradient.
        return truncation.start_or_constant(early.num_steps <= 0, first, state)

    def _loop(self, first, context, limits, apply_step):
        """Take steps until the limit, and return the last `RecurrenceState`.

        Args:
            first: `RecurrenceState` before the first step.
            context: `RecurrenceContext`.
            limits: `StepLimits`.
            apply_step: `_apply_step`, or a function with the same arguments and result.
        """
        return step_loop.run(
            self,
            lambda loop: loop.step < limits.num_steps,
            lambda loop: self._loop_body(loop, context, limits, apply_step),
            first,
            limits.max_steps,
            takes_all_steps=isinstance(limits.num_steps, int),
        )

    def _loop_body(self, loop, context, limits, apply_step):
        """Take one step, and add it to the records."""
        # A step does not read the records. With `recompute`, they must not be arguments.
        result = apply_step(RecurrenceState(loop.step, loop.state, loop.carried), context)
        new = _state_after(loop, result, context.inputs.patches)
        running = None
        if limits.example_steps is not None:
            is_running = loop.step < limits.example_steps
            running = is_running[:, tf.newaxis, tf.newaxis]
            new = _freeze_finished_examples(is_running, new, loop)
        new = _with_static_shapes(new, loop)
        new = new._replace(
            attention_record=attention_recording.add(
                loop.attention_record, loop.step, result.block_output
            ),
            supervised_record=self._record_supervised_step(loop, new.state, limits),
            fixed_point_record=fixed_point.add(
                loop.fixed_point_record, loop.step, loop.state, new.state, running
            ),
        )
        if not loop.step_record:
            return new
        output = self.finish(new)
        step_record = step_recording.add(loop.step_record, new.step, new.state, output)
        return new._replace(step_record=step_record)

    def _apply_step(self, loop, context, signal_cache=None):
        """Take one step without records, and return its `StepOutput`.

        Args:
            signal_cache: `LayerCache` of the signals. None without a cache.
        """
        inputs = context.inputs

        def transform(x, step):
            x = x if self.injection is None else self.injection(x, context.recurrence_input)
            x = self.timing(x, step, context.signals, cache=signal_cache)
            return self.block.forward(x, inputs)

        result = self.take_step(
            loop,
            Constants(transform, context.recurrence_input, inputs.padding_mask, inputs.training),
        )
        block_output = recompute.without_attention_weights(result.block_output, inputs)
        return result._replace(block_output=block_output)

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        num_steps = size.num_steps or self.num_segments * self.num_steps
        if not step_loop.is_unrolled(num_steps):
            return super().start_cache(size)
        # With one cache for all steps, XLA would copy the stores of each step out of this cache.
        # Therefore the cache is a tuple with a separate cache for each step.
        one_step = size._replace(num_steps=1)
        start = super().start_cache
        return tuple(start(one_step) for _ in range(num_steps))

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        if not _has_a_cache_for_each_step(cache):
            return super().move_columns(cache, size, order)
        move = super().move_columns
        return tuple(move(part, size, order) for part in cache)

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        if self.steps_sampling is not None and self.steps_sampling.per_example:
            raise ValueError("StepsByLength requires an encoder. Received: a decoding cache.")
        num_steps = window.size.num_steps or self.num_segments * self.num_steps
        signals = self.timing.prepare(window.positions, num_steps)
        inputs = StepInputs(window.attention_mask, memory=memory, training=False)
        layouts = cache_lib.layouts(self._cache_widths(), window)
        is_separate = _has_a_cache_for_each_step(cache)
        start = initial_state_lib.start(self.initial_state, state, training=False)
        first = RecurrenceState(tf.constant(0), start, self.start(start, num_steps), cache)

        def body(loop):
            stores, step, later = loop.stores, loop.step, ()
            if is_separate:  # the first cache belongs to this step
                stores, step, later = loop.stores[0], 0, loop.stores[1:]
            *caches, signal_cache = cache_lib.layer_caches(stores, step, layouts)
            context = RecurrenceContext(state, signals, inputs._replace(cache=caches))
            new = _state_after(loop, self._apply_step(loop, context, signal_cache))
            stores = tuple(part.stores for part in (*caches, signal_cache))
            if is_separate:  # after all steps, the caches are in the order of the steps again
                stores = (*later, stores)
            return _with_static_shapes(new, loop)._replace(stores=stores)

        last = step_loop.run(
            self, lambda loop: loop.step < num_steps, body, first, num_steps, takes_all_steps=True
        )
        return self.finish(last), last.stores

    def _record_supervised_step(self, loop, state, limits):
        """Return `loop.supervised_record` with the state after this step.

        Steps 1 .. k share one entry of the record, steps k + 1 .. 2k share the next entry, and so
        on. Each step overwrites the previous step in its entry. Therefore the record contains every
        k-th step and the last step.
        """
        if not loop.supervised_record:
            return ()
        every, shape = self.supervised_every, tf.shape(state)[:2]
        example_steps = limits.example_steps
        steps = limits.num_steps if example_steps is None else example_steps[:, tf.newaxis]
        count = -(-steps // every)  # the number of entries with a loss, [B, 1] or scalar
        weights = tf.broadcast_to(1.0 / tf.cast(count, tf.float32), shape)
        if example_steps is not None:
            weights = tf.where(loop.step // every < count, weights, 0.0)
        return supervised_recording.add(loop.supervised_record, loop.step // every, state, weights)

    def start(self, state: tf.Tensor, num_steps: int) -> tuple:
        """Return the initial value of `RecurrenceState.carried`.

        Args:
            state: float tensor [B, S, D].
            num_steps: int. The largest possible number of steps.
        """
        return ()

    def take_step(self, loop: RecurrenceState, constants: Constants) -> StepOutput:
        """Compute one step. Subclasses implement this method."""
        raise NotImplementedError

    def finish(self, last: RecurrenceState) -> tf.Tensor:
        """Return the output [B, S, D] from the `RecurrenceState` after the last step."""
        return last.state

    def get_config(self) -> Config:
        config = super().get_config()
        if step_sampling.is_default_uniform(self.steps_sampling, self.num_steps):
            config["steps_sampling"] = "uniform"
        return config


def _has_a_cache_for_each_step(cache):
    """Return whether a cache is a tuple of caches, one for each step."""
    return isinstance(cache[0], tuple)


def _state_after(loop, result, patches=None):
    """Return the `RecurrenceState` after a step.

    Its records do not include the step yet.

    Args:
        loop: `RecurrenceState` before the step.
        result: `StepOutput` of the step.
        patches: as in `StepInputs`.
    """
    step = loop.step + 1
    return loop._replace(
        step=step,
        state=step_recording.patch(result.state, step, patches),
        carried=result.carried,
        auxiliary_loss_stats=stack.add_auxiliary_loss_stats(
            loop.auxiliary_loss_stats, result.block_output
        ),
    )


def _freeze_finished_examples(is_running, new, old):
    """Return `new`, with the values of `old` for the examples that have finished.

    An example has finished when it has taken all its steps.

    Args:
        is_running: bool [B], True for the examples that take this step.
        new, old: `RecurrenceState` after and before the step.
    """
    state, carried, stats = step_sampling.where_running(
        is_running,
        (new.state, new.carried, new.auxiliary_loss_stats),
        (old.state, old.carried, old.auxiliary_loss_stats),
    )
    return new._replace(state=state, carried=carried, auxiliary_loss_stats=stats)


def _with_static_shapes(new, old):
    """Return `new`, whose state and carried tensors get the static shapes of `old`."""
    pairs = zip((new.state, *new.carried), (old.state, *old.carried), strict=True)
    for changed, before in pairs:
        changed.set_shape(before.shape)
    return new


@keras.saving.register_keras_serializable(package="ut_keras")
class BasicRecurrence(Recurrence):
    """Applies the block at every step (`recurrence_type="basic"`).

        H_t = Block(H_{t-1} + P_t),   t = 1 .. N       (Dehghani et al. 2019, section 2.1)

    Args:
        *args, **kwargs: the arguments of `Recurrence`.
        num_segments: int M. In training, a forward pass takes N steps, and carries the state to the
            next segment. At inference, it takes M · N steps. See `segments`. If M > 1, `timing`
            must have `repeats=True`.

    Call arguments and returns: as `Recurrence`.

    Raises:
        ValueError: as `Recurrence`. Also if num_segments < 1, or if several segments are combined
            with `steps_sampling` or with a `timing` layer whose signals do not repeat.

    References: T2T `universal_transformer_util.universal_transformer_basic`.
    """

    def __init__(
        self,
        block: stack.TransformerBlock,
        timing: keras.layers.Layer,
        num_steps: int,
        *args: Any,
        num_segments: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(block, timing, num_steps, *args, **kwargs)
        segments.check_arguments(num_segments, timing, self.steps_sampling)
        self.num_segments = num_segments

    def take_step(self, loop: RecurrenceState, constants: Constants) -> StepOutput:
        result = constants.transform(loop.state, loop.step)
        return StepOutput(result.output, (), result)


@parts.recurrences.register("basic")
def _make_basic(hp, side):
    return BasicRecurrence(**arguments(hp, side), num_steps=hp.num_rec_steps)
