"""Halting by a head that has learned to know whether the answer is right by now."""

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam import HParamError
from ut_keras.layers.basic import class_label_head
from ut_keras.layers.basic.class_label_head import Pooling
from ut_keras.layers.basic.signature import Initializer
from ut_keras.layers.halting import halting
from ut_keras.layers.halting.halting import HaltingState, Step


@keras.saving.register_keras_serializable(package="ut_keras")
class QHalting(halting.LinearRule):
    """After each step a head says whether that is it, which it is taught by the answers themselves.

        q^n    = W s^n + b
        N      = the first n with  sigmoid(q^n) > 1 - epsilon, at most M = max_steps
        output = s^N;   loss = 1/M sum_n ( L(s^n) + act_loss_weight H(q^n) )
        H(q^n) = -log sigmoid(q^n) if the answer that s^n gives is right, else -log sigmoid(-q^n)

    In training all take M steps, each of which has a loss; that nobody halts there makes the
    answers of inference those that the head was taught by. (Under `act_halted_state="copy"` they
    part, for others then see the state in which a position halted.) What halts is what has an
    answer: a position, whose answer is a symbol; or, with `pooling`, a whole row, whose class is
    read from its positions as q is then; rows that are done leave a loop at inference.

    Of the hierarchical and the tiny reasoning model: the target, the head on the state after a
    step, the threshold (epsilon = 0.5), b = -5 and act_loss_weight = 0.5, and of the latter, which
    has no Q-learning, that there is no other term. The rest is ours: they halt whole rows, by q of
    a position in front, if all symbols are right; in training, too, where a row that has halted
    makes room for the next, except for steps that are explored at random; each step is an update
    of its own, with no gradient into the ones before; and their evaluation takes all steps. (As in
    the authors' code, of which the losses of the tiny model could not be read.)

    Args:
        max_steps, epsilon, mask_padding: as of `Rule`; M is max_steps.
        pooling: how a row's class is read from its positions, see `class_label_head.pool`; None
            where every position has an answer.
        bias_init: float, of b.
        kernel_initializer: Keras initializer, of W.
    Call arguments:
        state: float tensor [..., D].
    Returns:
        float32 tensor [..., 1], W s + b. The rest is methods.
    Raises:
        ValueError: if max_steps < 1 or epsilon is not in (0, 1).
    References: Wang et al. 2025, Hierarchical Reasoning Model; Jolicoeur-Martineau 2025, Less is
        More: Recursive Reasoning with Tiny Networks.
    """

    expected_loss = True

    def __init__(
        self,
        max_steps: int,
        epsilon: float = 0.5,
        pooling: Pooling | None = None,
        bias_init: float = -5.0,
        mask_padding: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
    ) -> None:
        name = "q_halt_for_pondering"
        super().__init__(name, max_steps, epsilon, bias_init, mask_padding, kernel_initializer)
        self.pooling = pooling
        self.per_example = pooling is not None
        self.halts_independently = pooling is None

    def confidence(self, states: tf.Tensor, padding_mask: tf.Tensor | None = None) -> tf.Tensor:
        q = self(tf.cast(states, tf.float32))[..., 0]
        if self.pooling is None:
            return q
        by_position = tf.transpose(q, [1, 2, 0])  # [B, S, N]
        return tf.transpose(class_label_head.pool(by_position, self.pooling, padding_mask))

    def halt(self, step: Step, halting: HaltingState) -> tuple[HaltingState, tf.Tensor]:
        if step.training:
            halted, weights = self.halt_where(tf.zeros_like(halting.running), step, halting)
            return halted, weights / step.max_steps
        q = self.confidence(step.after[tf.newaxis], step.padding_mask)[0]
        return self.halt_where(tf.sigmoid(q) > 1.0 - step.epsilon, step, halting)

    mix = halting.Rule.keep_last


@parts.haltings.register("q_halt")
def _make(hp, side):
    if side != "encoder" or not side.answers:
        raise HParamError(
            "act_type=q_halt needs an encoder alone, universal_transformer_encoder, each step "
            "of which has an answer. Received: universal_transformer."
        )
    return QHalting(**halting.arguments(hp), pooling=side.pooling)
