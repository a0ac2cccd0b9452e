"""Recurrence in depth with a fixed number of steps: the loop, and its plainest form."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam import HParamError, UniversalTransformerHParams
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import from_hparams
from ut_keras.layers.basic.signature import PLAIN, Config, Shape, StepInputs
from ut_keras.layers.depth import (
    attention_record,
    depth,
    input_injection,
    step_record,
    step_sampling,
    transformer_block,
)
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.depth.transformer_block import BlockOutput
from ut_keras.layers.position import timing_signal
from ut_keras.layers.transition import sru


class RecurrenceState(NamedTuple):
    """What the loop carries from step to step."""

    step: tf.Tensor  # int32 scalar t
    state: tf.Tensor  # [B, S, D], H_t in the paper
    carried: tuple  # tensors that a variant keeps besides; () in the plainest form
    stores: tuple  # of a cache, one dict per layer and one for the signals; () without a cache
    record: tuple  # `AttentionRecord`, or () when nothing is recorded
    steps: tuple  # `StepRecord`, or () when not every step is trained
    tally: tuple = ()  # of each layer that of `StateLayer.start_tally`; () but in training


class Constants(NamedTuple):
    """What is the same at every step."""

    transform: Callable  # (x [B, S, D], step) -> `BlockOutput`: signals and block
    inputs: tf.Tensor  # [B, S, D], H_0
    padding_mask: tf.Tensor | None  # bool [B, S], True at real tokens
    training: bool | None


class StepOutput(NamedTuple):
    """What one step computes."""

    state: tf.Tensor  # [B, S, D]
    carried: tuple  # as in `RecurrenceState`
    block_output: BlockOutput


class Recurrence(depth.Depth):
    """Takes the same step `num_steps` times, on all positions in parallel.

    What a step is, a subclass says in `take_step`; what it keeps besides the state, in `start`.

    Args:
        block: a `TransformerBlock`, the same at every step.
        timing: a `StepTimingSignal`, P_t.
        num_steps: int N.
        injection: an `InputInjection`, by which every step sees the input; None: only the first.
        steps_sampling: "uniform" or "lognormal_poisson": in training the number of steps is drawn,
            see `StepSampling`. None: it is N there, too.
        backprop_steps: int k. Training has gradients through the last k steps alone: the state
            before them is a constant, so without an injection all before the recurrence has none.
            0: through all.
        supervised_every: int k. The loss of training is the mean of those after every k-th step
            and after the last, each step taken for the last one (deep supervision),

                loss = (L(H_k) + L(H_2k) + ... + L(H_N)) / ceil(N / k)

            where the output is what is answered: in decoders, and in an encoder alone. It takes the
            logits of so many steps at once. 0: the loss is L(H_N).
        answers: bool. Whether nothing but the loss looks at the output.
    Call arguments and returns: as `StateLayer`.
    Raises:
        ValueError: if num_steps < 1, backprop_steps < 0 or supervised_every < 0.
    References: T2T `universal_transformer_util.universal_transformer_layer`; of `backprop_steps`
        Geiping et al. 2025, which has k = 8; of `supervised_every` Lee et al. 2015, Deeply-
        Supervised Nets, whose layers have classifiers of their own (here there is one for all).
    """

    layer_arguments: tuple[str, ...] = ("block", "timing", "injection")

    def __init__(
        self,
        block: transformer_block.TransformerBlock,
        timing: keras.layers.Layer,
        num_steps: int,
        injection: keras.layers.Layer | None = None,
        steps_sampling: str | None = None,
        backprop_steps: int = 0,
        supervised_every: int = 0,
        answers: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if num_steps < 1:
            raise ValueError(f"num_steps must be at least 1. Received: {num_steps}.")
        if backprop_steps < 0:
            raise ValueError(f"backprop_steps must be at least 0. Received: {backprop_steps}.")
        if supervised_every < 0:
            raise ValueError(f"supervised_every must be at least 0. Received: {supervised_every}.")
        self.block = block
        self.timing = timing
        self.num_steps = num_steps
        self.injection = injection
        self.backprop_steps = backprop_steps
        self.supervised_every = supervised_every
        self.trains_by_steps = supervised_every > 0
        self.answers = answers
        self.steps_sampling = None
        if steps_sampling is not None:
            self.steps_sampling = step_sampling.StepSampling(steps_sampling, num_steps)

    def build(self, state_shape: Shape) -> None:
        for layer in (self.timing, self.block, self.injection):
            if layer is not None and not layer.built:
                layer.build(state_shape)

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        """See `Depth.forward`; no ponder times and no remainders.

        In training there are steps if `supervised_every` wants a loss of some.
        """
        training = inputs.training
        self.check_steps(inputs.num_steps)
        num_steps: Any = inputs.num_steps or self.num_steps
        most = num_steps
        if training and self.steps_sampling is not None:
            num_steps, most = self.steps_sampling.draw(), self.steps_sampling.most
        signals = self.timing.prepare(tf.range(tf.shape(state)[1]), most)

        def transform(x, step):
            return self.block.forward(self.timing(self._begin(x, state), step, signals), inputs)

        constants = Constants(transform, state, inputs.padding_mask, training)
        loop = RecurrenceState(
            tf.constant(0),
            state,
            self.start(state, most),
            (),
            attention_record.start(inputs.record_attention, inputs.memory),
            self._record_of_steps(state, most, training),
            self.block.start_tally(state) if training else (),
        )
        if training and self.backprop_steps:
            loop = self._without_gradient(loop, constants, num_steps - self.backprop_steps, most)
            most = self.backprop_steps
        last = self._loop(loop, (), lambda caches: constants, num_steps, most)
        return StackOutput(
            self.finish(last),
            None,
            None,
            *attention_record.stack(last.record),
            tally=last.tally,
            steps=_alike(step_record.stack(last.steps)),
        )

    def _record_of_steps(self, state, most, training):
        wanted = bool(training and self.answers and self.supervised_every)
        return step_record.start(wanted, state, -(-most // self.supervised_every) if wanted else 0)

    def _without_gradient(self, first, constants, num_steps, most):
        """The loop after so many steps, as a constant; as it is if they are none."""

        def steps():
            last = self._loop(first, (), lambda caches: constants, num_steps, most)
            fixed = (last.state, last.carried, last.tally)
            state, carried, tally = tf.nest.map_structure(tf.stop_gradient, fixed)
            return last._replace(state=state, carried=carried, tally=tally)

        if isinstance(num_steps, int):
            return steps() if num_steps > 0 else first
        return tf.cond(num_steps > 0, steps, lambda: first)

    def check_steps(self, num_steps: int | None) -> None:
        """See `Depth.check_steps`."""
        self.timing.check_steps(num_steps)

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        """See `Depth.start_cache`: the stores of each layer, and of the signals."""
        return tuple(
            cache_lib.start(widths, size, size.num_steps or self.num_steps, self.compute_dtype)
            for widths in self._cache_widths()
        )

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        """See `Depth.move_columns`."""
        return tuple(
            cache_lib.moved(part, widths, size, order)
            for part, widths in zip(cache, self._cache_widths(), strict=True)
        )

    @property
    def places_matter(self) -> bool:
        """See `Depth.places_matter`."""
        return self.block.places_matter or bool(self.timing.cache_widths())

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        """See `Depth.extend`."""
        num_steps = window.size.num_steps or self.num_steps
        signals = self.timing.prepare(window.positions, num_steps)
        inputs = StepInputs(window.attention_mask, memory=memory, training=False)

        def make_constants(caches):
            def transform(x, step):
                x = self.timing(self._begin(x, state), step, signals, cache=caches[-1])
                return self.block.forward(x, inputs._replace(cache=caches[:-1]))

            return Constants(transform, state, None, False)

        layouts = [cache_lib.Layout(widths, window) for widths in self._cache_widths()]
        carried = self.start(state, num_steps)
        first = RecurrenceState(tf.constant(0), state, carried, cache, (), ())
        last = self._loop(first, layouts, make_constants, num_steps, num_steps)
        return self.finish(last), last.stores

    def _begin(self, state, inputs):
        """What a step gets, without its signals."""
        return state if self.injection is None else self.injection(state, inputs)

    def _cache_widths(self):
        return (*self.block.cache_widths(), self.timing.cache_widths())

    def _loop(self, first, layouts, make_constants, num_steps, most):
        """Until so many steps are taken, of which at most some are taken here.

        `make_constants` gets the caches, none where there are no stores.
        """

        def body(loop):
            caches = [
                cache_lib.LayerCache(part, loop.step, layout)
                for part, layout in zip(loop.stores, layouts, strict=True)
            ]
            result = self.take_step(loop, make_constants(caches))
            result.state.set_shape(loop.state.shape)
            steps = loop.steps
            if steps:  # in place of the one before, unless that was a k-th
                place = loop.step // self.supervised_every
                one = tf.ones(tf.shape(loop.state)[:2])
                steps = step_record.add(steps, place, result.state, one)
            for new, old in zip(result.carried, loop.carried, strict=True):
                new.set_shape(old.shape)
            return (
                RecurrenceState(
                    loop.step + 1,
                    result.state,
                    result.carried,
                    tuple(cache.stores for cache in caches),
                    attention_record.add(loop.record, loop.step, result.block_output),
                    steps,
                    transformer_block.add_tally(loop.tally, result.block_output),
                ),
            )

        (last,) = tf.while_loop(
            lambda loop: loop.step < num_steps,
            body,
            (first,),
            maximum_iterations=most,
        )
        return last

    def start(self, state: tf.Tensor, num_steps: int) -> tuple:
        """What the loop carries at first, besides the state: a tuple of tensors.

        Args:
            state: float tensor [B, S, D].
            num_steps: int. The most steps that the loop takes.
        """
        return ()

    def take_step(self, loop: RecurrenceState, constants: Constants) -> StepOutput:
        """One step.

        Args:
            loop: `RecurrenceState`.
            constants: `Constants`.
        Returns:
            `StepOutput`.
        """
        raise NotImplementedError

    def finish(self, last: RecurrenceState) -> tf.Tensor:
        """The output [B, S, D], from the `RecurrenceState` after the last step."""
        return last.state

    def get_config(self) -> Config:
        kind = None if self.steps_sampling is None else self.steps_sampling.kind
        return {**super().get_config(), "steps_sampling": kind}


def _alike(steps):
    """`Steps` of 1 where there is one, with weights that sum to 1; None if there are none."""
    return steps and steps._replace(weights=steps.weights / tf.reduce_sum(steps.weights, axis=0))


@keras.saving.register_keras_serializable(package="ut_keras")
class BasicRecurrence(Recurrence):
    """Applies the block, and nothing else (`recurrence_type="basic"`).

        H_t = Block(H_{t-1} + P_t),   t = 1 .. N       (Dehghani et al. 2019, section 2.1)

    Arguments, call arguments and returns: as `Recurrence`.
    References: T2T `universal_transformer_util.universal_transformer_basic`.
    """

    def take_step(self, loop: RecurrenceState, constants: Constants) -> StepOutput:
        result = constants.transform(loop.state, loop.step)
        return StepOutput(result.output, (), result)


@parts.recurrences.register("basic")
def _make_basic(hp, side):
    return BasicRecurrence(**arguments(hp, side), num_steps=hp.num_rec_steps)


def arguments(hp: UniversalTransformerHParams, side: parts.Side) -> dict[str, Any]:
    """What all recurrences take, but for the number of steps.

    Raises:
        HParamError: if `num_rec_steps_sampling`, `recurrence_input_injection`,
            `recurrence_backprop_steps` or `recurrence_supervised_every` does not go with the rest.
    """
    steps = hp.act_max_steps if hp.recurrence_type == "act" else hp.num_rec_steps
    timing = timing_signal.make(hp, steps)
    if hp.add_sru:
        dtype = from_hparams.dtype_policy(hp)
        timing = sru.TimingAndSRU(timing, sru.make(hp, side), name="signals", dtype=dtype)
    given = {
        "block": transformer_block.make(hp, side, hp.num_inrecurrence_layers, "rec_layer"),
        "timing": timing,
        "name": "depth",
        "dtype": from_hparams.dtype_policy(hp),
    }
    if hp.recurrence_input_injection != "none":
        given["injection"] = input_injection.make(hp)
    if hp.recurrence_backprop_steps:
        if hp.recurrence_type == "act" or hp.recurrence_input_injection == "none":
            raise HParamError(
                "recurrence_backprop_steps needs recurrence_type='basic' and an injection of the "
                "input, which else has no gradient. "
                f"Received: recurrence_type={hp.recurrence_type!r}, "
                f"recurrence_input_injection={hp.recurrence_input_injection!r}."
            )
        given["backprop_steps"] = hp.recurrence_backprop_steps
    if hp.recurrence_supervised_every:
        _check_supervision(hp)
        given["supervised_every"] = hp.recurrence_supervised_every
        given["answers"] = side.answers
    kind = hp.num_rec_steps_sampling
    if kind is None:
        return given
    reason = _why_not_sampled(hp)
    if reason:
        raise HParamError(f"{reason} Received: num_rec_steps_sampling={kind!r}.")
    return {**given, "steps_sampling": kind}


def _check_supervision(hp):
    """Raises HParamError: if not every step can be taken for the last, with a gradient."""
    mixed = hp.mix_with_transformer or ""
    if hp.recurrence_type != "basic" or "after_ut" in mixed or hp.recurrence_backprop_steps:
        raise HParamError(
            "recurrence_supervised_every needs recurrence_type='basic', nothing after the "
            "recurrence and gradients through all steps. "
            f"Received: recurrence_type={hp.recurrence_type!r}, mix_with_transformer={mixed!r}, "
            f"recurrence_backprop_steps={hp.recurrence_backprop_steps}."
        )


def _why_not_sampled(hp):
    """What has to be otherwise, in words; "" if nothing."""
    if hp.recurrence_type == "act":
        return "num_rec_steps_sampling needs a fixed number of steps, not recurrence_type='act'."
    if hp.num_rec_steps_sampling == "uniform":
        return ""
    if hp.add_step_timing_signal and hp.step_timing_signal_type == "learned":
        return "Signals of more steps than num_rec_steps need step_timing_signal_type='sinusoid'."
    if hp.position_start_index == "step":
        return "position_start_index must not be 'step', which goes by the number of steps."
    if hp.recurrence_type == "dwa" and hp.depth_embedding:
        return "Attention to more steps than num_rec_steps needs depth_embedding=False."
    return ""
