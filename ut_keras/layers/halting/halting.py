"""The interface of halting rules, and the rule of Adaptive Computation Time."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import UniversalTransformerHParams
from ut_keras.layers.basic import class_label_head, dense, from_hparams, renamed
from ut_keras.layers.basic.layer import Layer, check_choice, check_least
from ut_keras.layers.basic.signature import Initializer, Shape
from ut_keras.ops import litert
from ut_keras.ops import seed as seed_lib

ACT_TYPES = ("basic", "accumulated", "global", "random")


class HaltingState(NamedTuple):
    """The halting state of all positions, which the loop over steps updates.

    The shape U is [B, S], or [B] if all positions of an example halt together. In a loop over R
    running positions, U is [1, R].
    """

    # U float32: the sum of p^n over the steps taken, or 1 if the position has halted.
    halting_probability: tf.Tensor
    remainders: tf.Tensor  # U float32: the remainder R, or 0 if the position has none
    n_updates: tf.Tensor  # U float32: the number of steps taken, which is N at the end
    ponder_cost: tf.Tensor  # U float32: the ponder cost of the steps taken

    @property
    def running(self) -> tf.Tensor:
        """U bool, True where a position has not halted."""
        return self.halting_probability < 1.0


class TrackedEpsilon:
    """The epsilon of a forward pass, which records whether a halting rule reads it.

    If the rule does not read the epsilon, `exit_threshold` has no effect. In this case,
    `act_step.apply_step` raises an error.

    Args:
        value: float, the epsilon.

    Attributes:
        was_read: bool. Whether `read` was called.
    """

    def __init__(self, value: float) -> None:
        self._value = value
        self.was_read = False

    def read(self) -> float:
        """Return the epsilon, and set `was_read`."""
        self.was_read = True
        return self._value


class Step(NamedTuple):
    """The information about one step that a halting rule can use."""

    number: tf.Tensor  # int32 scalar, the number of the step. The first step is 0.
    max_steps: int  # the largest number of steps of any position
    tracked_epsilon: TrackedEpsilon  # halting rules read `epsilon` instead
    padding_mask: tf.Tensor | None  # bool [B, S], True at real tokens
    training: bool | None
    before: tf.Tensor  # [B, S, D], the state s^{n-1}
    x: tf.Tensor  # [B, S, D], x^n, the state with its signals
    after: tf.Tensor  # [B, S, D], s^n, the output of the block
    # An upper limit for the number of steps: int32 scalar, or int32 that broadcasts to U. None: the
    # limit is `max_steps`.
    limit: tf.Tensor | None = None

    @property
    def epsilon(self) -> float:
        """The epsilon of this forward pass. The halting threshold is 1 - epsilon."""
        return self.tracked_epsilon.read()

    @property
    def is_last(self) -> tf.Tensor:
        """Whether this is the last possible step: bool that broadcasts to U."""
        limit = self.max_steps if self.limit is None else self.limit
        return self.number == limit - 1


class Rule(renamed.RenamedAttributes, Layer):
    """Base class of halting rules, which are Keras layers.

    A subclass implements `halt` and sets these attributes:

    Attributes:
        max_steps: int. The largest number of steps. A call can override it with `num_steps`.
        epsilon: float in (0, 1). The halting threshold is 1 - epsilon. A call can override this
            threshold with `exit_threshold`.
        mask_padding: bool. If True, padding has halted before the first step. Therefore padding has
            no ponder cost, and the loop stops when all real positions have halted.
        per_example: bool. Whether all positions of an example halt together. If True, inference
            removes halted examples from the loop (`act_skipping`).
        halts_independently: bool. True if halting is deterministic, and the halting of a position
            depends only on the states of this position.
        expected_loss: bool. True: the training loss is the mean of the losses after every step,
            weighted by w^n. False: the training loss is the loss of the output.
    """

    renamed_attributes = {
        "may_step": "should_continue",
        "spend": "accumulate",
        "stop": "halt_where",
        "by_example": "per_example",
        "decides_alone": "halts_independently",
        "per_position": "expand_to_state",
        "counted": "pondering_mask",
    }

    max_steps: int
    epsilon: float
    mask_padding: bool
    per_example = False
    halts_independently = True
    expected_loss = False

    def confidence(
        self, states: tf.Tensor, padding_mask: tf.Tensor | None = None
    ) -> tf.Tensor | None:
        """Return logits of the probability that the prediction after each step is correct.

        Args:
            states: float tensor [N, B, S, D], the state after each step.
            padding_mask: bool [B, S], True at real tokens. Optional.

        Returns:
            float32 [N, *U]. Training compares these logits with the correctness of the predictions.
            None if the rule does not predict this probability.
        """
        return None

    def _set_limits(self, max_steps, epsilon, mask_padding):
        """Set the attributes `max_steps`, `epsilon` and `mask_padding`.

        Raises:
            ValueError: if max_steps < 1 or epsilon is not in (0, 1).
        """
        check_least("max_steps", max_steps, 1)
        if not 0 < epsilon < 1:
            raise ValueError(f"epsilon must be between 0 and 1. Received: {epsilon}.")
        self.max_steps = max_steps
        self.epsilon = epsilon
        self.mask_padding = mask_padding

    def start(self, state: tf.Tensor, padding_mask: tf.Tensor | None = None) -> HaltingState:
        """Return the halting state before the first step.

        All values are 0, with one exception: if `mask_padding` is True, padding has already halted.

        Args:
            state: float tensor [B, S, D].
            padding_mask: bool [B, S], True at real tokens. Optional.
        """
        zeros = tf.zeros(tf.shape(state)[: 1 if self.per_example else 2], tf.float32)
        zeros.set_shape(state.shape[: zeros.shape.rank])
        mask = self.pondering_mask(padding_mask)
        probability = zeros if mask is None else tf.where(mask, zeros, 1.0)
        return HaltingState(probability, zeros, zeros, zeros)

    def should_continue(self, halting: HaltingState, max_steps: int, epsilon: float) -> tf.Tensor:
        """Return the loop condition: whether any position has not halted.

        Returns:
            bool scalar: whether any position is below 1 - epsilon and has taken fewer than
            `max_steps` steps.
        """
        below = halting.halting_probability < 1.0 - epsilon
        return tf.reduce_any(below & (halting.n_updates < max_steps))

    def halt(self, step: Step, halting: HaltingState) -> tuple[HaltingState, tf.Tensor]:
        """Decide which positions halt at this step. Subclasses implement this method.

        An implementation must use `step.epsilon` instead of `self.epsilon`, because a call may set
        its own threshold.

        Args:
            step: `Step`.
            halting: `HaltingState` before the step.

        Returns:
            (`HaltingState` after the step, the weight w^n of this step's state as U float32).
        """
        raise NotImplementedError

    def accumulate(
        self, p: tf.Tensor, step: Step, halting: HaltingState, forced: bool
    ) -> tuple[HaltingState, tf.Tensor]:
        """Add halting probabilities, and halt positions whose sum exceeds 1 - epsilon.

        The weight of a position's last step is its remainder, which is 1 minus the sum before that
        step.

        Args:
            p: U float32, the halting probability of this step.
            step, halting: as in `halt`.
            forced: bool. If True, a position that is still running at the last possible step halts
                at this step. Its remainder is then the weight of the step.

        Returns:
            As `halt`. The ponder cost is not updated.
        """
        running, before = halting.running, halting.halting_probability
        reached = before + p > 1.0 - step.epsilon
        if forced:
            reached |= step.is_last
        new_halted = tf.cast(running & reached, tf.float32)
        still_running = tf.cast(running & ~reached, tf.float32)

        halting_probability = before + p * still_running
        remainders = halting.remainders + new_halted * (1.0 - halting_probability)
        halted = HaltingState(
            halting_probability=halting_probability + new_halted * remainders,
            remainders=remainders,
            n_updates=halting.n_updates + still_running + new_halted,
            ponder_cost=halting.ponder_cost,
        )
        return halted, p * still_running + new_halted * remainders

    def halt_where(
        self, done: tf.Tensor, step: Step, halting: HaltingState
    ) -> tuple[HaltingState, tf.Tensor]:
        """Halt positions where `done` is True, and all positions at the last step.

        The weight of every step that a position takes is 1. Use this method with `keep_last`.

        Args:
            done: U bool.
            step, halting: as in `halt`.

        Returns:
            As `halt`. The ponder cost is not updated.
        """
        halts = halting.running & (done | step.is_last)
        weights = tf.cast(halting.running, tf.float32)
        halted = halting._replace(
            halting_probability=tf.where(halts, 1.0, halting.halting_probability),
            n_updates=halting.n_updates + weights,
        )
        return halted, weights

    def keep_last(
        self, state: tf.Tensor, output: tf.Tensor, update_weights: tf.Tensor
    ) -> tf.Tensor:
        """Return the last state of each position, as an alternative to `mix`."""
        return tf.where(self.expand_to_state(update_weights) > 0, state, output)

    def mix(self, state: tf.Tensor, output: tf.Tensor, update_weights: tf.Tensor) -> tf.Tensor:
        """Return the output after a step: by default the weighted sum of the states.

        Args:
            state: float tensor [B, S, D], the state s^n.
            output: float tensor [B, S, D], the output before the step.
            update_weights: float32 U, the weights w^n.
        """
        return state * tf.cast(self.expand_to_state(update_weights), state.dtype) + output

    def expand_to_state(self, values: tf.Tensor) -> tf.Tensor:
        """Expand a tensor of shape U so that it broadcasts to [B, S, D]."""
        if self.per_example:
            return values[:, tf.newaxis, tf.newaxis]
        return tf.expand_dims(values, -1)

    def pondering_mask(self, padding_mask: tf.Tensor | None) -> tf.Tensor | None:
        """Return a mask of the positions that take steps, bool U.

        The result is None if all positions take steps.
        """
        if not self.mask_padding or padding_mask is None:
            return None
        return tf.reduce_any(padding_mask, axis=1) if self.per_example else padding_mask


class LinearRule(Rule, dense.Dense):
    """Base class of rules that compute one number per position.

    Calling the layer returns W x + b, with the shape [..., 1].
    """

    def __init__(
        self,
        name: str,
        max_steps: int,
        epsilon: float,
        bias_init: float,
        mask_padding: bool,
        kernel_initializer: Initializer,
    ) -> None:
        super().__init__(
            1,
            kernel_initializer=kernel_initializer,
            bias_initializer=keras.initializers.Constant(bias_init),
            name=name,
            # The dtype is float32 under any policy, because the rule compares sums of p with a
            # threshold.
            dtype="float32",
        )
        self._set_limits(max_steps, epsilon, mask_padding)
        self.bias_init = bias_init


@keras.saving.register_keras_serializable(package="ut_keras")
class ACTHalting(LinearRule):
    """ACT's rule: a position halts when its probabilities sum to over 1 - epsilon.

        p^n = sigmoid(W x^n + b)
        N   = the first n with  p^1 + ... + p^n > 1 - epsilon
        R   = 1 - (p^1 + ... + p^{N-1})
        w^n = p^n for n < N,  R for n = N,  0 for n > N
        ponder cost = N + R

    If the sum does not exceed 1 - epsilon within `max_steps`, N = max_steps and R = 0.

    Args:
        max_steps, epsilon, mask_padding: as in `Rule`.
        act_type: "basic" (T2T): output^n = s^n w^n + output^{n-1} (1 - w^n). "accumulated": the
            weighted sum of Graves 2016. "global": as "basic", but all positions of an example halt
            together, according to the mean of their p. "random": as "basic", but p is a random
            number.
        bias_init: float, the initial value of b. At the start of training, positions halt after
            about two steps with bias_init=1.0, and after many steps with -3.
        force_final_remainder: bool. If True, a position that is still running at step `max_steps`
            gets a remainder. If False (T2T), such a position gets no remainder, so its weights sum
            to less than 1.
        kernel_initializer: Keras initializer of W.

    Call arguments:
        x: float tensor [B, S, D].

    Returns:
        float32 tensor [B, S, 1], the logits W x + b. The recurrence uses the methods of `Rule`
        instead of this call.

    Raises:
        ValueError: if max_steps < 1, epsilon is not in (0, 1) or act_type is unknown.

    References: T2T `universal_transformer_util.universal_transformer_act`.
    """

    def __init__(
        self,
        max_steps: int,
        epsilon: float = 0.01,
        act_type: str = "basic",
        bias_init: float = 1.0,
        force_final_remainder: bool = False,
        mask_padding: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
    ) -> None:
        name = "sigmoid_activation_for_pondering"
        super().__init__(name, max_steps, epsilon, bias_init, mask_padding, kernel_initializer)
        check_choice("act_type", act_type, ACT_TYPES)
        self.act_type = act_type
        self.force_final_remainder = force_final_remainder
        self.halts_independently = act_type in ("basic", "accumulated")
        self.per_example = act_type == "global"
        if act_type == "random":
            self.seed_generator = keras.random.SeedGenerator()

    def build(self, state_shape: Shape) -> None:
        if self.act_type != "random":
            super().build(state_shape)

    def halt(self, step: Step, halting: HaltingState) -> tuple[HaltingState, tf.Tensor]:
        """Halt positions by p^n, and set the ponder cost to N + R for the steps taken."""
        p = self._halting_probability(step, halting)
        halted, weights = self.accumulate(p, step, halting, self.force_final_remainder)
        return halted._replace(ponder_cost=halted.n_updates + halted.remainders), weights

    def _halting_probability(self, step, halting):
        """Return p of this step, U float32."""
        if self.act_type == "random":
            seed = seed_lib.per_replica(self.seed_generator)
            return tf.random.stateless_uniform(tf.shape(halting.halting_probability), seed)
        p = litert.drop_last_axis(tf.sigmoid(self(tf.cast(step.x, tf.float32))))
        if not self.per_example:
            return p
        mask = step.padding_mask if self.mask_padding else None
        return class_label_head.pool(p[..., tf.newaxis], "masked_mean", mask)[:, 0]

    def mix(self, state: tf.Tensor, output: tf.Tensor, update_weights: tf.Tensor) -> tf.Tensor:
        if self.act_type == "accumulated":
            return super().mix(state, output, update_weights)
        weights = tf.cast(self.expand_to_state(update_weights), state.dtype)
        return output + (state - output) * weights


def arguments(hp: UniversalTransformerHParams) -> dict[str, Any]:
    """Return the arguments of all rules that have weights."""
    return {
        "max_steps": hp.act_max_steps,
        "epsilon": hp.act_epsilon,
        "bias_init": hp.act_halting_bias_init,
        "mask_padding": hp.act_mask_padding,
        "kernel_initializer": from_hparams.kernel_initializer(hp),
    }


@parts.haltings.register("basic")
@parts.haltings.register("accumulated")
@parts.haltings.register("global")
@parts.haltings.register("random")
def _make(hp, side):
    force_final_remainder = hp.act_force_final_remainder
    return ACTHalting(
        **arguments(hp), act_type=hp.act_type, force_final_remainder=force_final_remainder
    )
