"""The compiled functions of a model, and the changes that make them outdated.

TensorFlow traces a function once. The function then contains the objects that the trace has read,
and it would ignore a later change of the model. So before each use, `CompiledFunctions` compares
what a function contains with the model. If they differ, it removes the function, and the next use
traces a new one.

- Every function contains the layers that are attributes of the model, and `num_steps`.
- The `train_function` also contains the learning rates or schedules of the optimizer, the trainable
  variables, the class weights of `fit`, and the choice of `jit_compile="auto"`.

A train function may also be incomplete after an error. Then `FittedModel` removes it at once.
"""

import contextlib
import contextvars
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

from ut_keras.ops import private_api
from ut_keras.optimizers.optimizer import weight_optimizers

# The functions of decoding in the contexts of `without_decoding`. The key is the id of a
# `CompiledFunctions`. Other threads do not see the contexts, because this is a context variable.
_WITHOUT_DECODING: contextvars.ContextVar[Mapping[int, dict[Any, Callable[..., Any]]] | None]
_WITHOUT_DECODING = contextvars.ContextVar("without_decoding", default=None)


class CompiledFunctions:
    """The compiled functions of one model.

    Keras' functions are attributes of the model: `train_function`, `test_function` and
    `predict_function`. This object keeps the functions of decoding.

    Args:
        model: a `Seq2Seq`.

    Attributes:
        failed_with_xla: set of str. The names of the functions that XLA could not compile in an
            earlier call, such as "the search".
        is_slow_search_logged: bool. Whether the log says why a search uses no cache.
    """

    def __init__(self, model: Any) -> None:
        self.failed_with_xla: set[str] = set()
        self.is_slow_search_logged = False
        self._model = model
        self._decoding: dict[Any, Callable[..., Any]] = {}
        self._contents: dict[str, list[Any]] = {}  # name of a function -> what it contains

    def of_decoding(self) -> dict[Any, Callable[..., Any]]:
        """Return the dict that holds the compiled functions of decoding.

        If the functions are outdated, the dict is empty.
        """
        if (of_context := (_WITHOUT_DECODING.get() or {}).get(id(self))) is not None:
            return of_context
        is_outdated = self._store_contents("decoding")
        if is_outdated:
            self._decoding.clear()
        return self._decoding

    @contextlib.contextmanager
    def without_decoding(self) -> Iterator[None]:
        """Return a context in which decoding has no compiled functions.

        Compiled functions contain custom gradients, which an export must not contain. So an export
        traces the model again in this context. Other threads keep their functions.
        """
        before = _WITHOUT_DECODING.set({**(_WITHOUT_DECODING.get() or {}), id(self): {}})
        try:
            yield
        finally:
            _WITHOUT_DECODING.reset(before)

    def remove_outdated(self, name: str) -> None:
        """Set a function of Keras to None if it is outdated. Keras then makes a new one.

        Args:
            name: "train_function", "test_function" or "predict_function".
        """
        is_outdated = self._store_contents(name)
        if is_outdated:
            setattr(self._model, name, None)

    def _store_contents(self, name):
        """Store what a function must contain now, and return whether this has changed."""
        contents = contents_of_forward_pass(self._model)
        if name == "train_function":
            contents += _contents_of_update(self._model)
        before = self._contents.get(name, contents)
        self._contents[name] = contents
        return differ(before, contents)


def contents_of_forward_pass(model: Any) -> list[Any]:
    """Return the objects that every compiled function of a model contains."""
    layers = [value for value in vars(model).values() if isinstance(value, keras.layers.Layer)]
    return [*layers, model.num_steps]


def _contents_of_update(model):
    """Return the other objects that the train function of a model contains."""
    rates = [private_api.rate_or_schedule(one) for one in weight_optimizers(model.optimizer)]
    return [*rates, *model.trainable_variables, model._class_weights, model.auto_uses_xla]


def differ(before: list[Any], after: list[Any]) -> bool:
    """Return whether two lists differ. Objects are compared by identity."""
    return len(before) != len(after) or any(map(operator.is_not, before, after))
