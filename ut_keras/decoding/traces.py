"""Keeps the compiled functions of a model.

The compiled functions refer to the model. A table in this module would therefore keep the model in
memory. So the functions are stored in the `__dict__` of the model, where Keras does not track them.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ut_keras.decoding.decoded_model import DecodedModel

_NAME = "_decoding_traces"


def of(model: DecodedModel) -> dict[Any, Callable[..., Any]]:
    """Return the dict that holds a model's compiled functions."""
    traces: dict[Any, Callable[..., Any]] = vars(model).setdefault(_NAME, {})
    return traces


def forget(model: DecodedModel) -> None:
    """Remove the compiled functions of a model, because its layers have changed."""
    vars(model).pop(_NAME, None)


@contextlib.contextmanager
def fresh(model: DecodedModel) -> Iterator[None]:
    """Return a context in which a model has no compiled functions.

    Compiled functions contain custom gradients, which an export must not contain. So an export
    traces the model again in this context.
    """
    kept = vars(model).pop(_NAME, None)
    try:
        yield
    finally:
        vars(model).pop(_NAME, None)
        if kept is not None:
            vars(model)[_NAME] = kept
