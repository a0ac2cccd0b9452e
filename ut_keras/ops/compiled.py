"""A `tf.function` for one object, such as a model.

TensorFlow warns about retracing if functions that share their code are traced repeatedly. Several
models in one process share the code of their search, but each is traced once. TensorFlow counts the
calls of a `functools.partial` separately, because such an object has no code of its own.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def function(run: Callable[..., Any], input_signature: Sequence[Any]) -> Callable[..., Any]:
    """Return `run` as a `tf.function` with one signature, without AutoGraph."""
    return tf.function(functools.partial(run), input_signature=input_signature, autograph=False)
