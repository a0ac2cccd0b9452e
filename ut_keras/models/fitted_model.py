"""Training, evaluation and prediction with Keras' methods, such as `fit`."""

import contextlib
import functools
import inspect
import logging
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ut_keras import optimizers
from ut_keras.metrics import losses
from ut_keras.metrics import weights as weights_lib
from ut_keras.models import (
    array_checks,
    auto_xla,
    compiled_model,
    end_of_data,
    first_batches,
    fit_callbacks,
    generators,
    strategy_checks,
    traced_update,
)
from ut_keras.models import losses as model_losses
from ut_keras.ops import int32, private_api
from ut_keras.ops.loss_term import LossTerm
from ut_keras.optimizers import batch_update, learning_rate
from ut_keras.optimizers import update as update_lib

_LOG = logging.getLogger("ut_keras")


class _SmallOutput(NamedTuple):
    """The part of a segment's output that XLA's programs return.

    `optimizers.batch_update` explains segments.
    """

    logs: dict[str, Any] | None  # the results of the metrics; None if there are several segments
    logits: Any  # the logits of a segment; None if there is only one segment
    carried: Any  # the state from which the next segment starts; None if there is only one segment


class FittedModel(compiled_model.CompiledModel):
    """A model that Keras' `fit` trains with the same loss as the trainer of ut_keras.

    `fit` runs `forward` and computes the loss with `loss_terms`. If a subclass overrides `call` or
    `compute_loss`, `fit` uses these two methods instead, as Keras does.
    """

    loss_terms: Any
    input_features: Any  # list with the names of the features that the model reads
    trains_by_steps: Any = False  # True if the loss uses the states of several steps
    num_segments: Any = 1  # the number of updates for each batch
    _tries_xla = False  # whether `jit_compile="auto"` compiles `train_function` with XLA
    _checked_methods: tuple[str, ...] = ()  # the methods that `_check_once` has checked
    _class_weights = None  # float32 [V], the weight of each id while `fit` runs with class_weight

    @functools.wraps(keras.Model.fit)
    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        strategy_checks.check_method(self, "fit")
        self._compile_if_needed()
        given = _FIT.bind(self, *args, **kwargs).arguments
        generators.check_epochs(given)
        self._check_first_batch(*array_checks.first_batch(*map(given.get, _DATA)))
        validation = keras.utils.unpack_x_y_sample_weight(given.get("validation_data"))
        self._check_arrays(*array_checks.first_batch(*validation))
        self._observe_first_batch(given, "x", "train_step", self._check_first_batch)
        self._observe_first_batch(given, "validation_data", "test_step", self._check_arrays)
        fit_callbacks.check_learning_rate(self, given.get("callbacks"))
        private_api.forget_restored_epoch(self)
        class_weight = given.pop("class_weight", None)
        del given["self"]
        with (
            self._class_weights_set_to(class_weight),
            self._complete_functions(),
            self._xla_on_gpu(given.get("x")),
            end_of_data.expected(given.get("steps_per_epoch")),
        ):
            history = super().fit(**given)
        if history.epoch and not history.history:
            warnings.warn("Your input ran out of data before the first batch.", stacklevel=2)
        return history

    @contextlib.contextmanager
    def _class_weights_set_to(self, class_weight):
        """Return a context in which `_class_weights` has the weights of `class_weight`.

        `fit` does not pass its argument `class_weight` to Keras. Keras would treat a sequence of
        tokens as one class. Keras would also raise an error for classes that are not in
        `class_weight`.
        """
        if class_weight is None:
            yield
            return
        self._class_weights = self._weights_of_classes(class_weight)
        self.train_function = None  # Keras traces a new function with these weights
        try:
            yield
        finally:
            self._class_weights = self.train_function = None

    @functools.wraps(keras.Model.evaluate)
    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        strategy_checks.check_method(self, "evaluate")
        self._compile_if_needed()
        given = _EVALUATE.bind(self, *args, **kwargs).arguments
        more = given.pop("kwargs", {})
        if not more.get("_use_cached_eval_dataset"):  # otherwise `fit` has checked the data
            self._check_arrays(*array_checks.first_batch(*map(given.get, _DATA)))
            self._observe_first_batch(given, "x", "test_step", self._check_arrays)
        del given["self"]
        with end_of_data.expected(given.get("steps")):
            return super().evaluate(**given, **more)

    @functools.wraps(keras.Model.predict)
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        given = _PREDICT.bind(self, *args, **kwargs).arguments
        x, _, _ = array_checks.first_batch(given.get("x"))  # Keras ignores the targets
        self._check_first_features(x)
        self._observe_first_batch(given, "x", "predict_step", self._check_first_features)
        del given["self"]
        with end_of_data.expected(given.get("steps")):
            return super().predict(**given)

    def _compile_if_needed(self):
        """Compile the model with the optimizer of its hparams, unless it is compiled."""
        if self.compiled:  # `ut_keras.load` does not compile a model, to save memory
            return
        schedule = learning_rate.endless(self.hparams)
        kept = schedule.learning_rate_schedule
        if kept != self.hparams.learning_rate_schedule:
            _LOG.warning(
                "The model was not compiled. Its learning_rate_schedule=%s omits the factors that "
                "require the total number of steps. To use them, call "
                "model.compile(optimizers.get(model.hparams, train_steps=…)) first.",
                kept,
            )
        with self.distribute_strategy.scope():
            self.compile(optimizers.get(self.hparams, learning_rate=schedule))

    @functools.wraps(keras.Model.test_on_batch)
    def test_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        strategy_checks.check_method(self, "test_on_batch")
        self._compile_if_needed()
        given = _TEST_ON_BATCH.bind(self, *args, **kwargs).arguments
        self._check_weights("sample_weight", given.get("sample_weight"))
        if not self.overrides("test_step"):  # otherwise batches may have another form
            self._check_once("test_on_batch", self._check_arrays, given.get("x"), given.get("y"))
        return super().test_on_batch(*args, **kwargs)

    @functools.wraps(keras.Model.predict_on_batch)
    def predict_on_batch(self, x: Any) -> Any:
        if not self.overrides("predict_step"):  # otherwise batches may have another form
            self._check_once("predict_on_batch", self._check_first_features, x, None)
        return super().predict_on_batch(x)

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        return_dict: bool = False,
    ) -> Any:
        strategy_checks.check_method(self, "train_on_batch")
        self._compile_if_needed()
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(_ONE_KIND_OF_WEIGHT)
            table = self._weights_of_classes(class_weight)
            sample_weight = table[np.asarray(_single("y", y))]
        self._check_weights("sample_weight", sample_weight)
        if not self.overrides("train_step"):  # otherwise batches may have another form
            self._check_once("train_on_batch", self._check_first_batch, x, y)
        with self._complete_functions():
            return super().train_on_batch(x, y, sample_weight, return_dict=return_dict)

    @contextlib.contextmanager
    def _complete_functions(self):
        """Return a context that removes the train function after an error.

        The train function may then be incomplete, so Keras must trace a new one.
        """
        try:
            yield
        except Exception:
            self.train_function = None  # otherwise Keras would reuse it and reject valid data
            raise

    @contextlib.contextmanager
    def _xla_on_gpu(self, x):
        """Return a context in which XLA compiles the update, if `auto_xla` selects XLA."""
        uses_xla = self.jit_is_auto and auto_xla.compiles_update(self, x)
        if self.jit_is_auto and uses_xla != self._tries_xla:
            self.train_function = None
        self._tries_xla = uses_xla
        if not uses_xla:
            yield
            return
        with auto_xla.jit_compile_set_to(self, True):
            yield

    def make_test_function(self, force: bool = False) -> None:
        """Make the test function. Keras calls this method.

        `jit_compile="auto"` compiles only the update, because validation data may have any shapes.
        """
        with self._outer_function(is_compiled=not self.jit_is_auto):
            super().make_test_function(force)

    @property
    def _splits_update(self):
        """Whether XLA compiles the update of each replica, without sums over replicas."""
        return bool(self.jit_compile) and self.distribute_strategy.num_replicas_in_sync > 1

    @contextlib.contextmanager
    def _outer_function(self, is_compiled=True):
        """Return a context in which Keras makes the function that runs all replicas.

        XLA compiles programs for one device. So the context disables XLA for several replicas.

        Args:
            is_compiled: bool. False disables XLA also for a single replica.
        """
        value = self.jit_compile and is_compiled and not self._splits_update
        with auto_xla.jit_compile_set_to(self, value):
            yield

    def make_train_function(self, force: bool = False) -> None:
        """Build the optimizer, then make the train function. Keras calls this method.

        If the first update built the optimizer, TensorFlow would trace the update twice.
        """
        strategy_checks.check_options(self)
        # The models of this library build all layers in `__init__`. A user's model may have layers
        # that are not built yet.
        is_built = all(layer.built for layer in private_api.flatten_layers(self))
        if is_built and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        traced_update.forget_if_outdated(self)
        is_made = self.train_function is not None and not force
        if self._splits_update and not is_made and (reason := auto_xla.why_not_split(self)):
            raise ValueError(
                f"jit_compile must be False or 'auto' on several replicas: {reason}. "
                "Received: True."
            )
        with self._outer_function():
            if self._class_weights is None:
                super().make_train_function(force)
            elif not is_made:
                step = self._weighted_train_step
                self.train_function = private_api.train_function_of(self, step)
        if self.jit_is_auto and self.jit_compile and not is_made:
            compiled: Any = self.train_function
            safe: Any = auto_xla.TrainFunctionWithFallback(compiled, self._without_xla)
            self.train_function = safe

    def _weighted_train_step(self, data):
        """Run `train_step`, with the class weights as sample weights."""
        x, y, weights = keras.utils.unpack_x_y_sample_weight(_single_outputs(data))
        if weights is not None:
            raise ValueError(_ONE_KIND_OF_WEIGHT)
        ids = int32.cast(tf.convert_to_tensor(y))
        return self.train_step((x, y, tf.gather(self._class_weights, ids)))

    def _without_xla(self):
        """Return a new train function that XLA does not compile."""
        self.jit_is_auto = self._tries_xla = self.jit_compile = False
        self.make_train_function(force=True)
        return self.train_function

    def _weights_of_classes(self, class_weight):
        """Return the weight of each id, float32 [V], and check the weights."""
        table = weights_lib.of_each_id(class_weight, self.specs["targets"].vocab_size)
        self._check_weights("class_weight", table)
        return table

    def _check_weights(self, name, weights):
        """Raise `ValueError` for weights that the default loss does not allow."""
        if weights is not None and self.has_default_loss:
            weights_lib.check(name, np.asarray(_single(name, weights)))

    def _observe_first_batch(self, given, name, step, check):
        """Replace a dataset or generator by one that calls `check` with its first batch.

        Args:
            given: dict, the arguments of `fit`, `evaluate` or `predict`.
            name: str, the argument with the data.
            step: str, the method that gets the batches. If a user's class overrides this method,
                the first batch is not checked. It may have another form, such as a tuple of four
                elements.
            check: method of this model, see `first_batches.observed`.
        """
        if name in given and not self.overrides(step):
            given[name] = first_batches.observed(given[name], check)

    def _check_once(self, method, check, x, y):
        """Check the first batch of a method that gets one batch per call.

        Programs call such a method in a loop. Checks of later batches would repeat the log lines.
        """
        if method not in self._checked_methods:
            check(*array_checks.first_batch(x, y))
            # This assignment bypasses `__setattr__`, so Keras does not track the tuple.
            self.__dict__["_checked_methods"] = (*self._checked_methods, method)

    def _check_first_batch(self, x, y=None, weights=None):
        """Check the arrays of a batch, and the positions of EOS and padding in them."""
        self._check_arrays(x, y, weights)
        if self.has_default_loss and "targets" in self.input_features:
            array_checks.check_ends(self.specs, x)

    def _check_first_features(self, x, y=None, weights=None):
        """Check the features of a batch. `predict` ignores the targets and the weights."""
        self._check_arrays(x)

    def _check_arrays(self, x, y=None, weights=None):
        array_checks.check_no_texts("x", x)
        array_checks.check_no_texts("y", y)
        targets = _single("y", y) if self.has_default_loss else None
        features = x if isinstance(x, Mapping) else {}
        array_checks.check(self.specs, features, targets, "targets" in self.input_features)
        self._check_weights("sample_weight", weights)

    def train_step(self, data: Any) -> dict[str, Any]:
        """Run one update after its data have arrived. Keras calls this method.

        At the end of an epoch of unknown length, `fit` starts one more update. This update fails,
        because there is no batch left. A control dependency makes every update wait for its data.
        Without the dependency, the failing update could advance `iterations` and the dropout seeds
        before it fails, perhaps on some replicas only.
        """
        data = _single_outputs(data)
        step = self._default_loss_step if self._runs_forward else self._keras_train_step
        if self.jit_compile and not self._splits_update:
            # A function that XLA compiled always waits for its data. A control dependency would
            # prevent the function from creating variables of the optimizer and of metrics.
            return step(data)
        tensors = [tensor for tensor in tf.nest.flatten(data) if tensor is not None]
        with tf.control_dependencies(tensors):
            return step(data)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluate one batch. Keras calls this method."""
        data = _single_outputs(data)
        if self._splits_update and not self.jit_is_auto:
            step = functools.partial(self._test_step)  # prevents a warning, see `compiled`
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
        if self._splits_update:
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
        """Return the output and the loss terms.

        The terms include the losses that the user's layers add with `add_loss`.
        """
        array_checks.check_targets(y)
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
        return output, self._weighted(terms, added)

    def _weighted(self, terms, added):
        """Apply `loss_weights` of `compile`, and update the loss that Keras displays.

        Returns:
            The weighted terms. The entry "added" has the losses that the user's layers added.
        """
        terms["training"] = [
            term._replace(numerator=self._loss_weight * term.numerator)
            for term in terms["training"]
        ]
        if added:
            terms["added"] = [LossTerm(tf.add_n(added), tf.constant(1.0))]
        shown = [tuple(term) for name in terms if name != "extra" for term in terms[name]]
        if extra := terms.get("extra"):  # the list has one term per layer, all with one denominator
            shown.append((tf.add_n([term.numerator for term in extra]), extra[0].denominator))
        if not self.overrides("compute_loss"):  # otherwise Keras displays the result of that method
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
        """Compute the loss of the logits, plus `self.losses` from the forward pass.

        Keras calls this method from a train step that a user wrote. As in T2T, the loss smooths the
        labels only in training.
        """
        y, sample_weight = _single("y", y), _single("sample_weight", sample_weight)
        array_checks.check_targets(y)
        if not self.has_default_loss:
            compiled_model.check_one_hot(self.loss, y, y_pred)
            weights = self._weights_of_losses(y_pred, sample_weight)
            return super().compute_loss(x, y, y_pred, weights, training)
        smoothing = self.loss.label_smoothing if training else 0.0
        y_pred, y, sample_weight = self.match_lengths(y_pred, y, sample_weight)
        term = losses.target_term(y_pred, y, smoothing, self.class_labels, sample_weight)
        terms = self._weighted({"training": [term]}, self.losses)
        # Keras sums the gradients of the replicas, so each replica returns its share of the loss.
        return losses.total(losses.of_all_replicas(terms))

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Compute the metrics. Keras first calls this method once with symbolic tensors."""
        y, sample_weight = _single("y", y), _single("sample_weight", sample_weight)
        array_checks.check_targets(y)
        y_pred, y, sample_weight = self.match_lengths(y_pred, y, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

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


def _single_outputs(data):
    """Return a batch with tensors as targets and weights.

    Keras also accepts lists, tuples and dicts of targets and weights, because a model can have
    several outputs. The function returns the only element of such a container.

    Raises:
        ValueError: if a container has several elements, because the model has a single output.
    """
    x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
    return x, _single("y", y), _single("sample_weight", weights)


def _single(name, values):
    """Return the only element of a list, tuple or dict. Return other values unchanged."""
    if not isinstance(values, list | tuple | Mapping):
        return values
    found = keras.tree.flatten(values)
    if len(found) != 1:
        raise ValueError(
            f"{name} must be an array, such as np.array({name}). In Keras, a list has one element "
            f"for each output, and the model has a single output. Received: a "
            f"{type(values).__name__} with {len(found)} elements."
        )
    return found[0]


_DATA = ("x", "y", "sample_weight")
_FIT = inspect.signature(keras.Model.fit)
_EVALUATE = inspect.signature(keras.Model.evaluate)
_TEST_ON_BATCH = inspect.signature(keras.Model.test_on_batch)
_PREDICT = inspect.signature(keras.Model.predict)
_ONE_KIND_OF_WEIGHT = "Only one of class_weight and sample_weight can be given. Received: both."
