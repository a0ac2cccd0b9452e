"""The compiled functions of a model.

The model keeps them, because they hold the model: in a table of this module, they would never be
freed. They are written to its `__dict__`, so Keras does not track them.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ut_keras.decoding.decoded_model import DecodedModel

_NAME = "_decoding_traces"


def of(model: DecodedModel) -> dict[Any, Callable[..., Any]]:
    """Return the dict in which a model keeps its compiled functions."""
    traces: dict[Any, Callable[..., Any]] = vars(model).setdefault(_NAME, {})
    return traces


@contextlib.contextmanager
def fresh(model: DecodedModel) -> Iterator[None]:
    """Context without a model's compiled functions.

    An export traces the model anew, because compiled functions contain custom gradients.
    """
    kept = vars(model).pop(_NAME, None)
    try:
        yield
    finally:
        vars(model).pop(_NAME, None)
        if kept is not None:
            vars(model)[_NAME] = kept
