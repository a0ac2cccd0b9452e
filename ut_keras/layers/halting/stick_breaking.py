"""Halting by stick-breaking: each step takes a share of the remaining probability."""

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.basic import dense
from ut_keras.layers.basic.signature import Initializer, Shape
from ut_keras.layers.halting import halting
from ut_keras.layers.halting.halting import HaltingState, Rule, Step


@keras.saving.register_keras_serializable(package="ut_keras")
class StickBreakingHalting(Rule, dense.WithKernels):
    """Halts a position when the shares of its steps sum to more than 1 - epsilon.

        l^n = sigmoid(W_2 gelu(W_1 s^n + b_1) + b_2)
        p^n = l^n (1 - l^1) ... (1 - l^{n-1})
        N   = the first n with  p^1 + ... + p^n > 1 - epsilon, at most max_steps
        w^n = p^n for n < N,  R = 1 - (p^1 + ... + p^{N-1}) for n = N,  0 for n > N
        output = w^1 s^1 + ... + w^N s^N
        ponder cost = w^1 + 2 w^2 + ... + N w^N

    The weights w are a distribution over the steps, and the ponder cost is the mean number of steps
    under this distribution. Unlike the number of steps in ACT, this mean has a gradient. With a
    larger epsilon at inference, positions halt earlier.

    This rule follows the authors' code, where epsilon = 0.001, and where b_2 = 0 and W_2 = 0 at the
    start of training. The rule differs from the code in two ways:

    - In the authors' code, a position attends to the outputs of other positions. In ut_keras, a
      position attends to the states of other positions, as with every rule.
    - The gate in the authors' code has two logits, but only their difference has an effect. In
      ut_keras the gate has one logit.

    We could not check the rule against the paper.

    Args:
        max_steps, epsilon, mask_padding: as in `Rule`.
        bias_init: float, the initial value of b_2.
        kernel_initializer: Keras initializer of W_1.

    Call arguments:
        state: float tensor [B, S, D].

    Returns:
        float32 tensor [B, S], the shares l. The recurrence uses the methods of `Rule` instead of
        this call.

    Raises:
        ValueError: if max_steps < 1 or epsilon is not in (0, 1).

    References: Tan et al. 2023, Sparse Universal Transformer; its code, `ACTWrapper`.
    """

    def __init__(
        self,
        max_steps: int,
        epsilon: float = 0.001,
        bias_init: float = 0.0,
        mask_padding: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
    ) -> None:
        name = "stick_breaking_for_pondering"
        super().__init__(kernel_initializer=kernel_initializer, name=name, dtype="float32")
        self._set_limits(max_steps, epsilon, mask_padding)
        self.bias_init = bias_init

    def build(self, state_shape: Shape) -> None:
        size, bias = state_shape[-1], keras.initializers.Constant(self.bias_init)
        self.hidden = self._dense(size, "hidden", size)
        self.gate = self._dense(1, "gate", size, kernel_initializer="zeros", bias_initializer=bias)

    def call(self, state: tf.Tensor) -> tf.Tensor:
        hidden = tf.nn.gelu(self.hidden(tf.cast(state, tf.float32)))
        return tf.sigmoid(self.gate(hidden))[..., 0]

    def halt(self, step: Step, halting: HaltingState) -> tuple[HaltingState, tf.Tensor]:
        p = self(step.after) * (1.0 - halting.halting_probability)
        halted, weights = self.accumulate(p, step, halting, forced=True)
        number = tf.cast(step.number + 1, tf.float32)
        return halted._replace(ponder_cost=halting.ponder_cost + number * weights), weights


@parts.haltings.register("stick_breaking")
def _make(hp, side):
    return StickBreakingHalting(**halting.arguments(hp))
