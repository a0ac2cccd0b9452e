"""Checks of the model and the encoders that an export gets."""

from collections.abc import Mapping
from typing import Any

import keras


def check(model: Any, call: str, encoders: Any = None) -> None:
    """Raise `ValueError` if `model` is not a Keras model, or `encoders` is not a dict.

    `ut_keras.load` may return a `SavedRun`. Some callers pass this run instead of its model.

    Args:
        model: the model to export.
        call: str, the correct call for a run. The error shows it.
        encoders: dict from feature name to `TextEncoder`. None: the export needs no encoders.
    """
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"model must be a Keras model, such as run.model. Received: a {type(model).__name__}. "
            f"Use {call}."
        )
    if not isinstance(encoders, Mapping | None):
        raise ValueError(
            "encoders must be a dict from feature name to encoder, such as run.encoders. "
            f"Received: {encoders!r}. Use {call}."
        )
