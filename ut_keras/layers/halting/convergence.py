"""Halting without parameters: a position halts when its state no longer changes."""

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.halting.halting import HaltingState, Rule, Step


@keras.saving.register_keras_serializable(package="ut_keras")
class ConvergenceHalting(Rule):
    """Halts a position at inference when a step changes its state only a little.

        N = the first n with  |s^n - s^{n-1}| < epsilon |s^n|, at most max_steps
        output = s^N
        ponder cost = 0

    The rule has no weights. In training, no position halts, and all positions take `max_steps`
    steps, as in `BasicRecurrence`. Therefore the rule saves steps only if the states of the trained
    model converge.

    The rule is called `latent-diff` in the authors' code, which uses epsilon = 0.03. The default in
    that code is another criterion, the divergence between the token distributions of two steps.
    ut_keras does not support the divergence, because the loop would have to compute the softmax at
    every step. We could not check this rule against the paper.

    Args:
        max_steps, mask_padding: as in `Rule`.
        epsilon: float in (0, 1). A position halts if the relative change of its state is less than
            epsilon.

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

    def mix(self, state: tf.Tensor, output: tf.Tensor, update_weights: tf.Tensor) -> tf.Tensor:
        return self.keep_last(state, output, update_weights)


@parts.haltings.register("convergence")
def _make(hp, side):
    return ConvergenceHalting(
        hp.act_max_steps, epsilon=hp.act_epsilon, mask_padding=hp.act_mask_padding
    )
