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


def _as_rows(of_steps):
    """[N, B, ...] to [N * B, ...]."""
    return tf.reshape(of_steps, tf.concat([[-1], tf.shape(of_steps)[2:]], axis=0))


def _of_steps(padding_mask, steps):
    """[B, T] to [N * B, T]."""
    return None if padding_mask is None else tf.tile(padding_mask, [tf.shape(steps.states)[0], 1])


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
        rows = None
        if weights is not None:
            rows = weights_lib.of_rows(targets, self.class_labels, weights)
        ponder = [] if pondered is None else self._ponder_terms(pondered, rows)
        steps = answering_steps(pondered)
        if steps is None:
            term = losses.target_term(logits, targets, smoothing, self.class_labels, weights)
        else:
            mask = pondered.encoder_mask if self.decoder is None else pondered.decoder_mask
            logits = self._logits_of_steps(steps, mask)
            shares = self._weights_of_steps(steps, mask)
            classes = self.class_labels
            term = losses.expected_term(logits, shares, targets, smoothing, classes, weights)
            if steps.confidence is not None:
                missed = losses.confidence_term(
                    steps.confidence, logits, shares, targets, classes, weights
                )
                price = self.hparams.act_loss_weight * missed.numerator
                ponder.append(missed._replace(numerator=price))
        terms = {"training": [term]}
        if ponder:
            terms["act_loss"] = ponder
        return terms

    def _logits_of_steps(self, steps, padding_mask):
        """[N * B, T, V], or [N * B, C] for classes: as if each step were the last."""
        states = _as_rows(steps.states)
        return self.logits(states, padding_mask=_of_steps(padding_mask, steps))

    def _weights_of_steps(self, steps, padding_mask):
        """float32 [N, B, T]; [N, B, 1] for classes: of the positions that are read."""
        if not self.class_labels:
            return steps.weights
        weights = _as_rows(steps.weights)[:, :, tf.newaxis]
        of_rows = self.class_label_head.pool(weights, _of_steps(padding_mask, steps))
        of_rows = tf.reshape(of_rows, [tf.shape(steps.weights)[0], -1, 1])
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
