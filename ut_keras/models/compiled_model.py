"""The method `compile` of models, which takes its defaults from the hparams."""

import logging
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras import optimizers
from ut_keras.metrics import keras_metrics, losses
from ut_keras.models.output import ModelOutput
from ut_keras.ops import private_api

_LOG = logging.getLogger("ut_keras")


class CompiledModel(private_api.ReplicaModel):
    """A `keras.Model` that by default takes optimizer, loss and metrics from hparams."""

    hparams: Any
    specs: Any
    class_labels: bool
    # `fit` and `xla_update` read these two attributes.
    jit_is_auto = False  # whether each call of `fit` sets `auto_uses_xla`
    auto_uses_xla = False  # whether XLA compiles the update because of `jit_compile="auto"`
    _loss_weight = 1.0  # the argument `loss_weights` of `compile`, for the default loss

    def forward(self, features: Mapping[str, Any], training: bool | None = None) -> ModelOutput:
        """Run the forward pass. Subclasses define it."""
        raise NotImplementedError

    def match_lengths(self, logits: Any, targets: Any, *weights: Any) -> tuple:
        """Return logits, targets and weights with the same length, for losses and metrics.

        If the outputs of a model can have another length than the targets, the model overrides this
        method.
        """
        return (logits, targets, *weights)

    def compile(
        self,
        optimizer: Any = None,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        *,
        jit_compile: Any = "auto",
        **kwargs: Any,
    ) -> None:
        """Configure the model for training, like Keras' `compile`.

        If the call does not set an argument, its value comes from the hparams.

        Args:
            optimizer: by default `hparams.optimizer` with its learning-rate schedule.
            loss: by default T2T's smoothed cross-entropy, averaged over real tokens. Data can have
                weights: `sample_weight`, `class_weight` or a third element of a dataset. They are
                float [B] or [B, 1], or [B, T] with one weight per target. With weights, the loss is
                sum(weights * losses) / sum(weights) over the real tokens of all replicas. So if all
                weights are doubled, the loss stays the same, unlike with Keras' default. The ponder
                cost of an example is multiplied by the largest weight of the example. Keras' own
                losses and metrics count padding, except losses with `ignore_class=0`. A log line
                names such a loss or metric. The outputs are logits, so Keras' losses need
                `from_logits=True`. A log line names a loss that reads the outputs as probabilities,
                such as "sparse_categorical_crossentropy".
            loss_weights: float, or a list of one float. Factor of the loss. The factor does not
                apply to the ponder cost.
            metrics: by default accuracy and accuracy per sequence. These two use the data weights,
                like Keras' `weighted_metrics` and unlike Keras' `metrics`. If `weighted_metrics` is
                set, these two ignore the data weights.
            jit_compile: bool or "auto". Whether to compile with XLA. "auto": `fit` compiles the
                update on a GPU, if all batches have one length and XLA can compile the update. On
                CPUs, XLA is slower.
            steps_per_execution: as in Keras. It must be 1 for training on several replicas.
            weighted_metrics and others: as in Keras.

        Raises:
            ValueError: if `loss_weights` has several numbers, or `jit_compile` is neither a bool
                nor "auto". Also if the targets are sequences, and `loss` is a loss of Keras for
                numbers, such as "mse". Such a loss would subtract ids from logits. Also if `loss`
                is a dict with other keys than "targets".
        """
        is_auto = _is_auto(jit_compile)
        if optimizer is None:
            optimizer = optimizers.get(self.hparams)
        if isinstance(loss, Mapping):
            loss = _loss_of_targets(loss)
        _check_dtypes(loss, [metrics, weighted_metrics], self.specs["targets"].vocab_size)
        if loss is None:
            loss = losses.PaddedCrossEntropy(self.hparams.label_smoothing, self.class_labels)
        elif not any(map(self.overrides, ("call", "logits"))):
            has_own_loss = any(map(self.overrides, ("train_step", "compute_loss")))
            if not (self.class_labels or has_own_loss):
                _check_loss(loss)
            _log_losses_of_probabilities(loss, self.class_labels)
        if not self.class_labels:
            _log_counted_padding(loss, metrics, weighted_metrics)
        elif _reads_ids(loss):
            _log_metrics_of_one_hot_targets(metrics, weighted_metrics)
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
            jit_compile=False if is_auto else jit_compile,
            **kwargs,
        )
        self.jit_is_auto, self.auto_uses_xla = is_auto, False
        if is_auto:  # so that a saved or copied model decides again
            private_api.compile_arguments(self)["jit_compile"] = "auto"
        if self.has_default_loss:
            self._loss_weight = _single_weight(loss_weights)
            if not self.overrides("compute_loss"):
                private_api.set_loss_tracker(self, keras_metrics.LossOfParts())

    def get_compile_config(self) -> dict[str, Any] | None:
        """Return the arguments of `compile` for a file, including the optimizer.

        When Keras writes an `.h5` file, it removes the optimizer from its own arguments. A `.keras`
        file that is saved later would then have no optimizer.
        """
        found = super().get_compile_config()
        if found and "optimizer" not in found:
            found["optimizer"] = keras.saving.serialize_keras_object(self.optimizer)
        return found

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile a loaded model. Keras calls this method.

        Keras' own method does not compile a model whose class overrides `compile`.
        """
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    @property
    def has_default_loss(self) -> bool:
        """Whether this model was compiled with T2T's loss.

        The result is False for a subclass of `PaddedCrossEntropy`, because the subclass may compute
        another loss.
        """
        return type(self.loss) is losses.PaddedCrossEntropy

    def overrides(self, method: str) -> bool:
        """Return whether a user's class defines a method of this model."""
        module = getattr(getattr(type(self), method), "__module__", "") or ""
        return not module.startswith(("ut_keras.", "keras."))


def _is_auto(jit_compile):
    """Return whether `jit_compile` is "auto", and reject other strings."""
    is_auto = isinstance(jit_compile, str)
    if is_auto and jit_compile != "auto":
        raise ValueError(f"jit_compile must be True, False or 'auto'. Received: {jit_compile!r}.")
    return is_auto


def _single_weight(loss_weights):
    """Return the argument `loss_weights` of `compile` as a float."""
    weights = [1.0] if loss_weights is None else keras.tree.flatten(loss_weights)
    if len(weights) != 1:
        raise ValueError(f"loss_weights must be one number. Received: {loss_weights!r}.")
    return float(weights[0])


def _loss_of_targets(loss):
    """Return the loss in a dict {"targets": loss}."""
    if set(loss) != {"targets"}:
        raise ValueError(
            "loss must be a loss, or a dict with the key 'targets', because the model has one "
            f"output. Received: a dict with the keys {[*loss]}."
        )
    return loss["targets"]


def _keras_name(one):
    """Return the name of a loss or metric of Keras, or "" if it is not from Keras."""
    if isinstance(one, str):
        return one
    is_keras = (getattr(one, "__module__", "") or "").startswith("keras.")
    return getattr(one, "__name__", type(one).__name__) if is_keras else ""


def _short_name(one):
    """Return the name of a loss or metric of Keras in lower case, without "_"."""
    return _keras_name(one).replace("_", "").lower()


def check_one_hot(loss: Any, y: tf.Tensor, logits: tf.Tensor) -> None:
    """Check that a loss of Keras does not broadcast ids to the shape of the logits.

    The logits have the shape [B, C]. The ids have the shape [B, 1] or [B]. Keras broadcasts [B]
    without an error if B = C.

    Args:
        loss: the argument of `compile`.
        y: the targets: ids, or one-hot targets with the shape of the logits.
        logits: float tensor.

    Raises:
        ValueError: if the loss requires one-hot targets, and `y` contains ids.
    """
    shape, rank = tf.TensorShape(y.shape), logits.shape.rank
    has_no_classes = shape.rank == rank - 1 or (shape.rank == rank and shape[-1] == 1)
    if has_no_classes and logits.shape[-1] != 1 and not _reads_ids(loss):
        raise ValueError(
            "loss must read ids, such as keras.losses.SparseCategoricalCrossentropy("
            "from_logits=True), or the targets must be one-hot, as keras.utils.to_categorical "
            f"returns. Received: {loss!r} and targets of shape {shape}."
        )


def _reads_ids(loss):
    """Return whether the targets of a loss are ids.

    Most losses of Keras need one-hot targets instead.

    Args:
        loss: the argument of `compile`. If a loss is not from Keras, the result is True.
    """
    names = filter(None, map(_short_name, keras.tree.flatten(loss)))
    return all(name.startswith(_LOSSES_OF_IDS) for name in names)


def _example_of_loss(class_labels):
    """Return the Python code of a loss of Keras that fits the model."""
    # The id 0 is padding in a sequence, but it is a class of a classifier.
    ignored = "" if class_labels else ", ignore_class=0"
    return f"keras.losses.SparseCategoricalCrossentropy(from_logits=True{ignored})"


def _check_loss(loss):
    """Raise `ValueError` if a loss of Keras is neither a cross-entropy nor CTC.

    Such a loss, for example "mse", subtracts the ids of the targets from the logits. Keras raises
    no error if it can broadcast the shapes.
    """
    for one in keras.tree.flatten(loss):
        if not _keras_name(one):
            continue
        keras.losses.get(one)  # an unknown name is an error of Keras
        if not _short_name(one).endswith(("crossentropy", "ctc")):
            break
    else:
        return
    raise ValueError(
        f"loss must be a cross-entropy, such as {_example_of_loss(class_labels=False)}, because "
        "the targets are ids and the outputs are logits. None selects T2T's loss. "
        f"Received: {_keras_name(one)!r}."
    )


def _check_dtypes(loss, metrics, num_ids):
    """Raise `ValueError` if a loss or metric of Keras would round ids or counts.

    Keras casts the targets to the dtype of the loss before it reads them as ids. The default dtype
    is `keras.config.floatx()`. In bfloat16, the id 301 becomes 300. A metric also counts the
    targets in its dtype.

    Args:
        loss: the argument of `compile`.
        metrics: nest of metrics.
        num_ids: int, the number of different target ids.
    """
    for one in keras.tree.flatten(loss):
        reads_ids = _short_name(one).startswith(_LOSSES_OF_IDS)
        if reads_ids and num_ids > _MOST_EXACT_IDS.get(_dtype_name(one), num_ids):
            _raise_for_dtype(one)
    for one in keras.tree.flatten(metrics):
        if _keras_name(one) and _dtype_name(one) in _MOST_EXACT_IDS:
            _raise_for_dtype(one)


def _dtype_name(one):
    """Return the name of the dtype of a loss or metric of Keras."""
    return getattr(one, "dtype", None) or keras.config.floatx()


def _raise_for_dtype(one):
    """Raise `ValueError` for a loss or metric of Keras that rounds numbers."""
    raise ValueError(
        "loss and metrics of Keras must have the dtype float32, because they round the ids of the "
        f"targets and counts to their dtype. Received: {_keras_name(one)!r} with "
        f"{_dtype_name(one)}. Pass an object with dtype='float32', such as "
        f"{_example_of_loss(True)[:-1]}, dtype='float32')."
    )


def _log_losses_of_probabilities(loss, class_labels):
    """Log each loss of Keras that reads the logits of the model as probabilities."""
    for one in keras.tree.flatten(loss):
        if isinstance(one, str) or not isinstance(one, keras.losses.Loss):
            # Keras' functions have the default from_logits=False, and a name selects a function.
            name = one if isinstance(one, str) else getattr(one, "__name__", "")
            is_keras = isinstance(one, str) or (one.__module__ or "").startswith("keras.")
            found = is_keras and name.replace("_", "").lower().endswith("crossentropy")
        else:
            is_keras = type(one).__module__.startswith("keras.")
            name = type(one).__name__
            found = is_keras and one.get_config().get("from_logits") is False
        if found:
            _LOG.warning(
                "loss must read logits, such as %s. Received: %s, which reads the logits as "
                "probabilities.",
                _example_of_loss(class_labels),
                name,
            )


_MOST_EXACT_IDS = {"bfloat16": 2**8 + 1, "float16": 2**11 + 1}  # the ids from 0 are exact

# Beginnings of the names of Keras' losses that read ids, in lower case without "_".
_LOSSES_OF_IDS = ("sparse", "ctc", "circle")

# Metrics of Keras that read one-hot targets. Ids [B, 1] would be broadcast to [B, C].
_METRICS_OF_ONE_HOT_TARGETS = (
    "binaryaccuracy",
    "categoricalaccuracy",
    "categoricalcrossentropy",
    "categoricalhinge",
    "cosinesimilarity",
    "f1score",
    "fbetascore",
    "hinge",
    "kldivergence",
    "mae",
    "meanabsoluteerror",
    "meansquarederror",
    "mse",
    "poisson",
    "rootmeansquarederror",
    "squaredhinge",
    "topkcategoricalaccuracy",
)

# Metrics of Keras for ids, in lower case without "_". They count padding as targets.
_METRICS_OF_IDS = (
    "acc",
    "accuracy",
    "crossentropy",
    "ce",
    "sparsecategoricalaccuracy",
    "sparsetopkcategoricalaccuracy",
    "sparsecategoricalcrossentropy",
)


def _log_metrics_of_one_hot_targets(*metrics):
    """Log the metrics of Keras that read one-hot targets."""
    for one in keras.tree.flatten(metrics):
        if _short_name(one) in _METRICS_OF_ONE_HOT_TARGETS:
            _LOG.warning(
                "metrics must read ids, such as keras.metrics.SparseCategoricalAccuracy(). "
                "Received: %s, which reads one-hot targets.",
                _keras_name(one),
            )


def _log_counted_padding(loss, *metrics):
    """Log a loss and the metrics of Keras that count padding as targets."""
    for one in keras.tree.flatten(loss):
        is_keras = isinstance(one, keras.losses.SparseCategoricalCrossentropy)
        settings = one.get_config() if is_keras else {}
        # Without from_logits, the log line of `_log_losses_of_probabilities` names ignore_class.
        if settings.get("from_logits") and settings.get("ignore_class") != 0:
            _LOG.warning(
                "loss counts padding as targets, so the model also learns to predict padding. To "
                "ignore padding, pass ignore_class=0 to the loss, or pass sample weights to fit. "
                "Received: %s.",
                type(one).__name__,
            )
    for one in keras.tree.flatten(metrics):
        if _short_name(one) in _METRICS_OF_IDS:
            _LOG.warning(
                "metrics should ignore padding. Received: %s of Keras, which counts padding as "
                "targets. Use metrics=keras_metrics.default_metrics(class_labels=False), with "
                "keras_metrics from ut_keras.metrics.",
                _keras_name(one),
            )
