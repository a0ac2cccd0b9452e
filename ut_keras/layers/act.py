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
from ut_keras.layers import (
    act_decoding,
    act_leaving,
    act_skipping,
    attention_record,
    depth,
    litert,
    ponder_cost,
    recurrence,
    same_weights,
    step_record,
    transformer_block,
)
from ut_keras.layers import cache as cache_lib
from ut_keras.layers import halting as halting_lib
from ut_keras.layers.pooling import Pooling
from ut_keras.layers.signature import Config, Shape
from ut_keras.layers.stack_output import StackOutput

HALTED_STATES = ("transform", "copy")


class ACTState(NamedTuple):
    """What the loop carries from step to step.

    U is [B, S], or [B] when all positions halt together.
    """

    step: tf.Tensor  # int32 scalar n
    state: tf.Tensor  # [B, S, D], s^n in the paper
    halting_probability: tf.Tensor  # U float32, the sum of p^n so far; 1 once halted
    remainders: tf.Tensor  # U float32, R
    n_updates: tf.Tensor  # U float32, N
    ponder_cost: tf.Tensor  # U float32, of the steps so far
    output: tf.Tensor  # [B, S, D], the mix of the states so far (`previous_state` in T2T)
    record: tuple  # `AttentionRecord`, or () when nothing is recorded
    steps: tuple  # `StepRecord`, or () where the loss is not of all steps


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

    layer_arguments = ("timing", "halting", "block", "injection")

    def __init__(
        self,
        block: transformer_block.TransformerBlock,
        timing: keras.layers.Layer,
        halting: halting_lib.Rule,
        halted_state: str = "transform",
        act_loss_weight: float = 0.01,
        injection: keras.layers.Layer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if halted_state not in HALTED_STATES:
            raise ValueError(
                f"halted_state must be one of {HALTED_STATES}. Received: {halted_state!r}."
            )
        self.block = block
        self.timing = timing
        self.halting = halting
        self.halted_state = halted_state
        self.act_loss_weight = act_loss_weight
        self.injection = injection

    def build(self, state_shape: Shape) -> None:
        super().build(state_shape)
        self.hidden_size = state_shape[-1]

    def answer(self, pooling: Pooling | None = None) -> None:
        """See `Depth.answer`."""
        self.halting.answer(pooling)

    def forward(
        self,
        state: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        padding_mask: tf.Tensor | None = None,
        memory: Any = None,
        record_attention: bool = False,
        training: bool | None = None,
    ) -> StackOutput:
        """See `Depth.forward`.

        Returns:
            `StackOutput`: output [B, S, D]; ponder_times U, in steps; remainders U, in [0, 1];
            ponder_cost U; steps, if the rule wants a loss of all of them.
        """
        signals = self.timing.prepare(tf.range(tf.shape(state)[1]))

        if self._skips_halted(state, training, record_attention):
            return act_skipping.run(
                self._step_layers(), state, signals, attention_mask, padding_mask, memory
            )

        def take_step(loop, state, attention_mask, padding_mask):
            def begin(x, step):
                x = x if self.injection is None else self.injection(x, state)
                return self.timing(x, step, signals)

            def transform(x, running):
                return self.block.forward(
                    x, attention_mask, padding_mask, memory, running, training=training
                )

            return self._take_step(loop, begin, transform, padding_mask, training)

        max_steps = self.halting.max_steps
        record = attention_record.start(record_attention, memory)
        steps = step_record.start(training and self.halting.expected_loss, state, max_steps)
        start = self._initial_state(state, padding_mask, record, steps)
        if self._lets_go_of_halted(state, training, record_attention, memory):
            inputs = (state, attention_mask, padding_mask)
            last = act_leaving.run(self.halting.may_step, take_step, start, inputs, max_steps)
        else:
            (last,) = tf.while_loop(
                self.halting.may_step,
                lambda loop: (take_step(loop, state, attention_mask, padding_mask),),
                (start,),
                maximum_iterations=max_steps,
            )
        return StackOutput(
            last.output,
            last.n_updates,
            last.remainders,
            *attention_record.stack(last.record),
            last.ponder_cost,
            self._with_confidence(step_record.stack(last.steps), padding_mask),
        )

    def ponder_terms(
        self, result: Any, padding_mask: tf.Tensor | None, rows: tf.Tensor | None = None
    ) -> list[ponder_cost.PonderTerm]:
        """See `StateLayer.ponder_terms`: the mean of the ponder cost of all that ponder."""
        if not self.act_loss_weight:
            return []
        counted = self.halting.counted(padding_mask)
        return [ponder_cost.term(result.ponder_cost, self.act_loss_weight, counted, rows)]

    def with_steps(self, num_steps: int) -> Self:
        """See `Depth.with_steps`."""
        return same_weights.view(
            self,
            halting=self.halting.with_steps(num_steps),
            timing=self.timing.with_steps(num_steps),
        )

    def start_cache(self, size: cache_lib.CacheSize) -> Any:
        """See `Depth.start_cache`."""
        return act_decoding.start_cache(self._step_layers(), size, self.halted_are_constant)

    def move_columns(self, cache: Any, size: cache_lib.CacheSize, order: tf.Tensor) -> Any:
        """See `Depth.move_columns`."""
        return act_decoding.move_columns(self._step_layers(), cache, size, order)

    @property
    def places_matter(self) -> bool:
        """See `Depth.places_matter`."""
        return self.block.places_matter or not self.halted_are_constant

    def extend(
        self, state: tf.Tensor, cache: Any, window: cache_lib.Window, memory: Any = None
    ) -> tuple[tf.Tensor, Any]:
        """See `Depth.extend`; with what `act_decoding` does for halted positions."""
        layers = self._step_layers()
        if self.halted_are_constant:
            return act_decoding.extend_running(layers, state, cache, window, memory)
        copies = self.halted_state == "copy"
        return act_decoding.extend_deepening(layers, state, cache, window, memory, copies)

    def _step_layers(self):
        return act_skipping.StepLayers(
            self.block,
            self.timing,
            self.halting,
            self.injection,
            self.hidden_size,
            self.compute_dtype,
        )

    @property
    def halted_are_constant(self) -> bool:
        """Whether what others see of a halted position never changes any more."""
        only_attention = self.block.mixes_by_attention_alone and not self.timing.cache_widths()
        # Computing what still runs alone takes shapes that change from step to step: of LiteRT's
        # interpreters the one in TensorFlow does not survive them.
        return self.halted_state == "copy" and only_attention and not litert.is_traced()

    def _skips_halted(self, state, training, record_attention):
        """Whether a call need not compute halted positions at all."""
        wanted = self.halted_are_constant and self.halting.decides_alone and _is_free(state)
        return wanted and not training and not record_attention

    def _lets_go_of_halted(self, state, training, record_attention, memory):
        """Whether a call need not compute examples that have halted as a whole."""
        wanted = self.halting.by_example and memory is None and _is_free(state)
        return wanted and not litert.is_traced() and not training and not record_attention

    def _initial_state(self, state, padding_mask, record, steps):
        halting_probability, zeros = self.halting.start(state, padding_mask)
        return ACTState(
            step=tf.constant(0),
            state=state,
            halting_probability=halting_probability,
            remainders=zeros,
            n_updates=zeros,
            ponder_cost=zeros,
            output=tf.zeros_like(state),
            record=record,
            steps=steps,
        )

    def _take_step(self, loop, begin, transform, padding_mask, training):
        """The body of the loop: signal, transform, decide who halts, mix into the output."""
        x = begin(loop.state, loop.step)
        left_alone = None
        if self.halted_state == "copy":
            running = loop.halting_probability < 1.0
            x = tf.where(self.halting.per_position(running), x, loop.state)
            left_alone = running if running.shape.rank == 2 else running[:, tf.newaxis]
        transformed = transform(x, left_alone)
        state = transformed.output
        step = halting_lib.Step(loop.state, x, state)
        halted = self.halting.halt(step, loop, padding_mask, training)
        output = self.halting.mix(state, loop.output, halted.update_weights)
        state.set_shape(loop.state.shape)
        output.set_shape(loop.output.shape)
        return ACTState(
            step=loop.step + 1,
            state=state,
            halting_probability=halted.halting_probability,
            remainders=halted.remainders,
            n_updates=halted.n_updates,
            ponder_cost=halted.ponder_cost,
            output=output,
            record=attention_record.add(loop.record, loop.step, transformed),
            steps=self._add_to_record(loop, state, halted.update_weights, padding_mask),
        )

    def _add_to_record(self, loop, state, update_weights, padding_mask):
        """The steps so far. A class is of all positions: those that do not ponder are 0, as they
        are in the output.
        """
        if not loop.steps:
            return loop.steps
        counted = self.halting.counted(padding_mask)
        if counted is not None:
            state = tf.where(self.halting.per_position(counted), state, 0)
        weights = self.halting.per_position(update_weights)[..., 0]
        weights = tf.broadcast_to(weights, tf.shape(state)[:2])
        return step_record.add(loop.steps, loop.step, state, weights)

    def _with_confidence(self, steps, padding_mask):
        if steps is None:
            return None
        confidence = self.halting.confidence(steps.states, padding_mask)
        return steps._replace(confidence=confidence)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "halted_state": self.halted_state,
            "act_loss_weight": self.act_loss_weight,
        }

    @classmethod
    def from_config(cls, config: Config) -> Self:
        return super().from_config(_with_halting(config))


def _is_free(state):
    """Whether shapes may change from step to step; XLA and TPUs want fixed ones."""
    return tf.executing_eagerly() or not state.shape[:2].is_fully_defined()


def _with_halting(config):
    """The config; the rule is a layer of its own, where 0.1.0 saved it among the arguments."""
    if "halting" in config:
        return config
    rule = halting_lib.ACTHalting(**{new: config[old] for old, new in _RULE_OF_0_1_0.items()})
    kept = {name: value for name, value in config.items() if name not in _RULE_OF_0_1_0}
    return {**kept, "halting": keras.saving.serialize_keras_object(rule)}


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
