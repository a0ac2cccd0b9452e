"""When a position is done: what every halting rule is, and that of Adaptive Computation Time."""

from typing import Any, NamedTuple, Self

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam import HParamError, UniversalTransformerHParams
from ut_keras.layers import dense, from_hparams, same_weights
from ut_keras.layers.pooling import Pooling
from ut_keras.layers.signature import Config, Initializer, Shape

ACT_TYPES = ("basic", "accumulated", "global", "random")


class Halting(NamedTuple):
    """What a step decides. U is [B, S], or [B] where all positions halt together."""

    halting_probability: tf.Tensor  # U float32, the sum of p^n so far; 1 once halted
    remainders: tf.Tensor  # U float32, R
    n_updates: tf.Tensor  # U float32, N
    ponder_cost: tf.Tensor  # U float32, of the steps so far
    update_weights: tf.Tensor  # U float32, w^n


class Step(NamedTuple):
    """A step, as a rule sees it."""

    before: tf.Tensor  # [B, S, D], the state s^{n-1}
    x: tf.Tensor  # [B, S, D], x^n, the state with its signals
    after: tf.Tensor  # [B, S, D], s^n, what the block makes of it


class Rule:
    """What a recurrence asks of a halting rule; a rule is a Keras layer besides.

    A subclass has `halt`, and these attributes:

    Attributes:
        max_steps: int. No position takes more.
        epsilon: float. A loop ends when no `halting_probability` is below 1 - epsilon.
        mask_padding: bool. Whether padding neither ponders nor keeps the loop running.
        by_example: bool. Whether all positions of an example halt together; it then leaves the
            loop at inference (`act_leaving`).
        decides_alone: bool. Whether a position halts by its own states, and always by the same.
        expected_loss: bool. Whether what is trained is not the loss of the output, but the mean of
            the losses of all steps, weighted by w^n.
    """

    max_steps: int
    epsilon: float
    mask_padding: bool
    by_example = False
    decides_alone = True
    expected_loss = False

    def answer(self, pooling: Pooling | None = None) -> None:
        """Tells the rule of an encoder that no decoder attends to the output: it is the answer.

        Args:
            pooling: how the class of a row is read; None where every position has an answer.
        """

    def confidence(
        self, states: tf.Tensor, padding_mask: tf.Tensor | None = None
    ) -> tf.Tensor | None:
        """What the rule expects of the answers of all steps, if that is to be trained.

        Args:
            states: float tensor [N, B, S, D], after each step.
            padding_mask: bool [B, S], True at real tokens. Optional.
        Returns:
            float32 [N, *U], a logit for each answer to be right; None: it expects nothing.
        """
        return None

    @staticmethod
    def check(max_steps: int, epsilon: float) -> None:
        """Raises ValueError: if max_steps < 1 or epsilon is not in (0, 1)."""
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1. Received: {max_steps}.")
        if not 0 < epsilon < 1:
            raise ValueError(f"epsilon must be between 0 and 1. Received: {epsilon}.")

    def with_steps(self, num_steps: int) -> Self:
        """This rule, its weights included, with another `max_steps`."""
        return same_weights.view(self, max_steps=num_steps)

    def start(
        self, state: tf.Tensor, padding_mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """What has been decided before the first step.

        Args:
            state: float tensor [B, S, D].
        Returns:
            (halting_probability, zeros), U: 0, or 1 at padding that is not to ponder.
        """
        zeros = tf.zeros(tf.shape(state)[: 1 if self.by_example else 2], tf.float32)
        zeros.set_shape(state.shape[: zeros.shape.rank])
        real = self.counted(padding_mask)
        return (zeros if real is None else tf.where(real, zeros, 1.0)), zeros

    def may_step(self, loop: Any) -> tf.Tensor:
        """bool scalar, the condition of a loop: somebody is below the threshold and may go on."""
        running = (loop.halting_probability < 1.0 - self.epsilon) & (
            loop.n_updates < self.max_steps
        )
        return tf.reduce_any(running)

    def halt(
        self,
        step: Step,
        loop: Any,
        padding_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> Halting:
        """Decides who halts at a step.

        Args:
            step: `Step`.
            loop: what has `step` (int32 scalar, from 0), `halting_probability`, `remainders`,
                `n_updates` and `ponder_cost`.
            padding_mask: bool [B, S], True at real tokens. Optional.
            training: bool.
        Returns:
            `Halting`.
        """
        raise NotImplementedError

    def spend(self, p: tf.Tensor, loop: Any, forced: bool) -> Halting:
        """Adds p up, and halts who passes 1 - epsilon: what is missing to 1 is its last weight.

        Args:
            p: U float32.
            loop: as of `halt`.
            forced: bool. Whether who takes the last step halts, too.
        Returns:
            `Halting`; its ponder cost is still that of the loop.
        """
        running = loop.halting_probability < 1.0
        reached = loop.halting_probability + p > 1.0 - self.epsilon
        if forced:
            reached |= loop.step == self.max_steps - 1
        new_halted = tf.cast(running & reached, tf.float32)
        still_running = tf.cast(running & ~reached, tf.float32)

        halting_probability = loop.halting_probability + p * still_running
        remainders = loop.remainders + new_halted * (1.0 - halting_probability)
        return Halting(
            halting_probability=halting_probability + new_halted * remainders,
            remainders=remainders,
            n_updates=loop.n_updates + still_running + new_halted,
            ponder_cost=loop.ponder_cost,
            update_weights=p * still_running + new_halted * remainders,
        )

    def stop(self, done: tf.Tensor, loop: Any) -> Halting:
        """Halts who is done, and who takes the last step. Every step weighs 1: see `keep_last`.

        Args:
            done: U bool.
            loop: as of `halt`.
        Returns:
            `Halting`; its ponder cost is still that of the loop.
        """
        running = loop.halting_probability < 1.0
        halts = running & (done | (loop.step == self.max_steps - 1))
        moved = tf.cast(running, tf.float32)
        return Halting(
            halting_probability=tf.where(halts, 1.0, loop.halting_probability),
            remainders=loop.remainders,
            n_updates=loop.n_updates + moved,
            ponder_cost=loop.ponder_cost,
            update_weights=moved,
        )

    def keep_last(
        self, state: tf.Tensor, output: tf.Tensor, update_weights: tf.Tensor
    ) -> tf.Tensor:
        """A `mix` by which the output is the last state."""
        return tf.where(self.per_position(update_weights) > 0, state, output)

    def mix(self, state: tf.Tensor, output: tf.Tensor, update_weights: tf.Tensor) -> tf.Tensor:
        """The output after a step, [B, S, D]; here the sum of the states by their weights U."""
        return state * tf.cast(self.per_position(update_weights), state.dtype) + output

    def per_position(self, unit_values: tf.Tensor) -> tf.Tensor:
        """U -> broadcastable to [B, S, D]."""
        if self.by_example:
            return unit_values[:, tf.newaxis, tf.newaxis]
        return unit_values[:, :, tf.newaxis]

    def counted(self, padding_mask: tf.Tensor | None) -> tf.Tensor | None:
        """bool U: who ponders; None: all."""
        if not self.mask_padding or padding_mask is None:
            return None
        return tf.reduce_any(padding_mask, axis=1) if self.by_example else padding_mask


@keras.saving.register_keras_serializable(package="ut_keras")
class ACTHalting(Rule, dense.Dense):
    """Adds up probabilities of halting, step by step, until 1 - epsilon.

        p^n = sigmoid(W x^n + b)
        N   = the first n with  p^1 + ... + p^n > 1 - epsilon;   R = 1 - (p^1 + ... + p^{N-1})
        w^n = p^n for n < N, R at n = N, 0 after;   ponder cost = N + R

    Without epsilon passed within `max_steps`, N = max_steps and R = 0.

    Args:
        max_steps: int. No position takes more.
        epsilon: float in (0, 1). A position halts at 1 - epsilon.
        act_type: "basic": output = s·w + previous output·(1 - w), as in T2T; "accumulated": the
            weighted sum of Graves 2016; "global": all positions of an example halt together, by
            the mean of their p; "random": p is drawn, not learned.
        bias_init: float, of b. 1.0 halts after about two steps at first; -3 goes deep.
        force_final_remainder: bool. Whether a position cut off by `max_steps` gets its remainder.
            Without it, as in T2T, its weights sum to less than 1.
        mask_padding: bool. Whether padding neither ponders nor keeps the loop running.
        kernel_initializer: Keras initializer, of W.
    Call arguments:
        x: float tensor [B, S, D].
    Returns:
        float32 tensor [B, S, 1], W x + b. The rest is methods.
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
        super().__init__(
            1,
            kernel_initializer=kernel_initializer,
            bias_initializer=keras.initializers.Constant(bias_init),
            name="sigmoid_activation_for_pondering",
            dtype="float32",  # whatever the policy: sums of p decide who halts
        )
        self.check(max_steps, epsilon)
        if act_type not in ACT_TYPES:
            raise ValueError(f"act_type must be one of {ACT_TYPES}. Received: {act_type!r}.")
        self.max_steps = max_steps
        self.epsilon = epsilon
        self.act_type = act_type
        self.bias_init = bias_init
        self.force_final_remainder = force_final_remainder
        self.mask_padding = mask_padding
        if act_type == "random":
            self.seed_generator = keras.random.SeedGenerator()

    def build(self, state_shape: Shape) -> None:
        if self.act_type != "random":
            super().build(state_shape)

    @property
    def decides_alone(self) -> bool:
        """See `Rule`."""
        return self.act_type in ("basic", "accumulated")

    @property
    def by_example(self) -> bool:
        """See `Rule`."""
        return self.act_type == "global"

    def halt(
        self,
        step: Step,
        loop: Any,
        padding_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> Halting:
        """See `Rule.halt`."""
        p = self._halting_probability(step.x, loop, padding_mask)
        halted = self.spend(p, loop, self.force_final_remainder)
        return halted._replace(ponder_cost=halted.n_updates + halted.remainders)

    def _halting_probability(self, x, loop, padding_mask):
        """p of this step, U float32."""
        if self.act_type == "random":
            seed = tf.cast(self.seed_generator.next(), tf.int32)
            return tf.random.stateless_uniform(tf.shape(loop.halting_probability), seed)
        p = tf.sigmoid(self(tf.cast(x, tf.float32)))[..., 0]
        if not self.by_example:
            return p
        return _mean_of_rows(p, padding_mask if self.mask_padding else None)

    def mix(self, state: tf.Tensor, output: tf.Tensor, update_weights: tf.Tensor) -> tf.Tensor:
        """See `Rule.mix`."""
        if self.act_type == "accumulated":
            return super().mix(state, output, update_weights)
        weights = tf.cast(self.per_position(update_weights), state.dtype)
        return output + (state - output) * weights

    def get_config(self) -> Config:
        return {
            "max_steps": self.max_steps,
            "epsilon": self.epsilon,
            "act_type": self.act_type,
            "bias_init": self.bias_init,
            "force_final_remainder": self.force_final_remainder,
            "mask_padding": self.mask_padding,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }


def _mean_of_rows(values, mask):
    """[B], the mean of `values` [B, S] where `mask` is True; None: of all."""
    if mask is None:
        return tf.reduce_mean(values, axis=1)
    counted = tf.cast(mask, tf.float32)
    total = tf.reduce_sum(values * counted, axis=1)
    return tf.math.divide_no_nan(total, tf.reduce_sum(counted, axis=1))


def check_ends(hp: UniversalTransformerHParams) -> None:
    """Raises HParamError: if the steps cannot have losses, for layers follow on the recurrence."""
    mixed = hp.mix_with_transformer or ""
    if "after_ut" in mixed:
        raise HParamError(
            f"act_type={hp.act_type} needs a stack that ends with the recurrence. "
            f"Received: mix_with_transformer={mixed!r}."
        )


@parts.haltings.register("basic")
@parts.haltings.register("accumulated")
@parts.haltings.register("global")
@parts.haltings.register("random")
def _make(hp, side):
    del side
    return ACTHalting(
        hp.act_max_steps,
        epsilon=hp.act_epsilon,
        act_type=hp.act_type,
        bias_init=hp.act_halting_bias_init,
        force_final_remainder=hp.act_force_final_remainder,
        mask_padding=hp.act_mask_padding,
        kernel_initializer=from_hparams.kernel_initializer(hp),
    )
