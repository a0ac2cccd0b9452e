"""Halting as a latent variable: the loss is an expectation over the steps (PonderNet)."""

import keras
import numpy as np
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.basic.layer import check_choice
from ut_keras.layers.basic.signature import Config, Initializer
from ut_keras.layers.halting import halting
from ut_keras.layers.halting.halting import HaltingState, Step

OUTPUTS = ("threshold", "mean")


@keras.saving.register_keras_serializable(package="ut_keras")
class PonderNetHalting(halting.LinearRule):
    """The step at which a position halts is drawn; what is trained is the mean of the losses.

        l^n = sigmoid(W s^n + b);   p^n = l^n (1 - l^1) ... (1 - l^{n-1})
        N   = the first n with  p^1 + ... + p^n > 1 - epsilon, at most max_steps
        w^n = p^n for n < N,  1 - (p^1 + ... + p^{N-1}) at n = N,  0 after
        loss = w^1 L(s^1) + ... + w^N L(s^N) + act_loss_weight KL(w || g)
        g^n = P (1 - P)^{n-1} / (1 - (1 - P)^max_steps)

    The output, which is all that there is at inference, is s^N ("threshold": epsilon = 0.5 halts at
    the median of the steps) or w^1 s^1 + ... + w^N s^N ("mean").

    A loss of every step there is only where nothing but the loss looks at the output: in decoders,
    and in an encoder alone. In an encoder which a decoder attends to, the output is the mean, and
    the divergence is all that is PonderNet's. To halt at a step that is drawn at inference too, as
    the paper does, is not here: its answers would differ from call to call. (Equations as they are
    told of the paper, and in public code after it, which divides g by nothing; the paper itself
    could not be read.)

    Args:
        max_steps, epsilon, mask_padding: as of `Rule`.
        prior: float P in (0, 1). 1/P steps are cheapest.
        output: "threshold" or "mean".
        expected_loss: bool. Whether training is by the losses of all steps, which is for whoever
            takes the output to see to; else it is by that of the output.
        bias_init: float, of b.
        kernel_initializer: Keras initializer, of W.
    Call arguments:
        state: float tensor [B, S, D].
    Returns:
        float32 tensor [B, S, 1], W s + b. The rest is methods.
    Raises:
        ValueError: if max_steps < 1, epsilon or prior is not in (0, 1) or output is unknown.
    References: Banino et al. 2021, PonderNet: Learning to Ponder.
    """

    def __init__(
        self,
        max_steps: int,
        epsilon: float = 0.01,
        prior: float = 0.2,
        output: str = "mean",
        expected_loss: bool = False,
        bias_init: float = 0.0,
        mask_padding: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
    ) -> None:
        name = "ponder_net_for_pondering"
        super().__init__(name, max_steps, epsilon, bias_init, mask_padding, kernel_initializer)
        if not 0 < prior < 1:
            raise ValueError(f"prior must be between 0 and 1. Received: {prior}.")
        check_choice("output", output, OUTPUTS)
        self.prior = prior
        self.output_kind = output
        self.expected_loss = expected_loss

    def log_prior(self, max_steps: int) -> np.ndarray:
        """float32 [max_steps], log g."""
        steps = np.arange(max_steps)
        g = self.prior * (1 - self.prior) ** steps / (1 - (1 - self.prior) ** max_steps)
        return np.log(g).astype(np.float32)

    def halt(self, step: Step, halting: HaltingState) -> tuple[HaltingState, tf.Tensor]:
        share = tf.sigmoid(self(tf.cast(step.after, tf.float32)))[..., 0]
        p = share * (1.0 - halting.halting_probability)
        halted, w = self.accumulate(p, step, halting, forced=True)
        log_prior = tf.gather(self.log_prior(step.max_steps), step.number)
        divergence = tf.math.xlogy(w, w) - w * log_prior
        return halted._replace(ponder_cost=halting.ponder_cost + divergence), w

    def mix(self, state: tf.Tensor, output: tf.Tensor, update_weights: tf.Tensor) -> tf.Tensor:
        if self.output_kind == "mean":
            return super().mix(state, output, update_weights)
        return self.keep_last(state, output, update_weights)

    def get_config(self) -> Config:
        return {**super().get_config(), "output": self.output_kind}


@parts.haltings.register("ponder_net")
def _make(hp, side):
    return PonderNetHalting(
        **halting.arguments(hp),
        prior=hp.ponder_net_prior,
        output=hp.ponder_net_output if side.answers else "mean",  # a decoder reads the mean
        expected_loss=side.answers,
    )
