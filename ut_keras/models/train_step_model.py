"""The training and the evaluation of one batch in Keras' steps."""

import functools
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras.metrics import losses
from ut_keras.metrics import weights as weights_lib
from ut_keras.models import array_checks, compiled_model, xla_update
from ut_keras.models import losses as model_losses
from ut_keras.models.xla_update import Compilation
from ut_keras.ops import private_api
from ut_keras.ops.loss_term import LossTerm
from ut_keras.optimizers import batch_update
from ut_keras.optimizers import update as update_lib


class _SmallOutput(NamedTuple):
    """The part of a segment's output that XLA's programs return.

    `optimizers.batch_update` explains segments.
    """

    logs: dict[str, Any] | None  # the results of the metrics; None if there are several segments
    logits: Any  # the logits of a segment; None if there is only one segment
    carried: Any  # the state from which the next segment starts; None if there is only one segment


class TrainStepModel(compiled_model.CompiledModel):
    """A model whose `train_step` uses the same loss as the trainer of ut_keras.

    A step runs `forward` and computes the loss with `loss_terms`. If a subclass overrides `call` or
    `compute_loss`, the step uses these two methods instead, as Keras does.
    """

    loss_terms: Any
    trains_by_steps: Any = False  # True if the loss uses the states of several steps
    num_segments: Any = 1  # the number of updates for each batch

    def train_step(self, data: Any) -> dict[str, Any]:
        """Run one update after its data have arrived. Keras calls this method.

        At the end of an epoch of unknown length, `fit` starts one more update. This update fails,
        because there is no batch left. A control dependency makes every update wait for its data.
        Without the dependency, the failing update could advance `iterations` and the dropout seeds
        before it fails, perhaps on some replicas only.
        """
        data = array_checks.single_outputs(data)
        step = self._default_loss_step if self._runs_forward else self._keras_train_step
        if xla_update.of_update(self) is Compilation.ONE_PROGRAM:
            # A function that XLA compiled always waits for its data. A control dependency would
            # prevent the function from creating variables of the optimizer and of metrics.
            return step(data)
        # A SparseTensor cannot be a control dependency, but its parts can.
        tensors = tf.nest.flatten(data, expand_composites=True)
        tensors = [tensor for tensor in tensors if tensor is not None]
        with tf.control_dependencies(tensors):
            return step(data)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluate one batch. Keras calls this method."""
        data = array_checks.single_outputs(data)
        if xla_update.of_evaluation(self) is Compilation.EACH_REPLICA:
            step = functools.partial(self._test_step)  # prevents a warning, see `ops.compiled`
            return tf.function(step, jit_compile=True, autograph=False)(data)
        return self._test_step(data)

    def _test_step(self, data):
        if not self._runs_forward:
            return super().test_step(data)
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        output, _ = self._output_and_terms(x, y, weights, False)
        return self.compute_metrics(x, y, output.logits, sample_weight=weights)

    def _default_loss_step(self, data):
        """Run the update with the default loss, and return the results of the metrics."""
        if xla_update.of_update(self) is Compilation.EACH_REPLICA:
            return self._split_step(data)
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        done = batch_update.update(
            self,
            self.optimizer,
            lambda carried: self._output_and_terms(x, y, weights, True, carried),
        )
        return self.compute_metrics(x, y, done.output.logits, sample_weight=weights)

    def _split_step(self, data):
        """Run the update of a replica in the programs of `update_in_two_programs`.

        The logits are large. Therefore the second program also updates the metrics, and does not
        return the logits. If the model has several segments, the programs return the logits, and
        only the logits of the last segment update the metrics.
        """
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        has_segments = batch_update.count(self) > 1

        def forward_and_terms(carried):
            output, terms = self._output_and_terms(x, y, weights, True, carried)
            if has_segments:
                return _SmallOutput(None, output.logits, output.carried), terms
            logs = self.compute_metrics(x, y, output.logits, sample_weight=weights)
            return _SmallOutput(logs, None, None), terms

        update = functools.partial(
            update_lib.update_in_two_programs, more_states=self.metrics_variables
        )
        done = batch_update.update(self, self.optimizer, forward_and_terms, update)
        if has_segments:
            return self.compute_metrics(x, y, done.output.logits, sample_weight=weights)
        return done.output.logs

    @property
    def _runs_forward(self):
        """Whether a step calls `forward` and computes the default loss.

        Otherwise, Keras' own step calls `call` and `compute_loss`. A subclass may override them.
        """
        overrides = self.overrides("call") or self.overrides("compute_loss")
        return self.has_default_loss and not overrides

    def _keras_train_step(self, data):
        """Run Keras' train step. Raise ValueError if a setting requires the default loss."""
        what, received = "loss must not be set", repr(self.loss)
        if self.has_default_loss:
            what = "call and compute_loss must not be overridden"
            received = type(self).__name__
        if self.trains_by_steps:
            raise ValueError(
                f"{what} for act_type=ponder_net, act_type=q_halt or "
                "recurrence_supervised_every: these settings require the default loss, which uses "
                f"the states of several steps. Received: {received}."
            )
        if self.num_segments > 1:
            raise ValueError(
                f"{what} for recurrence_segments, which requires the default loss. "
                f"Received: {received}."
            )
        return super().train_step(data)

    def _output_and_terms(self, x, y, weights, training, carried=None):
        """Run the forward pass, and return its output and its loss terms.

        The terms include the losses that the user's layers add with `add_loss`. The method also
        adds the loss to the metric that Keras displays as "loss".
        """
        array_checks.check_targets(y, must_be_dense=True)
        private_api.clear_losses(self)  # earlier calls of single layers may have added losses
        segment = {} if carried is None else {"carried": carried}
        output = self.forward(x, training, **segment)
        if self.overrides("loss_terms"):
            terms = self.loss_terms(output, y, training, *([] if weights is None else [weights]))
        else:
            smoothing = self.loss.label_smoothing if training else 0.0
            terms = model_losses.terms(self, output, y, smoothing, weights)
        # The losses that the model itself adds are the ponder costs. They are already in `terms`.
        # Therefore `added` has only the losses of the layers.
        added = [loss for layer in self.layers for loss in layer.losses]
        terms = self._complete_terms(terms, added)
        self._display_loss(terms)
        return output, terms

    def _complete_terms(self, terms, added):
        """Return the terms with the `loss_weights` of `compile` and the entry "added".

        Args:
            terms: dict from the name of a loss to a list of `LossTerm`.
            added: list of the losses that the user's layers added.
        """
        weighted = [
            term._replace(numerator=self._loss_weight * term.numerator)
            for term in terms["training"]
        ]
        terms = {**terms, "training": weighted}
        if added:
            total = tf.cast(tf.add_n(added), tf.float32)
            terms["added"] = [LossTerm(total, tf.constant(1.0))]
        return terms

    def _display_loss(self, terms):
        """Update the loss that Keras displays.

        If a class overrides `compute_loss`, Keras displays the result of that method instead.
        """
        if self.overrides("compute_loss"):
            return
        shown = [tuple(term) for name in terms if name != "extra" for term in terms[name]]
        if extra := terms.get("extra"):  # the list has one term per layer, all with one denominator
            shown.append((tf.add_n([term.numerator for term in extra]), extra[0].denominator))
        private_api.loss_tracker(self).add(shown)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> tf.Tensor:
        """Compute the loss of the logits, plus `self.losses` from the forward pass.

        Keras calls this method from a train step that a user wrote. As in T2T, the loss smooths the
        labels only in training.
        """
        y, sample_weight = self._of_known_rank(y, sample_weight)
        array_checks.check_targets(y, must_be_dense=True)
        if not self.has_default_loss:
            compiled_model.check_one_hot(self.loss, y, y_pred)
            weights = self._weights_of_losses(y_pred, sample_weight)
            return super().compute_loss(x, y, y_pred, weights, training)
        smoothing = self.loss.label_smoothing if training else 0.0
        y_pred, y, sample_weight = self.match_lengths(y_pred, y, sample_weight)
        term = losses.target_term(y_pred, y, smoothing, self.class_labels, sample_weight)
        terms = self._complete_terms({"training": [term]}, self.losses)
        self._display_loss(terms)
        # Keras sums the gradients of the replicas, so each replica returns its share of the loss.
        return losses.total(losses.of_all_replicas(terms))

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Compute the metrics. Keras first calls this method once with symbolic tensors."""
        y, sample_weight = self._of_known_rank(y, sample_weight)
        array_checks.check_targets(y)
        y_pred, y, sample_weight = self.match_lengths(y_pred, y, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _of_known_rank(self, y, weights):
        """Return the targets and the weights of a batch with a known rank.

        Class labels and weights can have the shape [B] in one batch and [B, 1] in the next batch.
        TensorFlow then traces one step for both shapes, so the rank is unknown in this step. Keras'
        losses and metrics require a known rank.
        """
        y = array_checks.single("y", y)
        weights = array_checks.single("sample_weight", weights)
        if isinstance(y, tf.Tensor) and y.shape.rank is None and self.class_labels:
            y = tf.reshape(y, [-1, 1])
        if isinstance(weights, tf.Tensor) and weights.shape.rank is None:
            is_one_each = self.class_labels
            weights = tf.reshape(weights, [-1]) if is_one_each else weights_lib.as_matrix(weights)
        return y, weights

    def _weights_of_losses(self, logits, weights):
        """Return the weights in a shape that suits Keras' losses.

        Most losses have one value per target, [B, T]. Keras would broadcast weights [B] along the
        last axis, as if each weight belonged to a position.
        """
        if weights is None or logits.shape.rank < 3:
            return weights
        weights = weights_lib.as_matrix(weights)
        if getattr(self.loss, "reduction", None) == "mean_with_sample_weight":
            # The reduction divides by the sum of the weights, so each target needs its own weight.
            weights = tf.broadcast_to(weights, tf.shape(logits)[:-1])
        return weights
