"""Training, evaluation and prediction with Keras' methods, such as `fit`."""

import contextlib
import functools
import inspect
import logging
import warnings
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras import optimizers
from ut_keras.layers.basic import id_checks
from ut_keras.metrics import weights as weights_lib
from ut_keras.models import (
    array_checks,
    end_of_data,
    epoch_order,
    feature_checks,
    first_batches,
    fit_callbacks,
    generators,
    plain_data,
    strategy_checks,
    train_step_model,
    xla_update,
)
from ut_keras.models import compiled_functions as functions_lib
from ut_keras.models.xla_update import Compilation
from ut_keras.ops import int32, private_api
from ut_keras.optimizers import learning_rate

_LOG = logging.getLogger("ut_keras")


class FittedModel(train_step_model.TrainStepModel):
    """A model that checks its data before Keras' `fit`, `evaluate` and `predict` run."""

    input_features: Any  # list with the names of the features that the model reads
    _check_features: Any  # method that checks the names and the batch sizes of features
    compiled_functions: functions_lib.CompiledFunctions
    # The methods that `_check_once` has checked. Keras would track a set, a list or a tuple.
    _checked_methods: frozenset[str] = frozenset()
    _class_weights = None  # float32 [V], the weight of each id while `fit` runs with class_weight

    @functools.wraps(keras.Model.fit)
    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        strategy_checks.check_method(self, "fit")
        self._compile_if_needed()
        given = _arguments(_FIT.bind(self, *args, **kwargs))
        generators.check_epochs(given)
        epoch_order.log_equal_epochs(given)
        self._check_first_batch(*array_checks.first_batch(*map(given.get, _DATA)))
        validation = keras.utils.unpack_x_y_sample_weight(given.get("validation_data"))
        self._check_arrays(*array_checks.first_batch(*validation))
        given["x"] = self._observed(given.get("x"), "train_step", self._check_first_batch)
        given["validation_data"] = self._observed(
            given.get("validation_data"), "test_step", self._check_arrays
        )
        fit_callbacks.check_learning_rate(self.optimizer, given.get("callbacks"))
        private_api.forget_restored_epoch(self)
        class_weight = given.pop("class_weight", None)
        contents = functions_lib.contents_of_forward_pass(self)
        with (
            self._class_weights_set_to(class_weight),
            self._train_function_removed_after_error(),
            end_of_data.expected(given.get("steps_per_epoch")),
        ):
            if self.jit_is_auto:
                self.auto_uses_xla = xla_update.suits_update(self, given.get("x"))
            history = super().fit(**given)
        if functions_lib.differ(contents, functions_lib.contents_of_forward_pass(self)):
            warnings.warn(
                "A layer or num_steps was changed during fit. The change has no effect on training "
                "until the next call of fit.",
                stacklevel=2,
            )
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
        try:
            yield
        finally:
            self._class_weights = None

    @functools.wraps(keras.Model.evaluate)
    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        strategy_checks.check_method(self, "evaluate")
        self._compile_if_needed()
        given = _arguments(_EVALUATE.bind(self, *args, **kwargs))
        more = given.pop("kwargs", {})
        if not more.get("_use_cached_eval_dataset"):  # otherwise `fit` has checked the data
            self._check_arrays(*array_checks.first_batch(*map(given.get, _DATA)))
            given["x"] = self._observed(given.get("x"), "test_step", self._check_arrays)
        with end_of_data.expected(given.get("steps")):
            return super().evaluate(**given, **more)

    @functools.wraps(keras.Model.predict)
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        given = _arguments(_PREDICT.bind(self, *args, **kwargs))
        x, _, _ = array_checks.first_batch(given["x"])  # Keras ignores the targets
        self._check_first_features(x)
        given["x"] = self._observed(given["x"], "predict_step", self._check_first_features)
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
        given = _arguments(_TEST_ON_BATCH.bind(self, *args, **kwargs))
        self._check_weights("sample_weight", *map(given.get, ("sample_weight", "y")))
        if not self.overrides("test_step"):  # otherwise batches may have another form
            given["x"] = self._with_tensors(given.get("x"))
            self._check_once("test_on_batch", self._check_arrays, given["x"], given.get("y"))
        return super().test_on_batch(**given)

    @functools.wraps(keras.Model.predict_on_batch)
    def predict_on_batch(self, x: Any) -> Any:
        x = plain_data.plain(x)
        if not self.overrides("predict_step"):  # otherwise batches may have another form
            x = self._with_tensors(x)
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
        x, y, sample_weight = map(plain_data.plain, (x, y, sample_weight))
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(_ONE_KIND_OF_WEIGHT)
            table = self._weights_of_classes(class_weight)
            sample_weight = table[np.asarray(array_checks.single("y", y))]
        self._check_weights("sample_weight", sample_weight, y)
        if not self.overrides("train_step"):  # otherwise batches may have another form
            x = self._with_tensors(x)
            self._check_once("train_on_batch", self._check_first_batch, x, y)
        with self._train_function_removed_after_error():
            return super().train_on_batch(x, y, sample_weight, return_dict=return_dict)

    @contextlib.contextmanager
    def _train_function_removed_after_error(self):
        """Return a context that removes the train function after an error.

        The train function may then be incomplete, so Keras must trace a new one. The choice of
        `jit_compile="auto"` is also removed, because `fit` made it for the data of this function.
        """
        try:
            yield
        except Exception:
            self.train_function = None  # otherwise Keras would reuse it and reject valid data
            self.auto_uses_xla = False
            raise

    def make_test_function(self, force: bool = False) -> None:
        """Make the test function. Keras calls this method."""
        self.compiled_functions.remove_outdated("test_function")
        is_compiled = xla_update.of_evaluation(self) is Compilation.ONE_PROGRAM
        with xla_update.jit_compile_set_to(self, is_compiled):
            super().make_test_function(force)

    def make_predict_function(self, force: bool = False) -> Any:
        """Make the predict function. Keras calls this method."""
        self.compiled_functions.remove_outdated("predict_function")
        return super().make_predict_function(force)

    def make_train_function(self, force: bool = False) -> None:
        """Build the optimizer, then make the train function. Keras calls this method."""
        strategy_checks.check_options(self)
        self._build_optimizer_early()
        self.compiled_functions.remove_outdated("train_function")
        if self.train_function is not None and not force:
            return
        compilation = xla_update.of_update(self)
        on_replicas = compilation is Compilation.EACH_REPLICA
        if on_replicas and (reason := xla_update.why_not_on_replicas(self)):
            raise ValueError(
                f"jit_compile must be False or 'auto' on several replicas: {reason}. "
                "Received: True."
            )
        with xla_update.jit_compile_set_to(self, compilation is Compilation.ONE_PROGRAM):
            if self._class_weights is None:
                super().make_train_function(force)
            else:
                step = self._weighted_train_step
                self.train_function = private_api.train_function_of(self, step)
        if self.auto_uses_xla:
            compiled: Any = self.train_function
            safe: Any = xla_update.TrainFunctionWithFallback(compiled, self._without_xla)
            self.train_function = safe

    def _build_optimizer_early(self):
        """Build the optimizer, unless the model has layers that are not built yet.

        If the first update built the optimizer, TensorFlow would trace the update twice. The models
        of this library build all layers in `__init__`, but a user's model may not.
        """
        is_built = all(layer.built for layer in private_api.flatten_layers(self))
        if is_built and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)

    def _weighted_train_step(self, data):
        """Run `train_step`, with the class weights as sample weights."""
        x, y, weights = keras.utils.unpack_x_y_sample_weight(array_checks.single_outputs(data))
        if weights is not None:
            raise ValueError(_ONE_KIND_OF_WEIGHT)
        ids = int32.cast(tf.convert_to_tensor(y))
        return self.train_step((x, y, tf.gather(self._class_weights, ids)))

    def _without_xla(self):
        """Make and return a train function without XLA.

        Later calls of `fit` do not try XLA again.
        """
        self.jit_is_auto = self.auto_uses_xla = False
        self.make_train_function(force=True)
        return self.train_function

    def _weights_of_classes(self, class_weight):
        """Return the weight of each id, float32 [V], and check the weights."""
        table = weights_lib.of_each_id(class_weight, self.specs["targets"].vocab_size)
        self._check_weights("class_weight", table)
        return table

    def _check_weights(self, name, weights, y=None):
        """Raise `ValueError` for weights that the default loss does not allow."""
        if weights is not None and self.has_default_loss:
            weights = array_checks.single(name, weights)
            id_checks.check_dense(weights, name)
            weights_lib.check(name, np.asarray(weights), id_checks.known_batch_size(y))

    def _observed(self, data, step, check):
        """Return data with the same batches, and call `check` with the first batch.

        Args:
            data: an argument of `fit`, `evaluate` or `predict`, see `first_batches.observed`.
            step: str, the method that gets the batches. If a user's class overrides this method,
                the first batch is not checked. It may have another form, such as a tuple of four
                elements.
            check: method of this model.
        """
        return data if self.overrides(step) else first_batches.observed(data, check)

    def _check_once(self, method, check, x, y):
        """Check the first batch of a method that gets one batch per call.

        Programs call such a method in a loop. Checks of later batches would repeat the log lines.
        """
        if method not in self._checked_methods:
            check(*array_checks.first_batch(x, y))
            self._checked_methods |= {method}

    def _with_tensors(self, x):
        """Check the features of one batch, and return them as tensors.

        TensorFlow may trace a function for batches of any size. This function cannot compare the
        batch sizes of the features, and a batch of one example would be broadcast.
        """
        are_ids = not self.overrides("call")
        x = feature_checks.with_tensors(x, self.specs, self.input_features, are_ids)
        self._check_features(x)
        return x

    def _check_first_batch(self, x, y=None, weights=None):
        """Check the arrays of a batch, and the positions of EOS and padding in them."""
        self._check_arrays(x, y, weights)
        if self.has_default_loss and "targets" in self.input_features:
            array_checks.check_ends(self.specs, x)

    def _check_first_features(self, x, y=None, weights=None):
        """Check the features of a batch. `predict` ignores the targets and the weights."""
        self._check_arrays(x)

    def _check_arrays(self, x, y=None, weights=None):
        array_checks.check_kind("x", x, read_features=self.specs)
        are_labels = self.specs["targets"].modality == "class_label"
        array_checks.check_kind("y", y, are_labels)
        targets = array_checks.single("y", y) if self.has_default_loss else None
        features = x if isinstance(x, Mapping) else {}
        array_checks.check(self.specs, features, targets, "targets" in self.input_features)
        self._check_weights("sample_weight", weights, targets)


def _arguments(bound):
    """Return the arguments of a call of a method such as `fit`, with `plain` data.

    Args:
        bound: `inspect.BoundArguments`, which also contain the model itself as `self`.
    """
    data = (*_DATA, "validation_data")
    return {
        name: plain_data.plain(value) if name in data else value
        for name, value in bound.arguments.items()
        if name != "self"
    }


_DATA = ("x", "y", "sample_weight")
_FIT = inspect.signature(keras.Model.fit)
_EVALUATE = inspect.signature(keras.Model.evaluate)
_TEST_ON_BATCH = inspect.signature(keras.Model.test_on_batch)
_PREDICT = inspect.signature(keras.Model.predict)
_ONE_KIND_OF_WEIGHT = "Only one of class_weight and sample_weight can be given. Received: both."
