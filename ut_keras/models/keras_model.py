"""What makes a model one that Keras can compile, fit and export without being told how."""

import contextlib
import functools
import inspect
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from ut_keras import hparam, optimizers
from ut_keras.data.features import FeatureSpec
from ut_keras.layers.basic import embedding
from ut_keras.metrics import keras_metrics, losses
from ut_keras.metrics import weights as weights_lib
from ut_keras.models import end_of_data
from ut_keras.models import losses as model_losses
from ut_keras.models import update
from ut_keras.models.output import ModelOutput
from ut_keras.ops import private_api
from ut_keras.optimizers import learning_rate

_LOG = logging.getLogger("ut_keras")


class KerasModel(private_api.ReplicaModel):
    """A `keras.Model` of features whose loss is that of the trainer: `forward`, then `loss_terms`.

    A subclass has these two, and what `__init__` of `Seq2Seq` takes, with `check_arguments`.
    """

    hparams: Any
    specs: Any
    target_space_id: int
    num_steps: int | None
    class_labels: bool
    check_arguments: Any
    trains_by_steps: Any = False  # by losses of several steps, which logits alone do not show
    _class_weights = None  # float32 [V] while `fit` weighs by class

    def forward(self, features: Mapping[str, Any], training: bool | None = None) -> ModelOutput:
        """The whole pass."""
        raise NotImplementedError

    def compile(
        self,
        optimizer: Any = None,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        *,
        jit_compile: Any = False,
        **kwargs: Any,
    ) -> None:
        """As Keras' compile; what is left out comes from the hparams.

        Args:
            optimizer: by default `hparams.optimizer` with its learning-rate schedule.
            loss: by default T2T's smoothed cross-entropy over real tokens. Weights of the data
                (`sample_weight`, `class_weight`, a third element of a dataset; float [B], [B, 1]
                or, for every target, [B, T]) make it sum(weights * losses) / sum(weights) over
                the real tokens of all replicas, and weigh each row's ponder cost by its largest;
                all doubled change nothing, as they would by Keras' default.
                A loss of Keras' own counts padding, but for one with `ignore_class=0`, and so do
                metrics of Keras' own.
            loss_weights: float, or a list of one: what the loss is multiplied by, next to the
                ponder cost.
            metrics: by default accuracy and accuracy per sequence. Those are weighted, as Keras'
                `weighted_metrics` are and its `metrics` are not.
            jit_compile: bool. XLA; off by default, for it is slower on CPUs.
            steps_per_execution: as in Keras; 1 to train under a strategy of several replicas.
            weighted_metrics and others: as in Keras.
        """
        if optimizer is None:
            optimizer = optimizers.get(self.hparams)
        if loss is None:
            loss = losses.PaddedCrossEntropy(self.hparams.label_smoothing, self.class_labels)
        if metrics is None:
            metrics = keras_metrics.default_metrics(self.class_labels)
            if weighted_metrics is None:
                metrics, weighted_metrics = [], metrics
        super().compile(
            optimizer=optimizer,
            loss=loss,
            loss_weights=loss_weights,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            jit_compile=jit_compile,
            **kwargs,
        )
        if self._has_own_loss:
            private_api.set_loss_tracker(self, keras_metrics.LossOfParts())
            weights = [1.0] if loss_weights is None else keras.tree.flatten(loss_weights)
            if len(weights) != 1:
                raise ValueError(f"loss_weights must be one number. Received: {loss_weights!r}.")
            self._loss_weight = float(weights[0])

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Keras' hook, when a compiled model is loaded."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    @functools.wraps(keras.Model.fit)
    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        self._check_workers("fit")
        if not self.compiled:  # what was loaded is not, for an optimizer takes memory
            with self.distribute_strategy.scope():
                self._compile_without_end()
        given = _FIT.bind(self, *args, **kwargs).arguments
        y = given.get("y")
        if isinstance(y, np.ndarray) and y.dtype.kind in "iu" and self._has_own_loss:
            embedding.as_ids(y, "targets", self.specs["targets"].vocab_size)
        callbacks = given.get("callbacks")
        callbacks = keras.tree.flatten(getattr(callbacks, "callbacks", callbacks))
        if any(isinstance(callback, _SETS_LEARNING_RATE) for callback in callbacks):
            # Whether it can be set is told now, not at the first plateau after a day.
            rate = keras.ops.convert_to_numpy(self.optimizer.learning_rate)
            self.optimizer.learning_rate = float(rate)
        class_weight = given.pop("class_weight", None)
        del given["self"]
        if class_weight is not None:
            # Keras would take a row of symbols for one class, and fails on classes it is not told
            # of.
            self._class_weights = self._weight_of_each_id(class_weight)
            self.train_function = None  # the next one holds the weights
        try:
            with self._whole_steps(), end_of_data.expected(given.get("steps_per_epoch")):
                history = super().fit(**given)
        finally:
            if class_weight is not None:
                self._class_weights = self.train_function = None
        if history.epoch and not history.history:
            warnings.warn("Your input ran out of data before the first batch.", stacklevel=2)
        return history

    @functools.wraps(keras.Model.evaluate)
    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        self._check_workers("evaluate")
        given = _EVALUATE.bind(self, *args, **kwargs).arguments
        with end_of_data.expected(given.get("steps")):
            return super().evaluate(*args, **kwargs)

    @functools.wraps(keras.Model.predict)
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        given = _PREDICT.bind(self, *args, **kwargs).arguments
        with end_of_data.expected(given.get("steps")):
            return super().predict(*args, **kwargs)

    def _compile_without_end(self):
        schedule = learning_rate.endless(self.hparams)
        kept = schedule.learning_rate_schedule
        if kept != self.hparams.learning_rate_schedule:
            _LOG.warning(
                "Without compile(), learning_rate_schedule=%s: the rest needs an end.", kept
            )
        self.compile(optimizers.get(self.hparams, learning_rate=schedule))

    @functools.wraps(keras.Model.test_on_batch)
    def test_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        self._check_workers("test_on_batch")
        return super().test_on_batch(*args, **kwargs)

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        return_dict: bool = False,
    ) -> Any:
        self._check_workers("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(_ONE_KIND_OF_WEIGHT)
            sample_weight = self._weight_of_each_id(class_weight)[np.asarray(y)]
        with self._whole_steps():
            return super().train_on_batch(x, y, sample_weight, return_dict=return_dict)

    @contextlib.contextmanager
    def _whole_steps(self):
        try:
            yield
        except Exception:
            self.train_function = None  # half made, with which Keras refuses right data, too
            raise

    def make_train_function(self, force: bool = False) -> None:
        """Keras' hook. An update that first makes the optimizer's variables is traced twice."""
        self._check_replicas()
        # The models of this library build all their layers when they are made; others may not.
        is_built = all(layer.built for layer in private_api.flatten_layers(self))
        if is_built and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        super().make_train_function(force)

    def _check_workers(self, method):
        """Raises a `ValueError` under several workers, whose results Keras 3 cannot reduce."""
        strategy = self.distribute_strategy
        replicas = strategy.num_replicas_in_sync
        if replicas > 1 and isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            raise ValueError(
                f"{method} requires another strategy than MultiWorkerMirroredStrategy, which "
                "Keras 3 does not support (keras issue 20585); ut-trainer trains on several "
                f"workers, see docs/clusters.md. Received: {replicas} replicas."
            )

    def _check_replicas(self):
        """Several replicas cannot meet within the branches and loops that Keras trains by."""
        replicas = self.distribute_strategy.num_replicas_in_sync
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        for owner, name, least in (
            (self, "steps_per_execution", 2),
            (optimizer, "gradient_accumulation_steps", 1),
            (optimizer, "ema_overwrite_frequency", 1),
        ):
            value = getattr(owner, name, None) or 0
            if replicas > 1 and value >= least:
                raise ValueError(
                    f"{name} must be left out to train under a strategy of several replicas, where "
                    "Keras cannot do it (optimizers.MultistepAdam accumulates gradients). "
                    f"Received: {value}, and {replicas} replicas."
                )

    def train_step(self, data: Any) -> dict[str, Any]:
        """Keras' hook: nothing of an update happens before its data are there.

        When the data of an epoch have ended, `fit` runs the update once more, which fails. Else
        `iterations` and the seeds of dropout would go on by then, or not, or on some replicas.
        """
        if self._class_weights is not None:
            x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
            if weights is not None:
                raise ValueError(_ONE_KIND_OF_WEIGHT)
            data = (x, y, tf.gather(self._class_weights, tf.cast(y, tf.int32)))
        step = self._own_train_step if self._has_own_loss else self._train_step_of_keras
        if self.jit_compile:
            # What XLA compiled waits for its data anyway, and could not make variables (of the
            # optimizer, of metrics) whose initial values seem to depend on them.
            return step(data)
        parts = [part for part in tf.nest.flatten(data) if part is not None]
        with tf.control_dependencies(parts):
            return step(data)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Keras' hook."""
        if not self._has_own_loss:
            return super().test_step(data)
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        output, _ = self._output_and_terms(x, y, weights, False)
        return self.compute_metrics(x, y, output.logits, sample_weight=weights)

    def _own_train_step(self, data):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        done = update.update(
            self, self.optimizer, lambda: self._output_and_terms(x, y, weights, True)
        )
        return self.compute_metrics(x, y, done.output.logits, sample_weight=weights)

    def _train_step_of_keras(self, data):
        if self.trains_by_steps:
            raise ValueError(
                "act_type=ponder_net or q_halt and recurrence_supervised_every train by losses "
                f"of many steps: loss must be left to compile(). Received: {self.loss!r}."
            )
        return super().train_step(data)

    def _output_and_terms(self, x, y, weights, training):
        """As the trainer's step; what layers have added to the losses of Keras counts, too."""
        _check_targets(y)
        private_api.clear_losses(self)  # a part may have been called by itself
        output = self.forward(x, training)
        smoothing = self.loss.label_smoothing if training else 0.0
        terms = model_losses.terms(self, output, y, smoothing, weights)
        # Not those of the model itself, to which a call adds ponder costs.
        added = [loss for layer in self.layers for loss in layer.losses]
        return output, self._weighted(terms, added)

    def _weighted(self, terms, added):
        """Return the terms as `compile` weighs them, and add them to the loss that is shown."""
        terms["training"] = [
            term._replace(numerator=self._loss_weight * term.numerator)
            for term in terms["training"]
        ]
        if added:
            terms["added"] = [losses.LossTerm(tf.add_n(added), tf.constant(1.0))]
        shown = [tuple(term) for name in terms if name != "extra" for term in terms[name]]
        if extra := terms.get("extra"):  # as many as layers have costs, all of them of the rows
            shown.append((tf.add_n([term.numerator for term in extra]), extra[0].denominator))
        private_api.loss_tracker(self).add(shown)
        return terms

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> tf.Tensor:
        """Keras' hook, of a step of one's own: of the logits, and what a call has added.

        T2T's EVAL mode does not smooth labels.
        """
        _check_targets(y)
        if not self._has_own_loss:
            weights = self._weights_of_losses(y_pred, sample_weight)
            return super().compute_loss(x, y, y_pred, weights, training)
        smoothing = self.loss.label_smoothing if training else 0.0
        term = losses.target_term(y_pred, y, smoothing, self.class_labels, sample_weight)
        terms = self._weighted({"training": [term]}, self.losses)
        # Keras sums the replicas' gradients.
        return losses.total(losses.of_all_replicas(terms))

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Keras' hook, which it takes first, on symbolic tensors."""
        _check_targets(y)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    @property
    def _has_own_loss(self):
        # What a subclass computes is its own.
        return type(self.loss) is losses.PaddedCrossEntropy

    def _weights_of_losses(self, logits, weights):
        """Weights for any loss of Keras, of which most have a value for every target.

        Keras multiplies values [B, T] by [B] as if these belonged to the columns.
        """
        if weights is None or logits.shape.rank < 3:
            return weights
        weights = weights_lib.columns(weights)
        if getattr(self.loss, "reduction", None) == "mean_with_sample_weight":
            # It divides by the sum of what it is given.
            weights = tf.broadcast_to(weights, tf.shape(logits)[:-1])
        return weights

    def _weight_of_each_id(self, class_weight):
        size = self.specs["targets"].vocab_size
        wrong = [number for number in class_weight if not 0 <= number < size]
        if wrong:
            raise ValueError(f"class_weight must be of ids in [0, {size}). Received: {wrong[0]}.")
        table = np.ones(size, np.float32)
        table[list(class_weight)] = list(class_weight.values())
        return table

    def input_signature(
        self, batch_size: int | None = None, **lengths: int
    ) -> list[dict[str, keras.InputSpec]]:
        """What a call takes, for `export`.

        Args:
            batch_size: int; None for any.
            lengths: positions by the name of a feature, such as `inputs=32`. Any where it is left
                out.
        Returns:
            list of one dict from name to `keras.InputSpec`, int32.
        Raises:
            ValueError: if there is no such feature.
        """
        unknown = sorted(set(lengths) - set(self.input_features))
        if unknown:
            raise ValueError(
                f"Lengths must be of {self.input_features}. Received: {', '.join(unknown)}."
            )
        return [
            {
                name: keras.InputSpec(
                    shape=(batch_size, *self._shape_of(name, lengths.get(name))),
                    dtype="int32",
                    name=name,
                )
                for name in self.input_features
            }
        ]

    @property
    def input_features(self) -> list[str]:
        """The names of the features that a call reads."""
        return sorted(self.specs)

    def _shape_of(self, name, length):
        spec = self.specs[name]
        if spec.modality == "class_label":
            return (1,)
        if spec.modality == "sentences":
            return (length, *spec.shape[1:])
        return (length,)

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """As Keras' export; without a signature, for any batch and any lengths.

        Raises:
            ValueError: if a format that needs shapes that are fixed gets no signature.
        """
        if input_signature is None:
            if format != "tf_saved_model":
                free = (name for name in self.input_features if None in self._shape_of(name, None))
                lengths = ", ".join(f"{name}=32" for name in free)
                raise ValueError(
                    f"format={format!r} needs fixed shapes: pass, for example, input_signature="
                    f"model.input_signature(batch_size=1, {lengths}). "
                    "Received: no input_signature."
                )
            input_signature = self.input_signature()
        super().export(filepath, format=format, input_signature=input_signature, **kwargs)

    def quantize(self, mode: Any = None, **kwargs: Any) -> None:
        """Refused: Keras would pass over every layer.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "quantize is not implemented for ut_keras models; hparams with "
            f"activation_dtype=bfloat16 compute in less. Received: mode={mode!r}."
        )

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "hparams": self.hparams.to_dict(),
            "specs": {name: list(spec) for name, spec in self.specs.items()},
            "target_space_id": self.target_space_id,
            "trainable": self.trainable,
            "frozen": frozen(self),
            **({} if self.num_steps is None else {"num_steps": self.num_steps}),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        specs = {
            name: FeatureSpec(size, modality, tuple(shape), *rest)
            for name, (size, modality, shape, *rest) in config["specs"].items()
        }
        hp = hparam.from_dict(config["hparams"])
        cls.check_arguments(hp, specs)
        steps = config.get("num_steps")
        model = cls(hp, specs, config["target_space_id"], num_steps=steps, name=config["name"])
        model.trainable = config.get("trainable", True)
        freeze(model, config.get("frozen", ()))
        return model


def _check_targets(y):
    if y is None:
        raise ValueError(
            "y must be the targets, as in fit(features, features['targets']); a dataset has pairs "
            "of features and targets. Received: None."
        )


_FIT = inspect.signature(keras.Model.fit)
_EVALUATE = inspect.signature(keras.Model.evaluate)
_PREDICT = inspect.signature(keras.Model.predict)
_SETS_LEARNING_RATE = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)
_ONE_KIND_OF_WEIGHT = "class_weight and sample_weight cannot be given together. Received: both."


def frozen(model: keras.Model) -> list[str]:
    """The paths of the layers with `trainable=False`, sorted, for the config of a model.

    Keras keeps it in the config of a layer. A model that makes its layers out of hparams would make
    all of them trainable again, and lose the state of an optimizer of the others.
    """
    return sorted(layer.path for layer in _named_layers(model) if not layer.trainable)


def freeze(model: keras.Model, names: Collection[str]) -> None:
    """Makes those that `frozen` named, and no others, layers with `trainable=False`."""
    if names:
        for layer in _named_layers(model):  # those inside come later: it sets theirs, too
            layer.trainable = layer.path not in names


def _named_layers(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """Those that have been built under a name; the others have no weights."""
    layers = private_api.flatten_layers(model)
    return (layer for layer in layers if layer is not model and layer.path)
