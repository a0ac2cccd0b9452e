"""PonderNet: the loss is an expected value over the latent halting step."""

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
    """Learns a distribution over halting steps, and trains with the expected loss.

        l^n = sigmoid(W s^n + b)
        p^n = l^n (1 - l^1) ... (1 - l^{n-1})
        N   = the first n with  p^1 + ... + p^n > 1 - epsilon, at most max_steps
        w^n = p^n for n < N,  1 - (p^1 + ... + p^{N-1}) for n = N,  0 for n > N
        loss = w^1 L(s^1) + ... + w^N L(s^N) + act_loss_weight KL(w || g)
        g^n = P (1 - P)^{n-1} / (1 - (1 - P)^max_steps)        the geometric prior

    The output is w^1 s^1 + ... + w^N s^N ("mean") or s^N ("threshold"). With "threshold" and
    epsilon = 0.5, a position halts at the median of its distribution.

    A loss after every step is possible only if no other part of the model reads the output. This is
    true for decoders, and for encoders without a decoder. If a decoder attends to an encoder, the
    output of the encoder is the mean, and its loss is only the divergence from the prior.

    Unlike in the paper, inference does not sample the halting step, so that calls are
    deterministic. We could not read the paper itself. The equations follow descriptions of the
    paper and public implementations. These implementations do not normalize g.

    Args:
        max_steps, epsilon, mask_padding: as in `Rule`.
        prior: float P in (0, 1), the parameter of the geometric prior. Distributions with a mean of
            about 1/P steps have the least cost.
        output: "threshold" or "mean".
        expected_loss: bool. True: the training loss is the expected loss over all steps. The caller
            must compute this loss from `StackOutput.steps`. False: the training loss is the loss of
            the output.
        bias_init: float, the initial value of b.
        kernel_initializer: Keras initializer of W.

    Call arguments:
        state: float tensor [B, S, D].

    Returns:
        float32 tensor [B, S, 1], the logits W s + b. The recurrence uses the methods of `Rule`
        instead of this call.

    Raises:
        ValueError: if max_steps < 1, or output is unknown. Also if epsilon or prior is not in
            (0, 1).

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
        """Return log g, float32 [max_steps]."""
        # The logarithms are computed without g, because g is 0 in float64 at late steps.
        log_not_halting = np.log1p(-self.prior)
        log_g = np.log(self.prior) + np.arange(max_steps) * log_not_halting
        return (log_g - np.log(-np.expm1(max_steps * log_not_halting))).astype(np.float32)

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
        # An encoder that a decoder attends to returns the mean.
        output=hp.ponder_net_output if side.predicts else "mean",
        expected_loss=side.predicts,
    )
