"""Halting without parameters: a position is done when its state does not change any more."""

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.halting.halting import HaltingState, Rule, Step


@keras.saving.register_keras_serializable(package="ut_keras")
class ConvergenceHalting(Rule):
    """At inference a position stops when a step hardly moves its state.

        N = the first n with  |s^n - s^{n-1}| < epsilon |s^n|, at most max_steps
        output = s^N;   ponder cost = 0

    Nothing of it is trained: in training all positions take `max_steps` steps, as in
    `BasicRecurrence`. It saves only where the recurrence has learned to come to rest.

    As `latent-diff` in the authors' code, which has epsilon = 0.03. What they use by default is the
    divergence between the distributions over symbols that two steps give; that would need the
    softmax inside of the loop, and is not here. (Their paper could not be checked against.)

    Args:
        max_steps, mask_padding: as of `Rule`.
        epsilon: float in (0, 1).
    Raises:
        ValueError: if max_steps < 1 or epsilon is not in (0, 1).
    References: Geiping et al. 2025, Scaling up Test-Time Compute with Latent Reasoning; its code,
        `generate_with_adaptive_compute`.
    """

    def __init__(self, max_steps: int, epsilon: float = 0.03, mask_padding: bool = False) -> None:
        super().__init__(name="convergence", dtype="float32")
        self._set_limits(max_steps, epsilon, mask_padding)

    def halt(self, step: Step, halting: HaltingState) -> tuple[HaltingState, tf.Tensor]:
        if step.training:
            return self.halt_where(tf.zeros_like(halting.running), step, halting)
        before, after = (tf.cast(x, tf.float32) for x in (step.before, step.after))
        change, size = (tf.norm(x, axis=-1) for x in (after - before, after))
        return self.halt_where(change < step.epsilon * size, step, halting)

    mix = Rule.keep_last


@parts.haltings.register("convergence")
def _make(hp, side):
    return ConvergenceHalting(
        hp.act_max_steps, epsilon=hp.act_epsilon, mask_padding=hp.act_mask_padding
    )
