"""A `tf.function` for one object, such as a model.

TensorFlow warns about retracing if functions that share their code are traced repeatedly. Several
models in one process share the code of their search, although each model is traced only once. A
`functools.partial` has no code object, so TensorFlow counts the traces of each partial separately.
This prevents the warning.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def function(
    run: Callable[..., Any], input_signature: Sequence[Any], jit_compile: bool = False
) -> Callable[..., Any]:
    """Return `run` as a `tf.function` with one signature, without AutoGraph."""
    return tf.function(
        functools.partial(run),
        input_signature=input_signature,
        autograph=False,
        jit_compile=jit_compile or None,
    )
