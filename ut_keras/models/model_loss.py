"""What a model is trained by: the loss of its targets, and what it costs to ponder."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from ut_keras import losses
from ut_keras.layers.stack_output import StackOutput
from ut_keras.layers.step_record import Steps
from ut_keras.metrics import weights as weights_lib

if TYPE_CHECKING:
    from ut_keras.models.transformer import ModelOutput


class Inspection(NamedTuple):
    """A forward pass with its losses, for looking at."""

    logits: tf.Tensor
    losses: dict  # {"training": scalar, "act_loss" or "extra": scalar}, as T2T names them
    encoder: StackOutput | None
    decoder: StackOutput | None


def answering_steps(output: "ModelOutput | None") -> Steps | None:
    """The `Steps` that logits are made of, each with a loss of its own; None where there are none.

    Args:
        output: `ModelOutput`, or None.
    """
    stack = output and (output.encoder if output.decoder is None else output.decoder)
    return stack and stack.steps


class ModelLoss:
    """For a `keras.Model` with `forward`, `logits`, `encoder`, `decoder`, `class_labels`; before it
    in bases.
    """

    def loss_terms(
        self,
        output: "ModelOutput",
        targets: tf.Tensor,
        training: bool,
        weights: tf.Tensor | None = None,
    ) -> dict[str, list[losses.LossTerm]]:
        """The parts of the loss of a forward pass.

        Args:
            output: `ModelOutput`.
            targets: int [B, T]; [B] or [B, 1] for classes.
            training: bool. Labels are smoothed in training only, as in T2T.
            weights: float [B], [B, 1] or [B, T], what the targets weigh: see `losses`. Optional.
        Returns:
            dict from T2T's name to a list of `LossTerm`; `losses.total` sums it.
        """
        smoothing = self.hparams.label_smoothing if training else 0.0
        return self.smoothed_loss_terms(output.logits, output, targets, smoothing, weights)

    def smoothed_loss_terms(
        self,
        logits: tf.Tensor,
        pondered: "ModelOutput | None",
        targets: tf.Tensor,
        smoothing: float,
        weights: tf.Tensor | None = None,
    ) -> dict[str, list[losses.LossTerm]]:
        """As `loss_terms`, of a label smoothing that is given.

        Args:
            logits: [B, T, V], or [B, C] for classes.
            pondered: `ModelOutput`, of which the ponder times are read; None leaves them out.
        """
        steps = answering_steps(pondered)
        if steps is None:
            term = losses.target_term(logits, targets, smoothing, self.class_labels, weights)
        else:
            term = losses.expected_term(
                self._logits_of_steps(steps),
                self._weights_of_steps(steps),
                targets,
                smoothing,
                self.class_labels,
                weights,
            )
        terms = {"training": [term]}
        rows = None
        if weights is not None:
            rows = weights_lib.of_rows(targets, self.class_labels, weights)
        ponder = [] if pondered is None else self._ponder_terms(pondered, rows)
        if ponder:
            terms["act_loss"] = ponder
        return terms

    def _logits_of_steps(self, steps):
        """[N * B, T, V], or [N * B, C] for classes: as if each step were the last."""
        shape = tf.shape(steps.states)
        states = tf.reshape(steps.states, tf.concat([[-1], shape[2:]], axis=0))
        return self.logits(states)

    def _weights_of_steps(self, steps):
        """float32 [N, B, T]; [N, B, 1] for classes: the mean of all positions."""
        if not self.class_labels:
            return steps.weights
        of_rows = tf.reduce_sum(steps.weights, axis=2, keepdims=True)
        return tf.math.divide_no_nan(of_rows, tf.reduce_sum(of_rows, axis=0))

    def _ponder_terms(self, output, rows=None):
        """What it costs to ponder, each row weighed: a list of `LossTerm`."""
        stacks = (
            (self.encoder, output.encoder, output.encoder_mask),
            (self.decoder, output.decoder, output.decoder_mask),
        )
        return [
            losses.LossTerm(*term)
            for stack, result, padding_mask in stacks
            if result is not None
            for term in stack.ponder_terms(result, padding_mask, rows)
        ]

    def inspect(self, features: Mapping[str, Any], training: bool = False) -> Inspection:
        """A forward pass with everything that can be looked at.

        Args:
            features: as in a call.
            training: bool. True is T2T's TRAIN mode (dropout, label smoothing), False its EVAL.
        Returns:
            `Inspection`: logits, losses (scalars by T2T's names), encoder and decoder
            (`StackOutput`s with attention weights per step).
        """
        output = self.forward(features, training, record_attention=True)
        terms = self.loss_terms(output, features["targets"], training)
        values = {name: tf.add_n([term.value() for term in parts]) for name, parts in terms.items()}
        values.setdefault("extra", tf.constant(0.0))
        if "act_loss" in values:  # T2T adds "extra" only where nothing else is added
            del values["extra"]
        return Inspection(output.logits, values, output.encoder, output.decoder)
