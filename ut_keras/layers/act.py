"""Adaptive Computation Time: every position decides at which step it is done.

At each step a position gets a probability of halting. It halts as soon as the sum of these passes
1 - epsilon; what is missing to 1 at that moment is its remainder, and counts as the probability of
its last step. The output mixes the states of all steps by these weights. A ponder cost, the mean
of steps + remainder, teaches it not to think longer than it helps (Graves 2016; Dehghani et al.
2019, section 2.2).

T2T departs from both papers, and its way is the default here: the options `act_type`,
`halted_state`, `force_final_remainder` and `mask_padding` name the others.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from ut_keras.layers import act_decoding, act_running, attention_record, dense, state_layer
from ut_keras.layers.stack_output import StackOutput

ACT_TYPES = ("basic", "accumulated", "global", "random")
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
    output: tf.Tensor  # [B, S, D], the mix of the states so far (`previous_state` in T2T)
    record: tuple  # `AttentionRecord`, or () when nothing is recorded


class Halting(NamedTuple):
    """What a step decides."""

    halting_probability: tf.Tensor  # U, as in `ACTState`, the next three too
    remainders: tf.Tensor
    n_updates: tf.Tensor
    update_weights: tf.Tensor  # U float32, w^n


@keras.saving.register_keras_serializable(package="ut_keras")
class AdaptiveComputationTime(state_layer.StateLayer):
    """Applies one block until every position has halted, at most `max_steps` times.

    A position's output depends on states at no deeper step than its own last one: it is the same
    whatever shares the batch with it, and, under a causal mask, whatever follows it.
    (`act_type="global"` is neither.)

        p^n = sigmoid(W x^n + b),   x^n = s^n + P_n,   s^{n+1} = Block(x^n)
        N   = the first n with  p^1 + ... + p^n > 1 - epsilon;   R = 1 - (p^1 + ... + p^{N-1})
        w^n = p^n for n < N, R at n = N, 0 after;   ponder cost = N + R

    Args:
        block: a `TransformerBlock`, the same at every step.
        timing: a `StepTimingSignal`, P.
        max_steps: int. No position takes more.
        epsilon: float in (0, 1). A position halts at 1 - epsilon.
        act_type: "basic": output = s·w + previous output·(1 - w), as in T2T; "accumulated": the
            weighted sum of Graves 2016; "global": all positions of an example halt together, by
            the mean of their p; "random": p is drawn, not learned.
        halting_bias_init: float. 1.0 halts after about two steps at first; -3 goes deep.
        halted_state: "transform": a halted position goes on being transformed and attended to,
            only its output is frozen; "copy": it is left as it is, as in the paper, and inference
            computes no more of it (`act_running`; that pass has no gradient).
        force_final_remainder: bool. Whether a position cut off by `max_steps` gets its remainder.
            Without it, as in T2T, its weights sum to less than 1.
        mask_padding: bool. Whether padding neither ponders nor keeps the loop running.
        act_loss_weight: float. What a call adds as a loss: this times the mean ponder cost.
        kernel_initializer: Keras initializer, of W.
    Call arguments and returns: as `StateLayer`.
    Raises:
        ValueError: if max_steps < 1, epsilon is not in (0, 1) or a choice is unknown.
    References: T2T `universal_transformer_util.universal_transformer_act`.
    """

    def __init__(
        self,
        block,
        timing,
        max_steps,
        epsilon=0.01,
        act_type="basic",
        halting_bias_init=1.0,
        halted_state="transform",
        force_final_remainder=False,
        mask_padding=False,
        act_loss_weight=0.01,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1. Received: {max_steps}.")
        if not 0 < epsilon < 1:
            raise ValueError(f"epsilon must be between 0 and 1. Received: {epsilon}.")
        if act_type not in ACT_TYPES:
            raise ValueError(f"act_type must be one of {ACT_TYPES}. Received: {act_type!r}.")
        if halted_state not in HALTED_STATES:
            raise ValueError(
                f"halted_state must be one of {HALTED_STATES}. Received: {halted_state!r}."
            )
        self.block = block
        self.timing = timing
        self.max_steps = max_steps
        self.epsilon = epsilon
        self.act_type = act_type
        self.halting_bias_init = halting_bias_init
        self.halted_state = halted_state
        self.force_final_remainder = force_final_remainder
        self.mask_padding = mask_padding
        self.act_loss_weight = act_loss_weight
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        if act_type == "random":
            self.seed_generator = keras.random.SeedGenerator()

    def build(self, state_shape):
        if not self.timing.built:
            self.timing.build(state_shape)
        self.halting = None
        if self.act_type != "random":
            self.halting = dense.Dense(
                1,
                kernel_initializer=self.kernel_initializer,
                bias_initializer=keras.initializers.Constant(self.halting_bias_init),
                name="sigmoid_activation_for_pondering",
                dtype="float32",  # whatever the policy: sums of p decide who halts
            )
            self.halting.build(state_shape)
        if not self.block.built:
            self.block.build(state_shape)

    def project_memory(self, memory, attention_mask):
        """See `StateLayer.project_memory`."""
        return self.block.project_memory(memory, attention_mask)

    def forward(
        self,
        state,
        attention_mask=None,
        padding_mask=None,
        memory=None,
        record_attention=False,
        training=None,
    ):
        """See `StateLayer.forward`.

        Args:
            record_attention: bool. Whether to keep the attention weights of every step.
        Returns:
            `StackOutput`: output [B, S, D]; ponder_times U, in steps; remainders U, in [0, 1].
        """
        signals = self.timing.prepare(tf.range(tf.shape(state)[1]))

        if self._skips_halted(state, training, record_attention):
            return act_running.run(self, state, signals, attention_mask, padding_mask, memory)

        def transform(x, running):
            return self.block.forward(
                x, attention_mask, padding_mask, memory, running, training=training
            )

        record = attention_record.start(record_attention, memory)
        (last,) = tf.while_loop(
            self._any_running,
            lambda loop: (self._take_step(loop, signals, transform, padding_mask),),
            (self._initial_state(state, padding_mask, record),),
            maximum_iterations=self.max_steps,
        )
        weights = attention_record.stack(last.record)
        return StackOutput(last.output, last.n_updates, last.remainders, *weights)

    def ponder_losses(self, result, padding_mask):
        """See `StateLayer.ponder_losses`: the mean of steps + remainder, weighted."""
        if not self.act_loss_weight:
            return []
        cost = result.ponder_times + result.remainders
        counted = padding_mask if self.mask_padding else None
        if counted is not None and self.act_type == "global":
            counted = tf.reduce_any(counted, axis=1)
        return [self.act_loss_weight * _mean(cost, counted)]

    def start_cache(self, size):
        """See `Recurrence.start_cache`."""
        return act_decoding.start_cache(self, size)

    def extend(self, state, cache, window, memory=None):
        """See `Recurrence.extend`; with what `act_decoding` does for halted positions."""
        return act_decoding.extend(self, state, cache, window, memory)

    @property
    def halted_are_constant(self):
        """Whether what others see of a halted position never changes any more."""
        only_attention = self.block.mixes_by_attention_alone and not self.timing.cache_widths()
        return self.halted_state == "copy" and only_attention

    def _skips_halted(self, state, training, record_attention):
        """Whether a call need not compute halted positions at all.

        Not in graphs of fixed shapes, such as XLA and TPUs want.
        """
        alone = self.act_type in ("basic", "accumulated")
        free = tf.executing_eagerly() or not state.shape[:2].is_fully_defined()
        wanted = self.halted_are_constant and alone and free
        return wanted and not training and not record_attention

    def _initial_state(self, state, padding_mask, record):
        units = tf.shape(state)[: 1 if self.act_type == "global" else 2]
        zeros = tf.zeros(units, tf.float32)
        zeros.set_shape(state.shape[: zeros.shape.rank])
        halting_probability = zeros
        if self.mask_padding and padding_mask is not None:
            real = padding_mask
            if self.act_type == "global":
                real = tf.reduce_any(padding_mask, axis=1)
            halting_probability = tf.where(real, zeros, 1.0)
        return ACTState(
            step=tf.constant(0),
            state=state,
            halting_probability=halting_probability,
            remainders=zeros,
            n_updates=zeros,
            output=tf.zeros_like(state),
            record=record,
        )

    def _any_running(self, loop):
        """The condition of the loop: somebody is below the threshold and may still step."""
        running = (loop.halting_probability < 1.0 - self.epsilon) & (
            loop.n_updates < self.max_steps
        )
        return tf.reduce_any(running)

    def _take_step(self, loop, signals, transform, padding_mask):
        """The body of the loop: signal, decide who halts, transform, mix into the output."""
        x = self.timing(loop.state, loop.step, signals)
        left_alone = None
        if self.halted_state == "copy":
            running = loop.halting_probability < 1.0
            x = tf.where(self._per_position(running), x, loop.state)
            left_alone = running if self.act_type != "global" else running[:, tf.newaxis]
        halting = self.halt(x, loop, padding_mask)
        transformed = transform(x, left_alone)
        state = transformed.output
        output = self.mix(state, loop.output, halting.update_weights)
        state.set_shape(loop.state.shape)
        output.set_shape(loop.output.shape)
        return ACTState(
            step=loop.step + 1,
            state=state,
            halting_probability=halting.halting_probability,
            remainders=halting.remainders,
            n_updates=halting.n_updates,
            output=output,
            record=attention_record.add(loop.record, loop.step, transformed),
        )

    def halt(self, x, loop, padding_mask=None):
        """Decides who halts at this step.

        Args:
            x: float tensor [B, S, D], the state with its signals.
            loop: what has `step`, `halting_probability`, `remainders` and `n_updates`.
            padding_mask: as in a call.
        Returns:
            `Halting`.
        """
        p = self._halting_probability(x, loop, padding_mask)
        running = loop.halting_probability < 1.0
        reached = loop.halting_probability + p > 1.0 - self.epsilon
        if self.force_final_remainder:
            reached |= loop.step == self.max_steps - 1
        new_halted = tf.cast(running & reached, tf.float32)
        still_running = tf.cast(running & ~reached, tf.float32)

        halting_probability = loop.halting_probability + p * still_running
        remainders = loop.remainders + new_halted * (1.0 - halting_probability)
        return Halting(
            halting_probability=halting_probability + new_halted * remainders,
            remainders=remainders,
            n_updates=loop.n_updates + still_running + new_halted,
            update_weights=p * still_running + new_halted * remainders,
        )

    def _halting_probability(self, x, loop, padding_mask):
        """p of this step, U float32."""
        if self.act_type == "random":
            seed = tf.cast(self.seed_generator.next(), tf.int32)
            return tf.random.stateless_uniform(tf.shape(loop.halting_probability), seed)
        p = tf.sigmoid(self.halting(tf.cast(x, tf.float32)))[..., 0]
        if self.act_type != "global":
            return p
        return _mean(p, padding_mask if self.mask_padding else None, axis=1)

    def mix(self, state, output, update_weights):
        """The output after a step, [B, S, D]: the state goes in by its weight U."""
        weights = tf.cast(self._per_position(update_weights), state.dtype)
        if self.act_type == "accumulated":
            return state * weights + output
        return output + (state - output) * weights

    def _per_position(self, unit_values):
        """U -> broadcastable to [B, S, D]."""
        if self.act_type == "global":
            return unit_values[:, tf.newaxis, tf.newaxis]
        return unit_values[:, :, tf.newaxis]

    def get_config(self):
        return {
            **super().get_config(),
            "block": keras.saving.serialize_keras_object(self.block),
            "timing": keras.saving.serialize_keras_object(self.timing),
            "max_steps": self.max_steps,
            "epsilon": self.epsilon,
            "act_type": self.act_type,
            "halting_bias_init": self.halting_bias_init,
            "halted_state": self.halted_state,
            "force_final_remainder": self.force_final_remainder,
            "mask_padding": self.mask_padding,
            "act_loss_weight": self.act_loss_weight,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

    @classmethod
    def from_config(cls, config):
        made = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("block", "timing")
        }
        return cls(**{**config, **made})


def _mean(values, mask, axis=None):
    """The mean of `values` where `mask` is True; None: of all."""
    if mask is None:
        return tf.reduce_mean(values, axis)
    counted = tf.cast(mask, tf.float32)
    total = tf.reduce_sum(values * counted, axis)
    return tf.math.divide_no_nan(total, tf.reduce_sum(counted, axis))
