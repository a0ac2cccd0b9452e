"""What makes a model one that Keras can compile and fit without being told how."""

import keras
import tensorflow as tf

from ut_keras.training import losses


class KerasHooks:
    """For a `keras.Model` with `hparams` and `class_labels`; comes before it in the bases."""

    def target_term(self, logits, targets, training):
        """The `LossTerm` of the targets. Labels are smoothed in training only, as in T2T."""
        smoothing = self.hparams.label_smoothing if training else 0.0
        return losses.target_term(logits, targets, smoothing, self.class_labels)

    def train_step(self, data):
        """Keras' hook: nothing of an update happens before its data are there.

        When the data of an epoch have ended, `fit` runs the update once more, which fails. Else
        `iterations` and the seeds of dropout would go on by then, or not, or on some replicas.
        """
        parts = [part for part in tf.nest.flatten(data) if part is not None]
        with tf.control_dependencies(parts):
            return super().train_step(data)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Keras' hook: T2T's EVAL mode does not smooth labels."""
        if self._smooths_labels and sample_weight is None:
            # Read first: where replicas wait for each other, the next one's take their place.
            added = list(self.losses)
            smoothing = self.loss.label_smoothing if training else 0.0
            term = losses.target_term(y_pred, y, smoothing, self.class_labels)
            # Keras sums the replicas' gradients.
            replicas = tf.distribute.get_strategy().num_replicas_in_sync
            value = losses.of_all_replicas(term).value()
            return tf.add_n([value, *(loss / replicas for loss in added)])
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compile(self, optimizer=None, loss=None, metrics=None, jit_compile=False, **kwargs):
        """As Keras' compile; what is left out comes from the hparams.

        Args:
            optimizer: by default `hparams.optimizer` with its learning-rate schedule.
            loss: by default T2T's smoothed cross-entropy over real tokens.
            metrics: by default accuracy and accuracy per sequence.
            jit_compile: bool. XLA; off by default, for it is slower on CPUs.
        """
        from ut_keras.metrics import keras_metrics
        from ut_keras.training import optimize

        if optimizer is None:
            optimizer = optimize.get(self.hparams)
        if loss is None:
            loss = losses.PaddedCrossEntropy(self.hparams.label_smoothing, self.class_labels)
        if metrics is None:
            metrics = keras_metrics.default_metrics(self.class_labels)
        self._smooths_labels = isinstance(loss, losses.PaddedCrossEntropy)
        super().compile(
            optimizer=optimizer, loss=loss, metrics=metrics, jit_compile=jit_compile, **kwargs
        )

    def compile_from_config(self, config):
        """Keras' hook, when a compiled model is loaded."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)
