"""Calls functions that XLA compiles, and catches the errors of XLA.

With `jit_compile="auto"`, `call` returns None if XLA cannot compile a function, or if a padded
batch does not fit in memory. The caller then continues without XLA.

The search (`xla_search`) and the scoring of given targets (`xla_score`) use these functions.
"""

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_keras.decoding.decoded_model import DecodedModel
from ut_keras.decoding.options import AUTO
from ut_keras.ops import devices, xla_errors

_LOG = logging.getLogger("ut_keras")


def is_allowed(model: DecodedModel, work: str, jit_compile: bool | str) -> bool:
    """Return whether XLA may compile a function.

    Args:
        model: a `DecodedModel`.
        work: str, the name of the function in log lines, such as "the search".
        jit_compile: bool or "auto", as in `Options`.
    """
    if not jit_compile or tf.config.functions_run_eagerly():
        return False
    return jit_compile != AUTO or (devices.has_gpu() and not has_failed(model, work))


def has_failed(model: DecodedModel, work: str) -> bool:
    """Return whether XLA could not compile a function of a model in an earlier call."""
    return work in model.compiled_functions.failed_with_xla


def log_reason(work: str, reason: str) -> None:
    """Log why "auto" does not compile a function."""
    _LOG.info("jit_compile='auto' does not compile %s: %s.", work, reason)


def call(
    model: DecodedModel,
    work: str,
    jit_compile: bool | str,
    shape: Any,
    function: Callable[[], Any],
) -> Any:
    """Return the result of a function that XLA compiles.

    Args:
        model, work, jit_compile: as in `is_allowed`.
        shape: the shape of the batch, for a log line.
        function: function without arguments. It must wait for the device, so that it raises the
            errors of the device.

    Returns:
        The result, or None. With `jit_compile="auto"`, the result is None if XLA cannot compile the
            function, or if the padded batch does not fit in memory. The log then has a line that
            says why. If XLA cannot compile the function, `has_failed` is True from now on.
    """
    try:
        return function()
    except tf.errors.ResourceExhaustedError:
        if jit_compile != AUTO:
            raise
        _LOG.warning(
            "jit_compile='auto': %s of a batch of shape %s runs without XLA, because the padded "
            "batch does not fit in memory with XLA",
            work,
            list(shape),
        )
    except xla_errors.NOT_COMPILED as error:
        if jit_compile != AUTO:
            raise
        model.compiled_functions.failed_with_xla.add(work)
        _LOG.warning(
            "jit_compile='auto': %s runs without XLA, because XLA cannot compile it: %s",
            work,
            xla_errors.why_not_compiled(error),
        )
    return None
