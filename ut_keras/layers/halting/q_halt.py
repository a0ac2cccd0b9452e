"""Halting by a head that learns whether the current prediction is correct."""

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError
from ut_keras.layers.basic import class_label_head
from ut_keras.layers.basic.class_label_head import Pooling
from ut_keras.layers.basic.signature import Initializer
from ut_keras.layers.halting import halting
from ut_keras.layers.halting.halting import HaltingState, Step


@keras.saving.register_keras_serializable(package="ut_keras")
class QHalting(halting.LinearRule):
    """Halts at inference when a head expects the current prediction to be correct.

        q^n    = W s^n + b
        N      = the first n with  sigmoid(q^n) > 1 - epsilon, at most M = max_steps
        output = s^N
        loss   = 1/M sum_n ( L(s^n) + act_loss_weight H(q^n) )
        H(q^n) = -log sigmoid(q^n)   if the prediction from s^n is correct
                 -log sigmoid(-q^n)  otherwise

    Without `pooling`, every position predicts a token, and halts on its own. With `pooling`, every
    example predicts a class, and halts as a unit. In this case the rule pools q over the positions
    like the class logits, and inference removes halted examples from the loop.

    In training, no position halts. The loop takes all M steps, and each step has a loss. Therefore
    the head reads the same states in training and at inference. With `act_halted_state="copy"`, the
    states are only approximately the same: at inference, other positions attend to the last state
    of a halted position.

    This rule shares several properties with the Hierarchical Reasoning Model and with the Tiny
    Recursive Model (the tiny model):

    - the target of the head,
    - the head's input, which is the state after the step,
    - the threshold (epsilon = 0.5),
    - b = -5 and act_loss_weight = 0.5.

    As in the tiny model, the loss has no Q-learning term. The two models differ from this rule as
    follows:

    - They halt complete examples. The halting decision is q of one position at the start of the
      sequence. Training teaches this q to predict whether all tokens are correct.
    - They also halt in training, except for randomly explored steps. The next example then replaces
      the halted example in the batch.
    - They update the weights after each step, without gradients into earlier steps. The hparam
      `recurrence_segments` trains in this way (`layers.depth.segments`).
    - Their evaluation takes all steps.

    These statements describe the authors' code. We could not check the losses of the tiny model.

    Args:
        max_steps, epsilon, mask_padding: as in `Rule`. M is max_steps.
        pooling: str, the pooling of the class logits over the positions. See
            `class_label_head.pool`. None if every position has a prediction.
        bias_init: float, the initial value of b.
        kernel_initializer: Keras initializer of W.

    Call arguments:
        state: float tensor [..., D].

    Returns:
        float32 tensor [..., 1], the logits W s + b. The recurrence uses the methods of `Rule`
        instead of this call.

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

    def mix(self, state: tf.Tensor, output: tf.Tensor, update_weights: tf.Tensor) -> tf.Tensor:
        return self.keep_last(state, output, update_weights)


@parts.haltings.register("q_halt")
def _make(hp, side):
    if side != "encoder" or not side.predicts:
        raise HParamError(
            "act_type=q_halt requires the model universal_transformer_encoder, because every step "
            "must have a prediction. Received: universal_transformer."
        )
    return QHalting(**halting.arguments(hp), pooling=side.pooling)
