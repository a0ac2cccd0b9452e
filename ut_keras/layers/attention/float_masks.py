"""Converts masks to bool, and finds masks that other libraries add to logits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ut_keras.ops import private_api


def as_bool(mask: Any) -> tf.Tensor | None:
    """Return a mask of any dtype as bool, or None.

    Raises:
        tf.errors.InvalidArgumentError: if the mask has negative numbers. Other libraries add such
            masks to the logits. Here, the conversion to bool would exchange True and False.
    """
    if mask is None:
        return None
    mask = tf.convert_to_tensor(mask)
    if mask.dtype.is_floating:
        message = "A mask must be 1 at the positions to attend to and 0 elsewhere"
        with tf.control_dependencies([tf.debugging.assert_non_negative(mask, message)]):
            mask = tf.identity(mask)
    return tf.cast(mask, tf.bool)


def nan_if_negative(state: tf.Tensor, masks: Sequence[Any]) -> tf.Tensor:
    """Return `state`, or NaN if XLA compiles the call and a mask has negative numbers.

    XLA ignores the assertion in `as_bool`. On a GPU, `fit` of a Keras model uses XLA by default.

    Args:
        state: float tensor [B, S, D].
        masks: the masks of the call before their conversion to bool. Each may be None.
    """
    if not private_api.is_compiled_by_xla():
        return state
    for mask in masks:
        if mask is not None and (mask := tf.convert_to_tensor(mask)).dtype.is_floating:
            state = tf.where(tf.reduce_any(mask < 0), tf.constant(np.nan, state.dtype), state)
    return state
