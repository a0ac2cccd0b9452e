"""Adaptive Computation Time: every position decides at which step it is done.

At each step a position gets a probability of halting. It halts as soon as the sum of these passes
1 - epsilon; what is missing to 1 at that moment is its remainder, and counts as the probability of
its last step. The output mixes the states of all steps by these weights. A ponder cost, the mean
of steps + remainder, teaches it not to think longer than it helps (Graves 2016; Dehghani et al.
2019, section 2.2).

T2T departs from both papers, and its way is the default here: the options `halted_state` and, of
`halting.ACTHalting`, `act_type`, `force_final_remainder` and `mask_padding` name the others.
"""

from typing import Any, NamedTuple, Self

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic.layer import check_choice
from ut_keras.layers.basic.signature import PLAIN, Config, Shape, StepInputs
from ut_keras.layers.depth import (
    act_decoding,
    act_skipping,
    act_step,
    depth,
    recurrence,
    stack,
    state_layer,
)
from ut_keras.layers.depth.depth import StackOutput
from ut_keras.layers.halting import halting as halting_lib
from ut_keras.ops import litert, private_api

HALTED_STATES = ("transform", "copy")


class ACTState(NamedTuple):
    """What the loop over all positions carries from step to step."""

    rows: act_step.Pondering  # int32 scalar step; state, output [B, S, D]; `Halting` float32
    record: tuple  # `AttentionRecord`, or () when nothing is recorded
    steps: tuple  # `StepRecord`, or () where the loss is not of all steps
    tally: tuple  # of each layer that of `StateLayer.start_tally`; () but in training


@keras.saving.register_keras_serializable(package="ut_keras")
class AdaptiveComputationTime(depth.Depth):
    """Applies one block until every position has halted.

    A position's output depends on states at no deeper step than its own last one: it is the same
    whatever shares the batch with it, and, under a causal mask, whatever follows it.
    (`act_type="global"` is neither.)

        x^n = s^{n-1} + P_n;   s^n = Block(x^n);   output = the s^n mixed by the weights w^n

    Who halts, and so w^n, is the `halting.Rule`'s to say.

    Args:
        block: a `TransformerBlock`, the same at every step.
        timing: a `StepTimingSignal`, P.
        halting: an `ACTHalting`, or another layer that is a `halting.Rule`.
        halted_state: "transform": a halted position goes on being transformed and attended to,
            only its output is frozen; "copy": it is left as it is, as in the paper, and inference
            computes no more of it (`act_skipping`; that pass has no gradient).
        injection: an `InputInjection`, by which every step sees the input; None: only the first.
        act_loss_weight: float. What the mean ponder cost weighs in the loss.
    Call arguments and returns: as `StateLayer`.
    Raises:
        ValueError: if `halted_state` is unknown.
    References: T2T `universal_transformer_util.universal_transformer_act`.
    """

    layer_attributes = ("timing", "halting", "block", "injection")
    hidden_size = 0  # D, once it is built

    def __init__(
        self,
        block: stack.TransformerBlock,
        timing: keras.layers.Layer,
        halting: halting_lib.Rule,
        halted_state: str = "transform",
        act_loss_weight: float = 0.01,
        injection: keras.layers.Layer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("halted_state", halted_state, HALTED_STATES)
        self.block = block
        self.timing = timing
        self.halting = halting
        self.halted_state = halted_state
        self.act_loss_weight = act_loss_weight
        self.injection = injection
        self.trains_by_steps = halting.expected_loss

    def build(self, state_shape: Shape) -> None:
        super().build(state_shape)
        self.hidden_size = state_shape[-1]

    @property
    def rule(self) -> halting_lib.Rule:
        return self.halting

    def forward(self, state: tf.Tensor, inputs: StepInputs = PLAIN) -> StackOutput:
        """See `Depth.forward`.

        Returns:
            `StackOutput`: output [B, S, D]; ponder_times U, in steps; remainders U, in [0, 1];
            ponder_cost U; steps, if the rule wants a loss of all of them.
        """
        given = self._given(state, inputs)
        if self._skips_halted(state, inputs):
            halting, output = act_skipping.run_positions(self, state, given)
            return _output(output, halting)
        start = act_step.start(self, state, inputs.padding_mask)
        if self._lets_go_of_halted(state, inputs):
            last = act_skipping.run_examples(self, start, given)
            return _output(last.output, last.halting)
        return self._run(start, given)

    def _run(self, start, given):
        """The loop in which all positions take all steps."""
        inputs = given.inputs
        wants_steps = inputs.training and self.halting.expected_loss
        (last,) = tf.while_loop(
            lambda loop: self.halting.may_step(loop.rows.halting, given.max_steps, given.epsilon),
            lambda loop: (self._take_step(loop, given),),
            (
                ACTState(
                    start,
                    depth.start_attention(inputs.record_attention, inputs.memory),
                    depth.start_steps(start.state, given.max_steps) if wants_steps else (),
                    self.block.start_tally(start.state) if inputs.training else (),
                ),
            ),
            maximum_iterations=given.max_steps,
        )
        steps = depth.stack_steps(last.steps)
        if steps is not None:
            confidence = self.halting.confidence(steps.states, inputs.padding_mask)
            steps = steps._replace(confidence=confidence)
        record = depth.stack_attention(last.record)
        output = _output(last.rows.output, last.rows.halting, *record, steps)
        return output._replace(tally=last.tally)

    def _take_step(self, loop, given):
        taken = act_step.take(self, loop.rows, given)
        step, real = loop.rows.step, given.inputs.padding_mask
        steps = loop.steps and self._add_to_record(loop.steps, step, taken, real)
        record = depth.add_attention(loop.record, step, taken.block_output)
        return ACTState(taken.loop, record, steps, stack.add_tally(loop.tally, taken.block_output))

    def ponder_terms(
        self, result: Any, padding_mask: tf.Tensor | None, rows: tf.Tensor | None = None
    ) -> list[state_layer.PonderTerm]:
        """See `StateLayer.ponder_terms`: the mean of the ponder cost of all that ponder."""
        if not self.act_loss_weight:
            return []
        counted = self.halting.counted(padding_mask)
        return [state_layer.ponder_term(result.ponder_cost, self.act_loss_weight, counted, rows)]

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        most = size.num_steps or self.halting.max_steps
        stores = super().start_cache(size._replace(num_steps=most))
        if self.halted_are_constant:
            return stores
        return act_decoding.start_cache(self, stores, size)

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        if not isinstance(cache, act_decoding.HaltedCache):
            return super().move_columns(cache, size, order)
        cache = cache._replace(stores=super().move_columns(cache.stores, size, order))
        return act_decoding.move_columns(self, cache, size, order)

    @property
    def places_matter(self) -> bool:
        return self.block.places_matter or not self.halted_are_constant

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        """See `Depth.extend`; with what `act_decoding` does for halted positions."""
        size = window.size
        inputs = StepInputs(window.attention_mask, memory=memory, training=False)
        inputs = inputs._replace(num_steps=size.num_steps, exit_threshold=size.exit_threshold)
        given = self._given(state, inputs, window.positions)
        if not self.halted_are_constant:
            return act_decoding.extend_deepening(self, state, cache, window, given)
        _, output, stores = act_skipping.loop_over_running(
            self, state, given, cache[:-1], window, store_of_step=lambda step: step
        )
        return output, (*stores, cache[-1])

    def _given(self, state, inputs, positions=None):
        max_steps = inputs.num_steps or self.halting.max_steps
        positions = tf.range(tf.shape(state)[1]) if positions is None else positions
        signals = self.timing.prepare(positions, max_steps)
        first = None if self.injection is None else state
        threshold = inputs.exit_threshold
        epsilon = self.halting.epsilon if threshold is None else 1.0 - threshold
        copies = self.halted_state == "copy"
        return act_step.Given(inputs, first, signals, max_steps, epsilon, copies=copies)

    @property
    def halted_are_constant(self) -> bool:
        """Whether what others see of a halted position never changes any more."""
        only_attention = self.block.mixes_by_attention_alone and not self.timing.cache_widths()
        # Computing what still runs alone takes shapes that change from step to step: of LiteRT's
        # interpreters the one in TensorFlow does not survive them.
        return self.halted_state == "copy" and only_attention and not litert.is_traced()

    def _skips_halted(self, state, inputs):
        """Whether a call need not compute halted positions at all."""
        alone = self.halted_are_constant and self.halting.decides_alone
        # What is written in place has no gradient.
        return alone and _may_leave_out(state, inputs) and not private_api.may_record_gradients()

    def _lets_go_of_halted(self, state, inputs):
        """Whether a call need not compute examples that have halted as a whole."""
        alone = self.halting.by_example and inputs.memory is None
        return alone and _may_leave_out(state, inputs)

    def _add_to_record(self, steps, step, taken, padding_mask):
        """The steps so far. A class is of all positions: those that do not ponder are 0, as they
        are in the output.
        """
        state, counted = taken.loop.state, self.halting.counted(padding_mask)
        if counted is not None:
            state = tf.where(self.halting.per_position(counted), state, 0)
        weights = self.halting.per_position(taken.update_weights)[..., 0]
        weights = tf.broadcast_to(weights, tf.shape(state)[:2])
        return depth.add_steps(steps, step, state, weights)

    @classmethod
    def from_config(cls, config: Config) -> Self:
        if "halting" not in config:
            config = dict(config)
            rule = {new: config.pop(old) for old, new in _RULE_OF_0_1_0.items()}
            config["halting"] = halting_lib.ACTHalting(**rule)
        return super().from_config(config)


def _output(output, halting, attention=None, memory_attention=None, steps=None):
    times, remainders, cost = halting.n_updates, halting.remainders, halting.ponder_cost
    return StackOutput(output, times, remainders, attention, memory_attention, cost, steps=steps)


def _may_leave_out(state, inputs):
    """Whether nobody asks for more than the output, and shapes may change from step to step."""
    # XLA, TPUs and LiteRT want fixed ones; Keras compiles for any number of rows.
    free = tf.executing_eagerly() or not (
        private_api.is_compiled_by_xla() or state.shape[:2].is_fully_defined()
    )
    return free and not (inputs.training or inputs.record_attention or litert.is_traced())


# The arguments of the rule, which is a layer of its own, where 0.1.0 saved them among the others.
_RULE_OF_0_1_0 = {
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
    return AdaptiveComputationTime(
        **recurrence.arguments(hp, side),
        halting=parts.haltings.get(hp.act_type)(hp, side),
        halted_state=hp.act_halted_state,
        act_loss_weight=hp.act_loss_weight,
    )
